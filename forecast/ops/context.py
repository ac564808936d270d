"""What the passes of a function of autograd's share."""

from abc import ABC
from typing import Generic, TypeVar

from torch import Tensor
from torch.autograd.function import BackwardCFunction, FunctionCtx

K = TypeVar("K")


class Context(FunctionCtx, ABC, Generic[K]):
    """The context that torch hands to both passes, with what the forward one leaves there beside tensors: `kept`."""

    saved_tensors: tuple[Tensor, ...]
    kept: K


Context.register(BackwardCFunction)  # torch's own classes, which know nothing of this one
