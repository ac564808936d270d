"""A device without a GPU: tensors that say `meta`, hold their numbers, and are not mixed with those of the CPU."""

from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

CPU, META = torch.device("cpu"), torch.device("meta")
COPY, TO = torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default


@contextmanager
def other_device():
    """What is made on or moved to META is `Elsewhere`; an operation on tensors of both devices is an error.

    Allowed are copies and single numbers. A GPU takes more, such as an index on the CPU, and waits for each; torch's
    own kernels for `meta` let some through, are slower, and hold no numbers.
    """
    with Lists(), Computed():
        yield


class Elsewhere(torch.Tensor):
    """A tensor of the other device. held: its numbers, on the CPU, where the device computes."""

    @staticmethod
    def __new__(cls, held):
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        return torch.Tensor._make_wrapper_subclass(cls, held.size(), dtype=held.dtype, device=META, **layout)

    def __init__(self, held):
        self.held = held

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return computed(function, args, kwargs or {})


class Computed(TorchDispatchMode):
    """Sees every operation of torch, those that make a tensor too."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return computed(function, args, kwargs or {})


class Lists(TorchFunctionMode):
    """Keeps the numbers of Python's lists, which torch would put on `meta` before `Computed` sees them."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and isinstance(args[0], Elsewhere):
            tensor, index, *value = args
            parts = index if isinstance(index, tuple) else (index,)
            args = (
                tensor,
                tuple(torch.tensor(x, dtype=torch.long).to(META) if isinstance(x, list) else x for x in parts),
                *value,
            )
        elif function in (torch.tensor, torch.as_tensor) and kwargs.get("device") == META:
            return function(*args, **{**kwargs, "device": None}).to(META)
        return function(*args, **kwargs)


def computed(function, args, kwargs):
    """The result of an operation of torch, on the device where its tensors are or that it names."""
    there = []

    def held(tensor):
        on_meta = isinstance(tensor, Elsewhere)
        if on_meta or tensor.dim():
            there.append(on_meta)
        return tensor.held if on_meta else tensor

    held_args, held_kwargs = mapped(held, args), mapped(held, kwargs)
    if function not in (COPY, TO) and any(there) and not all(there):
        raise RuntimeError(f"{function} on tensors of the devices meta and cpu")
    on_meta = any(there)
    if kwargs.get("device") is not None:
        on_meta = torch.device(kwargs["device"]) == META
        held_kwargs["device"] = CPU
    result = function(*held_args, **held_kwargs)
    if function is COPY:
        return args[0]
    return return_and_correct_aliasing(function, args, kwargs, mapped(Elsewhere, result)) if on_meta else result


def mapped(function, value):
    """The value, its tensors replaced; torch's own tree_map takes as long as all the rest."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if type(value) in (tuple, list):
        return type(value)(mapped(function, item) for item in value)
    if type(value) is dict:
        return {key: mapped(function, item) for key, item in value.items()}
    return value
