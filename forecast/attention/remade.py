"""Large tensors that are made again for the backward pass instead of being kept."""

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

# A tensor of fewer elements is kept: making it again costs a hundredth of a step, and saves little.
KEPT = 2**22


@contextlib.contextmanager
def remade(tensor: Tensor, make: Callable[[], Tensor]) -> Iterator[None]:
    """What is computed inside keeps no copy of a large `tensor` for its backward pass, which calls `make` for another.

    make: gives the same numbers in a new tensor of that shape, from what is kept anyway. Only on a CPU is it asked to:
    torch's dropout on a GPU would draw anew.
    """
    kept = tensor.numel() <= KEPT or tensor.device.type != "cpu" or torch.compiler.is_compiling()
    if kept or not torch.is_grad_enabled():
        yield
        return
    place, size, dtype = tensor.data_ptr(), tensor.numel(), tensor.dtype

    def pack(saved: Tensor) -> Tensor | torch.Size:
        is_it = saved.data_ptr() == place and saved.numel() == size and saved.dtype == dtype
        return saved.shape if is_it else saved

    def unpack(packed: Tensor | torch.Size) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        with torch.no_grad():
            return make().view(packed)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield
