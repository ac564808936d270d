"""A weighted mean of models that were trained on the same rows, as one model."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from typing_extensions import TypedDict

from forecast.bounds import CalendarEncoding, Positive
from forecast.models.base import FittedModel, ForecastModel, WindowShape
from forecast.models.ensemble import Ensemble


class Member(TypedDict):
    """A member as the config of a fitted ensemble names it."""

    model: Callable[..., ForecastModel]
    window: Mapping[str, object]
    networks: int
    columns: list[int]
    known: list[int]


class WeightedEnsemble(FittedModel):
    """The mean of its members' forecasts, with weights that are not negative and sum to one, by block of steps.

    Stacked regressions (Breiman 1996), on the validation windows: `training.combined` finds the weights, and keeps the
    members' own beside them, so that a checkpoint needs no other file.

    window: the data's sizes; its columns and known features are all that any member sees. runs: the folders of the
    members' trainings, which that training reads, and nothing else. embedding: how the members want their calendar.
    members: as it has found them: of each `model`, which takes a window, the fields of that `window`, how many networks
    its training had as `networks`, and the numbers of the `columns` and `known` features here that it sees. blocks: K,
    how many sets of weights there are; each block of steps, as long as the others or one longer, has one. by_series:
    whether each series has factors of these weights of its own, by its number, the last known feature; 0 is any other.
    """

    roles = ForecastModel.roles

    def __init__(
        self,
        *,
        window: WindowShape,
        runs: Sequence[str] = (),
        embedding: CalendarEncoding = "timeF",
        members: Sequence[Mapping[str, object]] = (),
        blocks: Positive = 1,
        by_series: bool = False,
    ) -> None:
        super().__init__(window)
        configured = cast(Sequence[Member], members)
        self.members = nn.ModuleList(as_member(**member) for member in configured)
        self.columns = [list(member["columns"]) for member in configured]
        self.known = [list(member["known"]) for member in configured]
        for key, numbers, count in (("columns", self.columns, window.n_columns), ("known", self.known, window.n_known)):
            if wrong := [number for some in numbers for number in some if number not in range(count)]:
                raise ValueError(f"model.members: {key} has {wrong[0]!r}, and there are the numbers 0 to {count - 1}")
        self.register_buffer("weights", torch.full((blocks, len(members)), 1 / max(1, len(members))))
        self.by_series = by_series
        if by_series:
            self.register_buffer("factors", torch.ones(window.covariates[-1], len(members)))
        self.fits_each_window = any(getattr(member, "fits_each_window", False) for member in self.each)

    @property
    def each(self) -> list[ForecastModel]:
        """The members."""
        return [*self.members]

    @property
    def look_back(self) -> int:
        """What the member reads that reads furthest back."""
        return max([self.window.seq_len, *(member.look_back for member in self.each)])

    def supports_horizon_offset(self) -> bool:
        """Whether all members do."""
        return all(member.supports_horizon_offset() for member in self.each)

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P T"]:
        """The weighted mean: (B, L, C), L = look_back -> (B, P, T). A member without a weight is not asked."""
        weights = self.weights_by_step()
        if self.by_series:
            weights = weights * self.get_buffer("factors")[numbers_of_series(future_known), None]  # (B, P, M)
            weights = weights / weights.sum(-1, keepdim=True)
        # a compiled program has the same parts whatever the weights are
        used = [i for i in range(len(self.each)) if torch.compiler.is_compiling() or bool(weights[..., i].any())]
        forecasts = self.forecasts(past, past_known, future_known, numbers=used)
        return sum(forecast * weights[..., i, None] for i, forecast in zip(used, forecasts, strict=True))  # type: ignore[return-value]

    def forecasts(
        self,
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        *,
        numbers: Sequence[int] | None = None,
    ) -> list[Float[Tensor, "B P T"]]:
        """What each member says. numbers: of some members; None: of all."""
        members = range(len(self.each)) if numbers is None else numbers
        return [
            member(
                past[:, -member.look_back :, columns],
                past_known[:, -member.look_back :, known],
                future_known[:, :, known],
            )
            for member, columns, known in ((self.each[i], self.columns[i], self.known[i]) for i in members)
        ]

    def weights_by_step(self) -> Float[Tensor, "P M"]:
        """The weights of each step."""
        return self.get_buffer("weights")[blocks_of(self.window.pred_len, len(self.get_buffer("weights")))]


def as_member(
    *, model: Callable[..., ForecastModel], window: Mapping[str, object], networks: int, **_: object
) -> ForecastModel:
    """A member with fresh weights, from what the ensemble's config says of it."""
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in window.items()}
    members = [model(window=WindowShape(**fields)) for _ in range(networks)]  # type: ignore[arg-type]  # as saved
    return members[0] if networks == 1 else Ensemble(members)


def numbers_of_series(known: Float[Tensor, "B P F"]) -> Int[Tensor, "B"]:
    """Those of the windows, by the last known feature: 0 of a series that the training did not have."""
    return known[:, 0, -1].round().long()


def blocks_of(pred_len: int, count: int) -> Tensor:
    """To which of `count` blocks each of the steps (P,) belongs, as even as can be; a step alone is the least block."""
    return torch.arange(pred_len) * count // pred_len
