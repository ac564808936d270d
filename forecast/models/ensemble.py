"""Several networks trained side by side, whose mean is the forecast."""

import copy
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.models.base import FittingRows, ForecastModel, Options
from forecast.models.spread import Spread


class Ensemble(ForecastModel):
    """The mean forecast of networks that differ in what they drew: their first weights and their dropout.

    Each learns from its own loss, on the same batches: a training step is one of every member, an epoch is chosen by
    the error of the mean. With a spread the mean is that of its parameters: of each quantile, or of location, scale and
    shape. Lakshminarayanan et al. 2017, "Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles",
    whose members see batches of their own.

    members: of one window, two or more; what one of them is fitted with before the training the others share.
    """

    def __init__(self, members: Sequence[ForecastModel]) -> None:
        super().__init__(members[0].window)
        self.members = nn.ModuleList(members)
        self.copies = len(members)
        self.roles, self.trains_on_past = members[0].roles, members[0].trains_on_past

    @property
    def each(self) -> list[ForecastModel]:
        """The members."""
        return [*self.members]

    @property
    def look_back(self) -> int:
        """That of a member."""
        return self.each[0].look_back

    @property
    def learned_columns(self) -> tuple[int, ...]:
        """Those of a member."""
        return self.each[0].learned_columns

    @property
    def fitted_part(self) -> str | None:
        """That of a member."""
        return self.each[0].fitted_part

    def prepare(self, rows: FittingRows, whole: FittingRows | None = None) -> Options:
        """Fits that part of the first member, and gives it to the others."""
        first, *others = self.each
        options = first.prepare(rows, whole)
        if first.fitted_part is not None:
            for other in others:
                setattr(other, first.fitted_part, copy.deepcopy(getattr(first, first.fitted_part)))
        return options

    def add_spread(self, spread: Spread) -> None:
        """Every member forecasts with this spread."""
        super().add_spread(spread)
        for member in self.each:
            member.add_spread(spread)

    def supports_horizon_offset(self) -> bool:
        """Whether its members do."""
        return self.each[0].supports_horizon_offset()

    def predicted(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P T *O"]:
        """The mean of what its members say."""
        return torch.stack([member.predicted(past, past_known, future_known) for member in self.each]).mean(0)

    def training_outputs(
        self,
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        future: Float[Tensor, "B P C"],
    ) -> tuple[Float[Tensor, "S R N *O"], Float[Tensor, "S R N"]]:
        """Those of all members, one after the other: S windows, `copies` times B."""
        outputs = [member.training_outputs(past, past_known, future_known, future) for member in self.each]
        forecasts, truths = zip(*outputs, strict=True)
        return torch.cat(forecasts), torch.cat(truths)
