"""What all models share: how they are called, what they know of the data, reversible instance normalisation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from forecast.layers.window_scale import window_statistics
from forecast.models.spread import Spread
from forecast.ops.columns import take_columns
from forecast.ops.window_sums import WindowSums, window_sums

Options = dict[str, object]  # of a model that chooses some itself, by their names


@dataclass(frozen=True, kw_only=True)
class WindowShape:
    """What a model knows of the windows it will see.

    n_columns: C. targets: the numbers of the T forecast columns among the C. n_known: F. seq_len, label_len, pred_len:
    L, S, P; a decoder with a start token begins with the last S of the L known steps, the other models ignore S.
    covariates (K,): what the last K of the known features are, the others being the calendar: 0 for a number, n for
    one of n categories by its number, of which 0 stands for any that the training did not see. facts: the numbers of
    those among the K that are the same at all steps of a window, as facts of a series are. observed: the numbers of the
    columns, of the C, that stand beside the targets by their role; none where no column has a role. padding: the
    numbers of the known features, of the F, that are all 1 where a step fills the window in front of a short series;
    none where no window is filled. outputs: O, how many numbers a model gives for each target and step: 1, or those of
    its spread.
    """

    n_columns: int
    targets: tuple[int, ...]
    n_known: int
    seq_len: int
    label_len: int
    pred_len: int
    covariates: tuple[int, ...] = ()
    facts: tuple[int, ...] = ()
    observed: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    outputs: int = 1

    @property
    def n_targets(self) -> int:
        """T."""
        return len(self.targets)

    def target_columns(self, columns: Float[Tensor, "B L C *O"]) -> Float[Tensor, "B L T *O"]:
        """Of all columns the targets, in their order; no copy where each follows the one before it."""
        return take_columns(columns, self.targets)

    @property
    def widths(self) -> "Widths":
        """C, F and what the last of the F are, as an embedding takes them."""
        return {"n_columns": self.n_columns, "n_known": self.n_known, "covariates": self.covariates}


class Widths(TypedDict):
    """The keywords of an embedding that the data decide."""

    n_columns: int
    n_known: int
    covariates: tuple[int, ...]


class ForecastModel(nn.Module):
    """A model: past (B, L, C) scaled, past_known (B, L, F), future_known (B, P, F) -> forecast (B, P, T) scaled.

    It is called with what is known at the time of the forecast and nothing else. A subclass gives `forecast`.

    spread: what the O = window.outputs numbers of each target and step are; None: one, the forecast.

    instance_norm: each window's columns are brought to mean 0 and standard deviation 1 before the model sees them, and
    the forecast is brought back. Kim et al. 2022, "Reversible Instance Normalization", without its learned scale.

    mask_padding: what fills the window in front of a short series has no part in that.

    roles: of the columns beside the targets, those that it can use: known, among the known features; past, among the C
    columns; static, as known features that do not change.
    """

    roles: frozenset[str] = frozenset({"known", "past", "static"})
    trains_on_past = False  # whether `training_outputs` has steps of the past beside those of the forecast
    flexible = True  # whether it learns more than a map of the window's values: few windows hardly judge such a model
    copies = 1  # how many times over `training_outputs` has the windows of a batch

    def __init__(self, window: WindowShape, *, instance_norm: bool = False, mask_padding: bool = False) -> None:
        super().__init__()
        self.window = window
        self.padding = window.padding if mask_padding else ()
        self.instance_norm = instance_norm
        self.spread: Spread | None = None

    def forward(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P T"]:
        """Past (B, L, C) scaled, past_known (B, L, F), future_known (B, P, F) -> forecast (B, P, T) scaled."""
        predicted = self.predicted(past, past_known, future_known)
        return predicted if self.spread is None else self.spread.point(predicted)

    def predicted(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P T *O"]:
        """All that it says of the steps, scaled: the forecast (B, P, T), or its spread's parameters (B, P, T, O)."""
        targets = self.window.targets
        if not self.instance_norm:
            return self.as_parameters(self.forecast(past, past_known, future_known), targets)
        mean, std = window_statistics(past, self.padded(past_known))
        forecast = self.as_parameters(self.forecast((past - mean) / std, past_known, future_known), targets)
        return self.moved(forecast, take_columns(mean, targets), take_columns(std, targets))

    def padded(self, past_known: Float[Tensor, "B L F"]) -> Bool[Tensor, "B L"] | None:
        """Which rows fill the window in front of a short series, (B, L, F) -> (B, L); None where all count."""
        return (take_columns(past_known, self.padding) > 0).all(2) if self.padding else None

    def interval(
        self,
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        levels: Sequence[int | float],
    ) -> tuple[Float[Tensor, "B P T"], Float[Tensor, "B P T K"], Float[Tensor, "B P T K"]]:
        """The forecast (B, P, T) with the ends (B, P, T, K) of its central intervals, scaled, by one pass.

        levels: K of them, in per cent, as `Spread.interval` takes them. Without a spread both ends are the forecast.
        """
        predicted = self.predicted(past, past_known, future_known)
        if self.spread is None:
            ends = predicted.unsqueeze(-1).expand(*predicted.shape, len(levels))
            return predicted, ends, ends
        lower, upper = self.spread.interval(predicted, levels)
        return self.spread.point(predicted), lower, upper

    def add_spread(self, spread: Spread) -> None:
        """Has the model forecast with this spread, whose `n_outputs` its window has as `outputs`."""
        assert spread.n_outputs == self.window.outputs
        learned = self.learned_columns
        spread.for_columns(len(learned), [learned.index(target) for target in self.window.targets])
        self.spread = spread

    @property
    def learned_columns(self) -> tuple[int, ...]:
        """The numbers of the columns, of the C, that its training outputs are of: the targets, in their order."""
        return self.window.targets

    def as_parameters(self, raw: Float[Tensor, "B R M"], columns: Sequence[int]) -> Float[Tensor, "B R N *O"]:
        """What a model gives for N columns (B, R, N * O), as parameters (B, R, N, O); without a spread it as it is.

        Raises ValueError for a model that gives another number, as one does that knows nothing of `window.outputs`.
        """
        if self.spread is None:
            return raw
        if raw.shape[-1] != (numbers := len(columns) * self.window.outputs):
            raise ValueError(
                f"{type(self).__name__} gives {raw.shape[-1]} numbers for a step, and this loss needs {numbers}, "
                f"{self.window.outputs} for a column: let its class give window.outputs of them, or choose loss=mse"
            )
        return self.spread.from_raw(torch.unflatten(raw, -1, (-1, self.window.outputs)))

    def moved(
        self, predicted: Float[Tensor, "B R N *O"], mean: Float[Tensor, "B #R N"], std: Float[Tensor, "B 1 N"]
    ) -> Float[Tensor, "B R N *O"]:
        """A forecast, or the parameters of its spread, brought back from the units of an instance norm."""
        return predicted * std + mean if self.spread is None else self.spread.moved(predicted, mean, std)

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P M"]:
        """The forecast in the units of `past`: (B, L, C), (B, L, F), (B, P, F) -> (B, P, T).

        With a spread the raw numbers of its parameters, those of a target side by side: (B, P, T * O).
        """
        raise NotImplementedError

    def training_outputs(
        self,
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        future: Float[Tensor, "B P C"],
    ) -> tuple[Float[Tensor, "B R N *O"], Float[Tensor, "B R N"]]:
        """What a training step makes equal: the forecast and its truth, (B, P, T) each, scaled units.

        With a spread its parameters (B, P, T, O) stand in place of the forecast.

        The only method that takes the future, all its columns (B, P, C). A model that learns each step from the true
        steps before it overrides it, with rows and columns of its own; one whose rows are the last of the window, the
        past's among them, in all columns, says so with `trains_on_past`: then a panel's made-up cells are left out.
        What columns they are, where they are not the targets, it says with `learned_columns`.
        """
        return self.predicted(past, past_known, future_known), self.window.target_columns(future)

    def prepare(self, rows: "FittingRows", whole: "FittingRows | None" = None) -> Options:
        """Fits what is fitted before the first gradient step, here nothing; returns the options that it has chosen.

        whole: more rows, on whose train origins the weights of that choice are then fitted.
        """
        del rows, whole
        return {}

    @property
    def fitted_part(self) -> str | None:
        """The part that `prepare` fits, as its weights' names begin: such a model is judged before its first step."""
        return None

    def supports_horizon_offset(self) -> bool:
        """Whether the calendar says which steps to forecast: with that of later steps, the forecast is of those.

        A model that cannot forecasts the steps right after its window, whatever the calendar.
        """
        return False

    @property
    def look_back(self) -> int:
        """How many rows before the forecast `past` holds: seq_len, or more where a model reads further back."""
        return self.window.seq_len

    @classmethod
    def has_start_token(cls) -> bool:
        """Whether a decoder begins with the last label_len known steps; then label_len must be at most seq_len."""
        return False

    @classmethod
    def cached_slots(cls, options: Mapping[str, object]) -> tuple[str, ...]:
        """The attention slots that must be able to decode row by row, by the model's keys."""
        del options
        return ()


