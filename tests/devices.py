"""A device without a GPU: tensors that say `meta`, hold their numbers, and are not mixed with those of the CPU."""

import traceback
from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

CPU, META = torch.device("cpu"), torch.device("meta")
aten = torch.ops.aten
COPY, TO = aten.copy_.default, aten._to_copy.default
READ = (aten._local_scalar_dense.default, aten.nonzero.default, aten.masked_select.default)
INDEX = (aten.index.Tensor, aten.index_put_.default)
WAITS = []


@contextmanager
def other_device():
    """What is made on or moved to META is `Elsewhere`; an operation on tensors of both devices is an error.

    Allowed are copies and single numbers. A GPU takes more, such as an index on the CPU, and waits for each; torch's
    own kernels for `meta` let some through, are slower, and hold no numbers.

    Yields the list of what a program would wait for there: copies between both devices, lists of numbers, numbers and
    shapes that are read.
    """
    WAITS.clear()
    with Lists(), Computed():
        yield WAITS


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
                tuple(there(torch.tensor(x, dtype=torch.long)) if isinstance(x, list) else x for x in parts),
                *value,
            )
        elif function in (torch.tensor, torch.as_tensor) and kwargs.get("device") == META:
            return there(function(*args, **{**kwargs, "device": None}))
        return function(*args, **kwargs)


def there(tensor):
    """The tensor of a list, on META; a single number goes along with the operation that takes it."""
    if isinstance(tensor, Elsewhere):
        return tensor
    if tensor.dim():
        wait("a list of numbers")
    return Elsewhere(tensor)


def wait(what):
    """Notes a wait, and where the program asked for it."""
    places = [f"{f.filename}:{f.lineno}" for f in traceback.extract_stack() if "/forecast/" in f.filename]
    WAITS.append(f"{what} in {places[-1] if places else 'a test'}")


def computed(function, args, kwargs):
    """The result of an operation of torch, on the device where its tensors are or that it names."""
    places = []

    def held(tensor):
        on_meta = isinstance(tensor, Elsewhere)
        if on_meta or tensor.dim():
            places.append(on_meta)
        return tensor.held if on_meta else tensor

    held_args, held_kwargs = mapped(held, args), mapped(held, kwargs)
    if function not in (COPY, TO) and any(places) and not all(places):
        raise RuntimeError(f"{function} on tensors of the devices meta and cpu")
    on_meta = any(places)
    if kwargs.get("device") is not None:
        on_meta = torch.device(kwargs["device"]) == META
        held_kwargs["device"] = CPU
    by_mask = function in INDEX and any(x is not None and x.dtype == torch.bool for x in args[1])
    crossed = (function is TO and places and any(places) != on_meta) or (function is COPY and len({*places}) > 1)
    if crossed or (any(places) and (function in READ or by_mask)):
        wait(function)
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
