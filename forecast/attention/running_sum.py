"""Sums over all steps so far, by a rule that gives the same bits on every call, on a GPU too."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


def running_sum(x: Float[Tensor, "B H L V"]) -> Float[Tensor, "B H L V"]:
    """At step t the sum of the steps 0 .. t: (B, H, L, V) -> (B, H, L, V), in float32, or float64 for float64.

    What `cumsum` gives, which some versions of torch refuse on a GPU under trainer.deterministic=true. Additions alone,
    in an order that the length decides. No product with a triangle of ones: an infinite step would make the steps
    before it NaN, and a GPU may round what it multiplies.
    """
    # float32 at least: a running sum loses digits, and overflows in float16
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    total: Tensor = RunningSum.apply(exact)  # type: ignore[no-untyped-call]
    return total


class RunningSum(torch.autograd.Function):
    """`running_sum` without a change of dtype; of its own, because autograd would keep a copy for each level."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """(B, H, L, V) -> (B, H, L, V)."""
        del ctx
        return summed(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """A step is part of all later sums."""
        del ctx
        return summed(grad.flip(2)).flip(2)


def summed(x: Tensor) -> Tensor:
    """The running sums over dimension 2, by blocks of two, four, eight .. steps.

    Brent and Kung 1982, "A Regular Layout for Parallel Adders": about 2 L additions in 2 log2(L) calls, each sum of at
    most 2 log2(L) numbers, so that its rounding grows with log2(L) and not with L.
    """
    total, length = x.clone(), x.shape[2]
    block = 1
    while 2 * block <= length:  # the last step of each pair of blocks gets the sum of both
        total[:, :, 2 * block - 1 :: 2 * block] += total[:, :, block - 1 : length - block : 2 * block]
        block *= 2
    while block > 1:  # the middle of each block but the first gets all that is before the block
        half = block // 2
        total[:, :, block + half - 1 :: block] += total[:, :, block - 1 : length - half : block]
        block = half
    return total