class Gathered(NamedTuple):
    """Some windows: past (B, L, T) and target (B, P, T) of the target columns; past_known (B, L, F), future_known
    (B, P, F).
    """

    past: Tensor
    past_known: Tensor
    future_known: Tensor
    target: Tensor


class WholeWindows(NamedTuple):
    """The numbers (W,) of windows in which every target was measured, and what gathers some of them."""

    numbers: npt.NDArray[np.int64]
    gather: Callable[[npt.NDArray[np.int64]], Gathered]


@dataclass(frozen=True, kw_only=True)
class FittingRows:
    """What a fitted model is fitted to.

    series (N, T) float64: the target columns, scaled. origins: from "train" or "val" and a look-back to the rows (W,),
    ascending, at which a forecast may begin: they and the pred_len - 1 after them lie in that split, so many before
    them may be read. period: steps in a season, None without one. sums: of the windows of D rows that begin at rows
    (W,) of (N, T), as `window_sums` gives them. val_share: of the val windows at least so many must have the rows that
    a look-back reads. windows: from a split and a look-back to whole windows, covariates included. train_mean: gives
    the mean (T,) of the measured values in the train rows, scaled. seasons: steps in each season that the calendar has
    of the data's frequency, ascending.
    """

    series: Float[Tensor, "N T"]
    origins: Callable[[str, int], npt.NDArray[np.int64]]
    period: int | None
    windows: Callable[[str, int], WholeWindows]
    train_mean: Callable[[], Float[Tensor, "T"]]
    sums: Callable[[Tensor, npt.NDArray[np.int64], int], WindowSums] = window_sums
    val_share: float = 0.5
    seasons: Sequence[int] = ()


