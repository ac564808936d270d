"""Models that are too large: for the memory, or for the weights that a file holds."""

import contextlib
import re
from collections.abc import Iterator, Mapping

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from torch.nn.parameter import is_lazy

from forecast.errors import UserError

TOO_LARGE = re.compile(r"can't allocate memory|not enough memory|out of memory|[Oo]verflow")  # torch's words


@contextlib.contextmanager
def no_larger_than(weights: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Ends the building of a model in this block that has more parameters or parts than `weights` can be of.

    Raises UserError when a parameter is registered: no memory has been filled by then.
    """
    numbers = 2 * sum(weight.numel() for weight in weights.values()) + 2**16  # a part may be exchanged for another one
    parts = 50 * len(weights) + 1000

    def count(_owner: nn.Module, _name: str, part: nn.Module | nn.Parameter | None) -> None:
        nonlocal numbers, parts
        if isinstance(part, nn.Parameter) and not is_lazy(part):
            numbers -= part.numel()
        parts -= 1
        if numbers < 0 or parts < 0:
            raise UserError("it is larger than all the weights in the file")

    hooks = [register_module_parameter_registration_hook(count), register_module_module_registration_hook(count)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def is_too_large(error: BaseException) -> bool:
    """Whether what torch or Python could not do is to make weights of that size."""
    while error.__cause__ is not None:
        error = error.__cause__
    return isinstance(error, MemoryError | OverflowError) or TOO_LARGE.search(str(error)) is not None
