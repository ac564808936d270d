"""The map from a network to its forecast."""

from contextlib import nullcontext

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.compiler import is_compiling

from forecast.ops.autocast import autocast, float32_products


class OutputMap(nn.Linear):
    """A linear map in the precision of its weights, (..., D) -> (..., M), in mixed precision and TF32 too.

    What it gives is the forecast, and what best.ckpt is chosen by: bfloat16 would round it to three digits.
    """

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N M"]:
        """(..., D) -> (..., M)."""
        exact = float32_products("highest") if x.device.type == "cuda" and not is_compiling() else nullcontext()
        with autocast(x.device, None), exact:
            return F.linear(x.to(self.weight.dtype), self.weight, self.bias)
