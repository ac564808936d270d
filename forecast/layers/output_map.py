"""The map from a network to its forecast."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from forecast.ops.autocast import autocast


class OutputMap(nn.Linear):
    """A linear map in the precision of its weights, (..., D) -> (..., M), also where a training is in mixed precision.

    What it gives is the forecast, and what best.ckpt is chosen by: bfloat16 would round it to three digits.
    """

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N M"]:
        """(..., D) -> (..., M)."""
        with autocast(x.device, None):
            return F.linear(x.to(self.weight.dtype), self.weight, self.bias)
