"""NLinear."""

import torch
from jaxtyping import Float
from torch import Tensor

from forecast.layers.heads import OutputMap
from forecast.models.base import ForecastModel, WindowShape, by_step


class NLinear(ForecastModel):
    """A linear map of a column less its last value, which is added to the forecast; shared by the columns.

    Zeng et al. 2023, "Are Transformers Effective for Time Series Forecasting?", section 4. A column is forecast from
    its own past: only the targets are computed. The known features and label_len are not used. What gradient descent
    comes near to, the baseline closed_form_nlinear has exactly.

    window: the data's sizes.
    """

    flexible = False
    roles = frozenset()

    def __init__(self, *, window: WindowShape) -> None:
        super().__init__(window)
        self.map = OutputMap(window.seq_len, window.pred_len * window.outputs)

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P M"]:
        """Past (B, L, C) -> forecast (B, P, T); the known features are not used."""
        del past_known, future_known
        columns = self.window.target_columns(past).transpose(1, 2)  # (B, T, L)
        last = columns[:, :, -1:]
        forecast: Tensor = self.map(columns - last)
        if self.window.outputs == 1:
            return (forecast + last).transpose(1, 2)
        numbers = torch.unflatten(forecast, 2, (-1, self.window.outputs))  # (B, T, P, O)
        point = numbers[..., :1] + last.unsqueeze(3)  # the others are distances and scales
        return by_step(torch.cat([point, numbers[..., 1:]], dim=3).flatten(2), self.window.outputs)
