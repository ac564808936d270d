"""What a key may hold: the annotations of constructors and of settings, judged by pydantic."""

import inspect
import json
import re
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Annotated

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails
from typing_extensions import NotRequired, Required, TypedDict, Unpack, is_typeddict

from forecast.bounds import Digits
from forecast.config.values import Problems
from forecast.errors import closest
from forecast.text.overrides import typed

UNPACKS = (Unpack, getattr(typing, "Unpack", Unpack))  # typing has its own from Python 3.11 on
# What a value may be that YAML cannot hold: a class or a function, which is built of a mapping.
SETTINGS = "__pydantic_config__"
CONFIG: Mapping[str, object] = {"strict": True, "extra": "forbid", "arbitrary_types_allowed": True}
UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")  # of a mapping, of a dataclass
QUOTED = "'([^']*)'"
OBJECTS = ("needs_python_object", "callable_type", "is_instance_of", "is_subclass_of")


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


def keywords(name: str, kinds: Mapping[str, object], *, needed: Collection[str], others: bool) -> object:
    """The annotation of a mapping with these keywords of a class. others: whether it takes further ones."""
    fields: dict[str, object] = {}
    for key, kind in kinds.items():
        fields[key] = Required[_supported_type(kind)] if key in needed else NotRequired[_supported_type(kind)]
    schema = TypedDict(name, fields)  # type: ignore[misc]
    setattr(schema, SETTINGS, {**CONFIG, "extra": "allow" if others else "forbid"})
    return schema


def _supported_type(annotation: object) -> object:
    """An annotation as pydantic can judge it; `object` where it cannot: text, a protocol, none at all."""
    if annotation in (inspect.Parameter.empty, ...) or isinstance(annotation, str):
        return object
    if has_keys(annotation):
        return annotation
    if is_typeddict(annotation):  # a slot of attention, whose nodes are checked by themselves
        return Mapping
    try:
        TypeAdapter(annotation, config=CONFIG).validate_json("null")  # type: ignore[arg-type]
    except ValidationError:
        return annotation
    except Exception:  # whatever pydantic or an annotation of a stranger raises
        return object
    return annotation


@cache
def _adapter(annotation: object) -> TypeAdapter[object]:
    return TypeAdapter(annotation, config=None if has_keys(annotation) else CONFIG)  # type: ignore[arg-type]


def validate(value: object, annotation: object) -> object:
    """A plain value as its annotation has it: a number as text where digits may be one. Raises ValidationError."""
    return _adapter(annotation).validate_json(json.dumps(value, default=str))


def as_annotated(value: object, annotation: object, path: str = "") -> object:
    """A value as its annotation has it: a number is its digits where the text may be one.

    UserError as `valid_value`.
    """
    return valid_value(value, annotation, path) if _takes_digits(annotation) else value


def _takes_digits(annotation: object) -> bool:
    return isinstance(annotation, Digits) or any(map(_takes_digits, typing.get_args(annotation)))


class _JsonSchema(GenerateJsonSchema):
    """A JSON schema in which what YAML cannot hold may be anything."""

    def handle_invalid_for_json_schema(self, schema: object, error_info: str) -> JsonSchemaValue:
        return {}


def json_schema(annotation: object) -> JsonSchemaValue:
    """The JSON schema of what a key may hold, as editors read it."""
    return _adapter(_supported_type(annotation)).json_schema(schema_generator=_JsonSchema)


def check_value(value: object, annotation: object, path: str, problems: Problems) -> object:
    """The value at `path` as its annotation has it; None where it does not match, and the problems say why."""
    try:
        return validate(value, annotation)
    except ValidationError as error:
        for place, wrong, text, kind in mistakes(error, value, annotation, path):
            if kind == "missing":
                problems.missing(place)
            else:
                problems.add(place, wrong, text, of_key=kind in UNKNOWN)
        return None


def valid_value(value: object, annotation: object, path: str = "") -> object:
    """The value at `path` as its annotation has it. Raises UserError with all that is wrong."""
    problems = Problems()
    result = check_value(value, annotation, path, problems)
    problems.report()
    return result


def mistakes(
    error: ValidationError, value: object, annotation: object, path: str
) -> Iterator[tuple[str, object, str, str]]:
    """Where a value is wrong, the wrong part, what it must be by any member of a union, and pydantic's word for it.

    One for each key.
    """
    entries: dict[str, list[tuple[str, ErrorDetails, object]]] = {}
    for entry in error.errors(include_url=False):
        place, here, kind = path, value, annotation
        for part in entry["loc"]:
            if isinstance(part, int) and isinstance(here, list) and part < len(here):
                place, here = f"{place}[{part}]", here[part]
            elif isinstance(here, Mapping) and has_keys(kind):
                place, here, kind = f"{place}.{part}".lstrip("."), here.get(part), fields_of(kind).get(str(part), kind)
        entries.setdefault(path + place.removeprefix(path).partition("[")[0], []).append((place, entry, kind))
    for errors in entries.values():
        deepest = max(place.count("[") for place, *_ in errors)
        group = [item for item in errors if item[0].count("[") == deepest]
        group = [item for item in group if item[1]["type"] not in OBJECTS] or group[:1]
        place, entry, kind = group[0]
        texts = dict.fromkeys(_requirement(*item) for item in group)
        in_list = bool(entry["loc"]) and isinstance(entry["loc"][-1], int)
        text = " or ".join(texts).replace(" or must be ", " or ")
        if text.startswith("must be ") and "[" not in place and type(None) in _union_members(kind):
            text += " or null"
        if type(entry["input"]) in (str, int, float) and any(item[1]["type"] == "list_type" for item in group):
            text += f". Set {typed(place, [entry['input']])}"
        yield (place, entry["input"], text, "" if in_list else entry["type"])


def _union_members(annotation: object) -> tuple[object, ...]:
    """Of a union, that of a key of keywords too."""
    parts = typing.get_args(annotation)
    return _union_members(parts[0]) if typing.get_origin(annotation) in (Required, NotRequired, Annotated) else parts


def _requirement(path: str, entry: ErrorDetails, annotation: object) -> str:
    """What a value must be, in pydantic's words and those of bounds."""
    text, kind, value = entry["msg"].removeprefix("Value error, "), entry["type"], entry["input"]
    text = text.replace("Input should be ", "must be ").replace("valid array", "list").replace("an object", "a mapping")
    if kind in UNKNOWN:
        key = path.rpartition(".")[2]
        near, name = closest(key, fields_of(annotation)), getattr(annotation, "__name__", "")
        text = f"{name} takes no '{key}'.{near or f' Leave it out: ~{path}'}"
        text = text if is_typeddict(annotation) else f"unknown key.{near}".removesuffix(".")
    elif kind == "literal_error" and isinstance(value, str):
        text = f"{text}.{closest(value, re.findall(QUOTED, entry['ctx']['expected']))}".removesuffix(".")
    elif has_keys(annotation) and kind != "value_error":
        text = f"it only has keys: say {', '.join(f'{path}.{key}' for key in fields_of(annotation))}=VALUE"
    elif kind == "missing":
        text = "an item more is needed"
    return text


def has_keys(annotation: object) -> bool:
    """Whether it is of settings, or of the keywords of a constructor."""
    return hasattr(annotation, SETTINGS)


def fields_of(annotation: object) -> dict[str, object]:
    """The keys of such an annotation with their own annotations; none for another type."""
    return typing.get_type_hints(annotation, include_extras=True) if has_keys(annotation) else {}
