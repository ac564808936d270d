"""Type annotations: whether a plain YAML value matches one, and in words what would."""

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Union

from typing_extensions import NotRequired, Required, Unpack

from forecast.bounds import Bound, Digits

UNIONS = (Union, types.UnionType)
UNPACKS = (Unpack, getattr(typing, "Unpack", Unpack))  # typing has its own from Python 3.11 on
SEQUENCES = (list, tuple, set, frozenset, Sequence, Iterable)
# annotation -> the types of YAML that match, and their name. True is an int to Python, but matches bool alone.
PLAIN: typing.Mapping[object, tuple[type | types.UnionType, str]] = {
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


def parameters(target: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """The parameters of a class or function, `**options: Unpack[Options]` as a keyword for each key of Options.

    Annotations written as text are evaluated where possible. The default of a key that may be left out is `...`: it is
    not known.
    """
    try:
        result = dict(inspect.signature(target, eval_str=True).parameters)
        rest = [p for p in result.values() if p.kind is p.VAR_KEYWORD and typing.get_origin(p.annotation) in UNPACKS]
        for parameter in rest:
            (options,) = typing.get_args(result.pop(parameter.name).annotation)
            for name, annotation in typing.get_type_hints(options, include_extras=True).items():
                qualifier = typing.get_origin(annotation)
                needed = name in options.__required_keys__ and qualifier is not NotRequired
                result[name] = inspect.Parameter(
                    name,
                    parameter.KEYWORD_ONLY,
                    default=parameter.empty if needed else ...,
                    annotation=typing.get_args(annotation)[0] if qualifier in (Required, NotRequired) else annotation,
                )
        return result
    except (NameError, TypeError, SyntaxError):
        return dict(inspect.signature(target).parameters)


def matches(value: object, annotation: object) -> bool | None:
    """True or False; None when the annotation is not understood, or the value is to be built first."""
    if isinstance(value, Mapping) and "_target_" in value:
        return None
    if typing.get_origin(annotation) is Annotated:
        annotation, value = typing.get_args(annotation)[0], as_annotated(value, annotation)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    base = origin or annotation
    if origin in UNIONS:
        results = [matches(value, part) for part in parts]
        # `str | Accelerator`: what is no text is nothing that YAML could hold.
        return True if True in results else (False if False in results else None)
    if origin is Literal:
        return any(value == valid and type(value) is type(valid) for valid in parts)
    if base in SEQUENCES:
        if not parts or not isinstance(value, list | tuple):
            return isinstance(value, list | tuple)
        types_of_items = parts if _has_fixed_length(base, parts) else parts[:1] * len(value)
        of_items = zip(value, types_of_items, strict=False)
        return len(value) == len(types_of_items) and all(matches(item, part) is not False for item, part in of_items)
    valid, _ = PLAIN.get(base, (None, ""))
    fits = None if valid is None else isinstance(value, valid) and isinstance(value, bool) is (base is bool)
    inner = value.items() if fits and parts and isinstance(value, Mapping) else ()
    pairs = [pair for items in inner for pair in zip(items, parts, strict=True)]
    return fits if not pairs else all(matches(item, part) is not False for item, part in pairs)


def as_annotated(value: object, annotation: object) -> object:
    """A value that matches, as its annotation has it: a number is its digits where the text may be one."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated and any(isinstance(part, Digits) for part in parts[1:]):
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if origin in UNIONS:
        return next((as_annotated(value, part) for part in parts if matches(value, part)), value)
    if origin is Sequence and isinstance(value, list | tuple):
        return [as_annotated(item, parts[0]) for item in value]
    if origin is Mapping and isinstance(value, Mapping):
        return {as_annotated(key, parts[0]): as_annotated(item, parts[1]) for key, item in value.items()}
    return value


def _has_fixed_length(base: object, parts: tuple[object, ...]) -> bool:
    return base is tuple and bool(parts) and parts[-1] is not Ellipsis


def bound(annotation: object) -> Bound | None:
    """The bound of the numbers in an annotation: of `Positive`, `Positive | None`, `Sequence[Positive]`."""
    if isinstance(annotation, Bound):
        return annotation
    return next((inner for part in typing.get_args(annotation) if (inner := bound(part))), None)


def expected(annotation: object) -> str:
    """`int | None` is "an integer or null"; parts that YAML cannot hold are left out."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    base = origin or annotation
    if origin is Annotated:
        return expected(parts[0])
    if literals := literals_of(annotation):  # Literal["a"] | Literal["b"]: one list
        rest = [expected(part) for part in parts if origin in UNIONS and typing.get_origin(part) is not Literal]
        names = ["one of " + ", ".join(dict.fromkeys(map(str, literals))), *rest]
    elif origin in UNIONS:
        names = [expected(part) for part in parts]
    elif base in SEQUENCES:
        return f"a list of {len(parts)}" if _has_fixed_length(base, parts) else "a list"
    else:
        return PLAIN.get(base, (None, ""))[1]
    return " or ".join(dict.fromkeys(name for name in names if name))


def literals_of(annotation: object) -> list[object]:
    """What a Literal allows, also one in a union."""
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is Literal:
        return list(parts)
    in_union = typing.get_origin(annotation) in UNIONS
    return [value for part in parts for value in literals_of(part)] if in_union else []
