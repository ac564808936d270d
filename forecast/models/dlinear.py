"""DLinear."""

from typing import Annotated

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from forecast.bounds import between
from forecast.layers.heads import OutputMap
from forecast.models.base import ForecastModel, WindowShape, by_step


class DLinear(ForecastModel):
    """A linear map of a column's trend plus one of its remainder, shared by the columns.

    Past (B, L, C) -> forecast (B, P, T), scaled units.

    The trend is a moving average of the window, which goes on at its ends with its first and last value; the remainder
    is what it leaves.

    Zeng et al. 2023, "Are Transformers Effective for Time Series Forecasting?", section 4. A column is forecast from
    its own past: only the targets are computed. The known features and label_len are not used.

    window: the data's sizes. kernel_size: steps in the moving average; odd, so that it has a middle.
    Raises ValueError for an even kernel_size.
    """

    flexible = False
    roles = frozenset()

    def __init__(self, *, window: WindowShape, kernel_size: Annotated[int, between(1, 10**5)]) -> None:
        super().__init__(window)
        if kernel_size % 2 == 0:
            raise ValueError(
                f"model.kernel_size ({kernel_size}) must be odd, as many steps before a step as after it: "
                f"{kernel_size + 1} for instance"
            )
        self.kernel_size = kernel_size
        self.trend = OutputMap(window.seq_len, window.pred_len * window.outputs)
        self.remainder = OutputMap(window.seq_len, window.pred_len * window.outputs)

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P M"]:
        """Past (B, L, C) -> forecast (B, P, T); the known features are not used."""
        del past_known, future_known
        columns = self.window.target_columns(past).transpose(1, 2)  # (B, T, L)
        trend = moving_average(columns, self.kernel_size)
        forecast: Tensor = self.trend(trend) + self.remainder(columns - trend)
        return by_step(forecast, self.window.outputs)


def moving_average(columns: Float[Tensor, "B T L"], kernel_size: int) -> Float[Tensor, "B T L"]:
    """The mean of `kernel_size` steps around each step: (B, T, L) -> (B, T, L).

    Beyond its ends a column is taken to keep its first and its last value. kernel_size: odd.
    """
    beside = kernel_size // 2
    return F.avg_pool1d(F.pad(columns, (beside, beside), mode="replicate"), kernel_size, stride=1)
