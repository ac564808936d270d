"""Shape checks, each once: a function is checked again only for arguments, or results, of another shape or kind.

jaxtyping checks all of them at each call, which took as long as the models that it checked.
"""

import functools
import inspect
import types
from unittest import mock

import jaxtyping
import numpy as np

jaxtyped = jaxtyping.jaxtyped
PLAIN = {bool, int, float, str, type(None)}
TENSORS = set()  # their kinds whose sizes are numbers
UNUSUAL = ()
_checks = {}


class Unknown(Exception):
    """What has a size that is no number, as under torch.export: it is checked each time."""


def kind(value):
    """What a check can see of a value."""
    cls = type(value)
    if cls in TENSORS:
        return cls, value.dtype, value.shape
    if cls in PLAIN:
        return cls, value
    if cls is tuple or cls is list:
        return cls, *map(kind, value)
    if cls is np.ndarray:
        return cls, value.dtype.char, value.shape
    return other_kind(value) if isinstance(value, UNUSUAL) else cls


def other_kind(value):
    """Of what seldom comes."""
    if isinstance(value, dict):
        return type(value), *((name, kind(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return type(value), *map(kind, value)
    if not all(type(size) is int for size in value.shape):
        raise Unknown
    return type(value), value.dtype, tuple(value.shape)


class Checks:
    """The checks of one function, and what has passed them."""

    def __init__(self, function, typechecker):
        self.passed, self.calls = set(), []
        calls = self.calls

        def given(*_, **__):
            return calls.pop()()

        stub = types.FunctionType(given.__code__, function.__globals__, closure=given.__closure__)
        stub.__signature__ = inspect.signature(function)
        for name in ("__name__", "__qualname__", "__module__"):
            setattr(stub, name, getattr(function, name))
        self.make = functools.partial(jaxtyped(typechecker=typechecker), stub)

    @functools.cached_property
    def checked(self):
        """Made when it is first called: for most functions of a process never."""
        return self.make()

    def around(self, call, args, kwargs):
        """The result of the call, checked as its arguments are."""
        self.calls.append(call)
        before = len(self.calls)
        try:
            return self.checked(*args, **kwargs)
        finally:
            del self.calls[before - 1 :]  # where the arguments were refused

    def __call__(self, function, args, kwargs):
        try:
            key = (*map(kind, args), *map(kind, kwargs.items())) if kwargs else (*map(kind, args),)
        except Unknown:
            return self.around(lambda: function(*args, **kwargs), args, kwargs)
        if key not in self.passed:
            result = self.around(lambda: function(*args, **kwargs), args, kwargs)
            self.passed.add(key)
            self.passed.add((key, kind(result)))
            return result
        result = function(*args, **kwargs)
        if (whole := (key, kind(result))) not in self.passed:
            self.around(lambda: result, args, kwargs)
            self.passed.add(whole)
        return result


def jaxtyped_once(function=None, *, typechecker=None):
    """In place of jaxtyping.jaxtyped, as its import hook uses it."""
    if function is None:
        return functools.partial(jaxtyped_once, typechecker=typechecker)
    if not isinstance(function, types.FunctionType):
        return jaxtyped(function, typechecker=typechecker)
    if not TENSORS:
        know_torch()
    # A function inside another is made at each call of that.
    if (checks := _checks.get(function.__code__)) is None:
        checks = _checks[function.__code__] = Checks(function, typechecker)

    @functools.wraps(function)
    def once(*args, **kwargs):
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        return checks(function, args, kwargs)

    return once


def know_torch():
    """When the first module is imported that has it: see one_thread in conftest.py."""
    global UNUSUAL  # noqa: PLW0603
    import torch

    TENSORS.update({torch.Tensor, torch.nn.Parameter})
    UNUSUAL = (torch.Tensor, dict, list, tuple)


def each_shape_once():
    """For all modules that are imported from now on."""
    mock.patch.object(jaxtyping, "jaxtyped", jaxtyped_once).start()
