"""The one place where heads are split and merged."""

from contextlib import nullcontext

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.compiler import is_compiling

from forecast.ops.autocast import autocast, float32_products


def split_heads(x: Float[Tensor, "B L D"], n_heads: int) -> Float[Tensor, "B H L E"]:
    """(B, L, D) -> (B, H, L, E), E = D / H; head h takes the h-th run of E columns."""
    return x.reshape(*x.shape[:2], n_heads, x.shape[-1] // n_heads).transpose(1, 2)


def merge_heads(x: Float[Tensor, "B H L E"]) -> Float[Tensor, "B L D"]:
    """(B, H, L, E) -> (B, L, D), the inverse of `split_heads`."""
    return x.transpose(1, 2).flatten(-2)


def mix_heads(x: Float[Tensor, "B H L E"]) -> Float[Tensor, "B L D"]:
    """(B, H, L, E) -> (B, L, D), scrambling heads and time: row r holds H consecutive steps of one head.

    What the authors call `mix` and use after the decoder's self-attention (Informer2020, models/attn.py at 29f2a73).
    A later step can land in an earlier row, so nothing after it is causal.
    """
    n_heads, length = x.shape[1:3]
    return x.flatten(1).reshape(x.shape[0], length, n_heads * x.shape[-1])


class OutputMap(nn.Linear):
    """A linear map in the precision of its weights, (..., D) -> (..., M), in mixed precision and TF32 too.

    What it gives is the forecast, and what best.ckpt is chosen by: bfloat16 would round it to three digits.
    """

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N M"]:
        """(..., D) -> (..., M)."""
        exact = float32_products("highest") if x.device.type == "cuda" and not is_compiling() else nullcontext()
        with autocast(x.device, None), exact:
            return F.linear(x.to(self.weight.dtype), self.weight, self.bias)
