"""Does a plain YAML value fit a type annotation, and how does one say in words what would?"""

import collections.abc
import inspect
import types
import typing
from pathlib import Path
from typing import Any, Literal, Union

SEQUENCES = (list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable)
WORDS = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "text",
    type(None): "null",
}


def signature(target: Any) -> dict[str, inspect.Parameter]:
    """The parameters of a class or function; annotations written as text are evaluated where possible."""
    try:
        return dict(inspect.signature(target, eval_str=True).parameters)
    except (NameError, TypeError, SyntaxError):
        return dict(inspect.signature(target).parameters)


def fits(value: object, hint: Any) -> bool | None:
    """True or False; None when the annotation is not understood, or the value is to be built first."""
    if isinstance(value, collections.abc.Mapping) and "_target_" in value:
        return None
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        found = [fits(value, part) for part in typing.get_args(hint)]
        # `str | Accelerator`: what is no text is nothing that YAML could hold.
        return True if True in found else (False if False in found else None)
    if origin is Literal:
        return any(value == valid and type(value) is type(valid) for valid in typing.get_args(hint))
    base = origin or hint
    if base in SEQUENCES:
        return _fits_sequence(value, base, typing.get_args(hint))
    if base in (dict, collections.abc.Mapping):
        return isinstance(value, collections.abc.Mapping)
    return _fits_plain(value, hint)


def _fits_plain(value: object, hint: Any) -> bool | None:
    if hint is bool:
        return isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint in (str, Path):
        return isinstance(value, str)
    if hint is None or hint is type(None):
        return value is None
    return None


def _fits_sequence(value: object, base: Any, parts: tuple[Any, ...]) -> bool | None:
    if not isinstance(value, list | tuple):
        return False
    if base is tuple and parts and parts[-1] is not Ellipsis:
        return len(value) == len(parts) and all(fits(v, p) is not False for v, p in zip(value, parts, strict=True))
    return all(fits(v, parts[0]) is not False for v in value) if parts else True


def words(hint: Any) -> str:
    """`int | None` is "an integer or null"; parts that YAML cannot hold are left out."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        # Literal["a"] | Literal["b"]: one list.
        literals = [value for part in parts if typing.get_origin(part) is Literal for value in typing.get_args(part)]
        rest = [words(part) for part in parts if typing.get_origin(part) is not Literal]
        found = ["one of " + ", ".join(dict.fromkeys(map(str, literals))), *rest] if literals else rest
        return " or ".join(dict.fromkeys(word for word in found if word))
    if origin is Literal:
        return "one of " + ", ".join(str(part) for part in parts)
    base = origin or hint
    if base in SEQUENCES:
        fixed = base is tuple and parts and parts[-1] is not Ellipsis
        return f"a list of {len(parts)}" if fixed else "a list"
    if base in (dict, collections.abc.Mapping):
        return "a mapping"
    return WORDS.get(base, "null" if base is None else "")