class FittedModel(ForecastModel):
    """A model without gradients: `fit` finds its weights at once, and what its options leave open.

    It forecasts each target from its own past. A subclass gives `fit` and `extend`.

    fits_each_window: whether a forecast is itself a fit, which takes time and which no program can hold.
    """

    roles = frozenset()
    fits_each_window = False

    def fit(self, rows: FittingRows) -> Options:
        """Takes its weights from the rows; returns the options of its constructor as they are now.

        A model made with these has weights of the same shapes. Whatever has to be chosen is chosen on the val origins.
        """
        raise NotImplementedError

    def refit(self, rows: FittingRows, whole: FittingRows, held_out: Options) -> Options:
        """As `fit`, with what `rows` choose, and the weights that this choice gives on the train origins of `whole`.

        held_out: the options as `fit` returned them for `rows`: what depends on more than these, as on a machine's
        speed, stays as it is there. A model without weights takes nothing from either.
        """
        del whole, held_out
        return self.fit(rows)

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P T"]:
        """Past (B, L, C), L = look_back -> forecast (B, P, T); the known features are not used."""
        del past_known, future_known
        return self.extend(self.window.target_columns(past))

    def extend(self, past: Float[Tensor, "B L T"]) -> Float[Tensor, "B P T"]:
        """The targets' past (B, L, T) -> their future (B, P, T)."""
        raise NotImplementedError


def by_step(columns: Float[Tensor, "B T PO"], outputs: int) -> Float[Tensor, "B P M"]:
    """What a map of single columns gives, (B, T, P * O), by step, as `ForecastModel.forecast` has it: (B, P, T * O)."""
    if outputs == 1:
        return columns.transpose(1, 2)
    return torch.unflatten(columns, 2, (-1, outputs)).transpose(1, 2).flatten(2)


def with_placeholders(
    past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
) -> tuple[Float[Tensor, "B N C"], Float[Tensor, "B N F"]]:
    """The window continued by zeros, with the calendar of both: values (B, L + P, C), known features (B, L + P, F)."""
    placeholder = past.new_zeros(past.shape[0], future_known.shape[1], past.shape[2])
    return torch.cat([past, placeholder], dim=1), torch.cat([past_known, future_known], dim=1)
