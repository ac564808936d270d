"""Sums over all steps so far, by a rule that gives the same bits on every call, on a GPU too."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from forecast.ops.context import Context


def running_sum(x: Float[Tensor, "B H L V"], *, mean: bool = False) -> Float[Tensor, "B H L V"]:
    """At step t the sum of the steps 0 .. t: (B, H, L, V) -> (B, H, L, V), in float32, or float64 for float64.

    mean: their mean.

    What `cumsum` gives, which some versions of torch refuse on a GPU under trainer.deterministic=true. Additions alone,
    in an order that the length decides. No product with a triangle of ones: an infinite step would make the steps
    before it NaN, and a GPU may round what it multiplies.
    """
    # float32 at least: a running sum loses digits, and overflows in float16
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    counts = torch.arange(1, x.shape[2] + 1, device=x.device, dtype=exact.dtype).unsqueeze(-1) if mean else None
    return RunningSum.apply(exact, counts)  # type: ignore[no-untyped-call]


class RunningSum(torch.autograd.Function):
    """`running_sum` without a change of dtype; of its own, because autograd would keep a copy for each level."""

    @staticmethod
    def forward(ctx: Context[Tensor | None], x: Tensor, counts: Tensor | None) -> Tensor:
        """(B, H, L, V), what the sums are divided by (L, 1) -> (B, H, L, V)."""
        ctx.kept = counts
        # a copy: the sums are made in place, and x belongs to the caller
        total = sum_forwards(x.clone())
        return total if counts is None else total.div_(counts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[Tensor | None], grad: Tensor) -> tuple[Tensor, None]:
        """A step is part of all later sums."""
        # a copy or a quotient: autograd may give the same gradient to others
        return sum_backwards(grad.clone() if ctx.kept is None else grad / ctx.kept), None


def sum_forwards(total: Tensor) -> Tensor:
    """Turns steps (B, H, L, V) into the sums up to them, in place, by blocks of two, four, eight .. steps.

    Brent and Kung 1982, "A Regular Layout for Parallel Adders": about 2 L additions in 2 log2(L) calls, each sum of at
    most 2 log2(L) numbers, so that its rounding grows with log2(L) and not with L.
    """
    length = total.shape[2]
    block = 1
    # in place is safe: the steps that a level reads are never among those that it writes
    while 2 * block <= length:  # the last step of each pair of blocks gets the sum of both
        total[:, :, 2 * block - 1 :: 2 * block] += total[:, :, block - 1 : length - block : 2 * block]
        block *= 2
    while block > 1:  # the middle of each block but the first gets all that is before the block
        half = block // 2
        total[:, :, block + half - 1 :: block] += total[:, :, block - 1 : length - half : block]
        block = half
    return total


def sum_backwards(total: Tensor) -> Tensor:
    """The same from the other end: turns steps into the sums from them on, in place."""
    length = total.shape[2]
    block = 1
    while 2 * block <= length:
        # blocks are counted from the end: an incomplete one stands first
        first = length % (2 * block)
        total[:, :, first : length - block : 2 * block] += total[:, :, first + block :: 2 * block]
        block *= 2
    while block > 1:
        half = block // 2
        first = (length - half) % block
        total[:, :, first : length - block : block] += total[:, :, first + half : length - half : block]
        block = half
    return total
