"""Forecasts of windows that were made before, or elsewhere, in the place of the model that made them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.models.base import ForecastModel


class BatchForecasts(NamedTuple):
    """The forecasts of B windows: point (B, P, T), scaled units.

    lower, upper (B, P, T, K): the ends of the model's own intervals; None where it has none, or none are asked for.
    """

    point: Float[Tensor, "B P T"]
    lower: Float[Tensor, "B P T K"] | None = None
    upper: Float[Tensor, "B P T K"] | None = None


class Replayed(ForecastModel):
    """Gives the forecasts of a model that were made elsewhere: those of its next batch at each call.

    batches: in the order in which the windows are asked for. What a call is given is not looked at, but for how many
    windows it has; ValueError where the forecasts are of another number.
    """

    def __init__(self, model: ForecastModel, batches: Iterator[BatchForecasts], *, device: torch.device) -> None:
        super().__init__(model.window)
        self.batches, self.device = batches, device

    def forward(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P T"]:
        """The point forecasts (B, P, T) of the next batch, scaled."""
        del past_known, future_known
        return self._next(len(past)).point.to(self.device)

    def interval(
        self,
        past: Float[Tensor, "B L C"],
        past_known: Float[Tensor, "B L F"],
        future_known: Float[Tensor, "B P F"],
        levels: Sequence[int | float],
    ) -> tuple[Float[Tensor, "B P T"], Float[Tensor, "B P T K"], Float[Tensor, "B P T K"]]:
        """The point forecasts (B, P, T) and the ends (B, P, T, K) of the next batch; without ends the points."""
        del past_known, future_known
        point, lower, upper = (None if part is None else part.to(self.device) for part in self._next(len(past)))
        assert point is not None
        if lower is None or upper is None:
            lower = upper = point.unsqueeze(-1).expand(*point.shape, len(levels))
        return point, lower, upper

    def _next(self, windows: int) -> BatchForecasts:
        forecasts = next(self.batches)
        if len(forecasts.point) != windows:
            raise ValueError(f"{len(forecasts.point)} windows were forecast elsewhere where {windows} are asked for")
        return forecasts
