"""The naive forecasts, as models."""

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.bounds import Positive
from forecast.models.base import FittedModel, FittingRows, Options, WindowShape


class LastValue(FittedModel):
    """The last value, repeated. window: the data's sizes."""

    flexible = False

    def __init__(self, *, window: WindowShape) -> None:
        super().__init__(window)

    @property
    def look_back(self) -> int:
        """One row."""
        return 1

    def fit(self, rows: FittingRows) -> Options:
        """Nothing is left open."""
        del rows
        return {}

    def extend(self, past: Float[Tensor, "B L T"]) -> Float[Tensor, "B P T"]:
        """(B, L, T) -> (B, P, T)."""
        return past[:, -1:].expand(-1, self.window.pred_len, -1)


class SeasonalNaive(FittedModel):
    """The last season, repeated. Hyndman & Athanasopoulos, "Forecasting: Principles and Practice", section 5.2.

    window: the data's sizes. period: steps in a season; None: the season of the data, and without one a single step,
    which repeats the last value. offset: how many steps lie between the window and the first forecast step.
    """

    flexible = False

    def __init__(self, *, window: WindowShape, period: Positive | None = None) -> None:
        super().__init__(window)
        self.period = period or 1
        self.offset = 0
        self._given = period

    @property
    def look_back(self) -> int:
        """A season."""
        return self.period

    def fit(self, rows: FittingRows) -> Options:
        """The period, where none was given, is that of the data."""
        self.period = self._given or rows.period or 1
        return {"period": self.period}

    def extend(self, past: Float[Tensor, "B L T"]) -> Float[Tensor, "B P T"]:
        """(B, L, T) -> (B, P, T)."""
        steps = (torch.arange(self.window.pred_len, device=past.device) + self.offset) % self.period
        return past[:, past.shape[1] - self.period + steps]


class SeasonMean(FittedModel):
    """The mean of the last season, at every step: where most values are 0, their times tell nothing but how many are.

    window: the data's sizes. period: rows of the mean; None: the season of the data, and without one the window.
    """

    flexible = False

    def __init__(self, *, window: WindowShape, period: Positive | None = None) -> None:
        super().__init__(window)
        self.period = period or window.seq_len
        self._given = period

    @property
    def look_back(self) -> int:
        """The rows of the mean."""
        return self.period

    def fit(self, rows: FittingRows) -> Options:
        """The period, where none was given, is that of the data."""
        self.period = self._given or rows.period or self.window.seq_len
        return {"period": self.period}

    def extend(self, past: Float[Tensor, "B L T"]) -> Float[Tensor, "B P T"]:
        """(B, L, T) -> (B, P, T)."""
        return past[:, -self.period :].mean(1, keepdim=True).expand(-1, self.window.pred_len, -1)


class TrainMean(FittedModel):
    """The mean of the train rows, at every step: what white noise leaves to say. window: the data's sizes.

    Of a panel that of each series, as each is scaled by its own; with another scale, or refitted, one of all.
    """

    flexible = False
    mean: Tensor

    def __init__(self, *, window: WindowShape) -> None:
        super().__init__(window)
        self.register_buffer("mean", torch.zeros(window.n_targets))

    def fit(self, rows: FittingRows) -> Options:
        """Takes the mean; nothing else is left open."""
        self.mean.copy_(rows.train_mean())
        return {}

    def refit(self, rows: FittingRows, whole: FittingRows, held_out: Options) -> Options:
        """Takes that of the whole."""
        return self.fit(whole)

    def extend(self, past: Float[Tensor, "B L T"]) -> Float[Tensor, "B P T"]:
        """(B, L, T) -> (B, P, T)."""
        return self.mean.to(past.dtype).expand(len(past), self.window.pred_len, -1)
