"""Type annotations: whether a plain YAML value fits one, and in words what would."""

import inspect
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from forecast.bounds import Bound

SEQUENCES = (list, tuple, set, frozenset, Sequence, Iterable)
# annotation -> the types of YAML that fit, and their name. True is an int to Python, but fits bool alone.
PLAIN: typing.Mapping[Any, tuple[Any, str]] = {
    int: (int, "an integer"),
    float: (int | float, "a number"),
    bool: (bool, "true or false"),
    str: (str, "text"),
    Path: (str, "text"),
    None: (types.NoneType, "null"),
    types.NoneType: (types.NoneType, "null"),
    dict: (Mapping, "a mapping"),
    Mapping: (Mapping, "a mapping"),
}


def signature(target: Any) -> dict[str, inspect.Parameter]:
    """The parameters of a class or function; annotations written as text are evaluated where possible."""
    try:
        return dict(inspect.signature(target, eval_str=True).parameters)
    except (NameError, TypeError, SyntaxError):
        return dict(inspect.signature(target).parameters)


def fits(value: object, hint: Any) -> bool | None:
    """True or False; None when the annotation is not understood, or the value is to be built first."""
    if isinstance(value, Mapping) and "_target_" in value:
        return None
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return fits(value, parts[0])
    if origin in (Union, types.UnionType):
        fitting = [fits(value, part) for part in parts]
        # `str | Accelerator`: what is no text is nothing that YAML could hold.
        return True if True in fitting else (False if False in fitting else None)
    if origin is Literal:
        return any(value == valid and type(value) is type(valid) for valid in parts)
    base = origin or hint
    if base in SEQUENCES:
        return _fits_sequence(value, base, parts)
    valid, _ = PLAIN.get(base, (None, ""))
    return None if valid is None else isinstance(value, valid) and isinstance(value, bool) is (base is bool)


def _fits_sequence(value: object, base: Any, parts: tuple[Any, ...]) -> bool | None:
    if not isinstance(value, list | tuple):
        return False
    if base is tuple and parts and parts[-1] is not Ellipsis:
        return len(value) == len(parts) and all(fits(v, p) is not False for v, p in zip(value, parts, strict=True))
    return all(fits(v, parts[0]) is not False for v in value) if parts else True


def bound(hint: Any) -> Bound | None:
    """The bound of the numbers in an annotation: of `Positive`, `Positive | None`, `Sequence[Positive]`."""
    if isinstance(hint, Bound):
        return hint
    return next((inner for part in typing.get_args(hint) if (inner := bound(part))), None)


def words(hint: Any) -> str:
    """`int | None` is "an integer or null"; parts that YAML cannot hold are left out."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return words(parts[0])
    if origin in (Union, types.UnionType):
        # Literal["a"] | Literal["b"]: one list.
        literals = literals_of(hint)
        rest = [words(part) for part in parts if typing.get_origin(part) is not Literal]
        described = ["one of " + ", ".join(dict.fromkeys(map(str, literals))), *rest] if literals else rest
        return " or ".join(dict.fromkeys(word for word in described if word))
    if origin is Literal:
        return "one of " + ", ".join(map(str, parts))
    base = origin or hint
    if base in SEQUENCES:
        return f"a list of {len(parts)}" if base is tuple and parts and parts[-1] is not Ellipsis else "a list"
    return PLAIN.get(base, (None, ""))[1]


def literals_of(hint: Any) -> list[Any]:
    """What a Literal allows, also one in a union."""
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is Literal:
        return list(parts)
    in_union = typing.get_origin(hint) in (Union, types.UnionType)
    return [value for part in parts for value in literals_of(part)] if in_union else []
