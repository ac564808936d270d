"""Dropout whose cost on a CPU grows with the dropped elements, and large tensors that are computed again."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks

from forecast.ops.context import Context


def drop(x: Float[Tensor, "..."], p: float, *, training: bool, inplace: bool = False) -> Float[Tensor, "..."]:
    """Each element is zero with probability p and scaled by 1 / (1 - p) else, independent of the others, in training.

    x and the result have one shape, any. Hinton et al. 2012, "Improving neural networks by preventing co-adaptation of
    feature detectors". On a GPU, and inside torch.compile, it is torch's own. On a CPU that draws a number for each
    element on one thread; here a number is drawn for each dropped one. The draws are decided by torch's global
    generator, and the backward pass keeps the dropped places, not a mask. inplace: x itself becomes the result; it
    must not be needed any more, not by a backward pass either.
    """
    return drop_alike(x, p, training=training, inplace=inplace)(x)


def drop_alike(
    like: Float[Tensor, "..."], p: float, *, training: bool, inplace: bool = False
) -> Callable[[Tensor], Tensor]:
    """A `drop` that takes the same elements out of each tensor of `like`'s size; where torch draws, others at each."""
    if not training or p == 0.0:
        return lambda x: x
    # where all are dropped the scale would be 1 / 0
    if p == 1.0 or not eager_on_cpu(like):
        return lambda x: F.dropout(x, p, inplace=inplace)
    places, scale = dropped_places(like.numel(), p), 1.0 / (1.0 - p)

    def alike(x: Tensor) -> Tensor:
        # in place only where memory has the order in which the places are counted
        return DropPlaces.apply(x, places, scale, inplace and x.is_contiguous())  # type: ignore[no-untyped-call]

    return alike


def dropped_places(count: int, p: float) -> Int[Tensor, " N"]:
    """Which of `count` elements are dropped, in ascending order: (N,), each with probability p in (0, 1).

    The distance from one dropped element to the next is geometric: 1 and the whole part of an exponential variable of
    rate -ln(1 - p).
    """
    seed = int(torch.randint(2**63 - 1, ()))  # torch's state alone decides, so that a resumed training goes on
    generator = np.random.Generator(np.random.SFC64(seed))
    enough = math.ceil(count * p + 6 * math.sqrt(count * p) + 8)  # six standard deviations: one batch, nearly always
    batches, last = [], -1
    while last < count:
        gaps = generator.standard_exponential(enough)
        # log1p, because 1 - p would lose the digits of a small p
        gaps /= -math.log1p(-p)
        # a gap beyond the end may be beyond int64, too
        places = last + np.cumsum(np.minimum(gaps, count).astype(np.int64) + 1)
        batches.append(places)
        last = int(places[-1])
    places = batches[0] if len(batches) == 1 else np.concatenate(batches)
    return torch.from_numpy(places[: places.searchsorted(count)])


class DropPlaces(torch.autograd.Function):
    """x times `scale`, but 0 at `places` (N,) of its elements counted row by row. inplace: x itself, contiguous."""

    @staticmethod
    def forward(ctx: Context[float], x: Tensor, places: Tensor, scale: float, inplace: bool) -> Tensor:
        """(...) -> (...)."""
        ctx.save_for_backward(places)
        ctx.kept = scale
        if not inplace:
            return scaled_and_dropped(x, places, scale)
        ctx.mark_dirty(x)
        x.mul_(scale).view(-1).index_fill_(0, places, 0.0)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[float], grad: Tensor) -> tuple[Tensor, None, None, None]:
        """Dropped elements have no gradient."""
        return scaled_and_dropped(grad, ctx.saved_tensors[0], ctx.kept), None, None, None


def scaled_and_dropped(x: Tensor, places: Tensor, scale: float) -> Tensor:
    """A new contiguous tensor of x's shape."""
    # a product keeps the strides of x: a turned x would have its places counted in another order
    scaled = (x * scale).contiguous()
    scaled.view(-1).index_fill_(0, places, 0.0)
    return scaled


class Dropout(nn.Dropout):
    """torch's layer, by `forecast.ops.dropout.drop`: p is the share of elements that is dropped in training."""

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Any shape -> the same shape."""
        return drop(x, self.p, training=self.training, inplace=self.inplace)


def eager_on_cpu(x: Tensor) -> bool:
    """Whether x lies on a CPU and nothing is being compiled: GPUs and compilers have better forms of their own."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


# Tensors up to this size are stored anyway: computing them again would cost a hundredth of a step and save little.
MOST_STORED = 2**22


def recomputed(tensor: Tensor, make: Callable[[], Tensor]) -> AbstractContextManager[object]:
    """Operations inside do not store a large `tensor` for their backward pass, which calls `make` instead.

    make: returns the same numbers in a new tensor of that shape, from tensors that are stored anyway. It is called on a
    CPU alone: torch's dropout on a GPU would draw other numbers.
    """
    # the size comes last: in an exported program it is not known
    if not eager_on_cpu(tensor) or not torch.is_grad_enabled() or tensor.numel() <= MOST_STORED:
        return nullcontext()
    # autograd saves another tensor object over the same memory, often of another shape: the address and the size tell
    address, size, dtype = tensor.data_ptr(), tensor.numel(), tensor.dtype

    def pack(saved: Tensor) -> Tensor | torch.Size:
        same = saved.data_ptr() == address and saved.numel() == size and saved.dtype == dtype
        return saved.shape if same else saved

    def unpack(packed: Tensor | torch.Size) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        with torch.no_grad():
            return make().view(packed)

    return saved_tensors_hooks(pack, unpack)
