"""Large tensors that are computed again for the backward pass instead of being stored."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks


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
