"""A loss of the frequencies of a forecast."""

from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.bounds import Bound

PART = Bound(lambda value: 0 <= value <= 1, "must be between 0 and 1")


class FrequencyLoss(nn.Module):
    """The mean absolute difference of the Fourier coefficients over the forecast steps, beside the squared error.

    Wang et al. 2025, "FreDF: Learning to Forecast in the Frequency Domain". The coefficients are divided by the square
    root of the number of steps, so that their sizes are those of the steps.

    share: of the frequencies; the rest is that of the mean squared error.
    """

    def __init__(self, *, share: Annotated[float, PART] = 0.5) -> None:
        super().__init__()
        self.share = share

    def forward(self, forecast: Float[Tensor, "B R N"], truth: Float[Tensor, "B R N"]) -> Float[Tensor, ""]:
        """Forecast and truth (B, R, N), scaled units -> a scalar."""
        difference = forecast - truth
        # float32, because torch has no Fourier transform of bfloat16
        coefficients = torch.fft.rfft(difference.float(), dim=1, norm="ortho").abs().mean()
        return self.share * coefficients + (1 - self.share) * difference.square().mean()
