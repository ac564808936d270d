"""`build`: the only place where what a `_target_` names is called, for the command line and for checkpoints alike."""

import functools
import inspect
import json
import re
import traceback
import typing
from collections.abc import Callable, Iterable, Mapping

from omegaconf import DictConfig, OmegaConf
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from typing_extensions import NotRequired, Required, TypedDict, Unpack, is_typeddict

from forecast.bounds import SHARE, Bound, Digits, at_least
from forecast.config.allow_list import SPECIAL, Target, resolve_target
from forecast.config.compose import PACKAGE, walk
from forecast.errors import UserError, closest
from forecast.text.overrides import typed

# RuntimeError: torch's, of sizes that do not fit into memory; ImportError: of Lightning's loggers, whose package is an
# extra. Lightning's own refusals are no ValueErrors; by name, so that it need not be imported.
REFUSALS = (ValueError, TypeError, RuntimeError, MemoryError, OverflowError, ModuleNotFoundError)
OF_LIGHTNING = "MisconfigurationException"


def build(node: Mapping[str, object] | DictConfig, **provided: object) -> object:
    """Build what the `_target_`s of `node` name; `provided` are further arguments of the outermost one.

    Every target is checked against the allow list before any is called. Mappings and lists without a `_target_` stay
    what they are, with their contents built.

    Raises UserError for a target that is not allowed and for what a constructor refuses.
    """
    plain = OmegaConf.to_container(node, resolve=True, throw_on_missing=True) if OmegaConf.is_config(node) else node
    for path, part in walk(plain):
        if isinstance(part, Mapping) and "_target_" in part:
            resolve_target(part["_target_"], path)
    return _build_part(plain, "", provided)


def _build_part(node: object, path: str, provided: Mapping[str, object]) -> object:
    """What a node makes; its innermost parts are made first."""
    if isinstance(node, list | tuple):
        return [_build_part(value, f"{path}[{index}]", {}) for index, value in enumerate(node)]
    if not isinstance(node, Mapping):
        return node
    parts = {
        key: _build_part(value, f"{path}.{key}".lstrip("."), {}) for key, value in node.items() if key not in SPECIAL
    }
    if "_target_" not in node:
        return parts
    target = resolve_target(node["_target_"], path)
    for name, parameter in parameters(target).items():
        if name in parts:
            parts[name] = as_annotated(parts[name], parameter.annotation, f"{path}.{name}".lstrip("."))
    make = functools.partial(target, **{**parts, **provided})
    return make if node.get("_partial_") else _call(make, path)


def _call(make: Callable[[], object], path: str) -> object:
    """Call; a constructor's refusal comes out as a UserError with its own words."""
    try:
        return make()
    except UserError:
        raise
    except Exception as error:
        if not isinstance(error, REFUSALS) and type(error).__name__ != OF_LIGHTNING:
            raise
        frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, TypeError) and frames[-1] != __file__ and frames[-1].startswith(str(PACKAGE)):
            raise  # not of the arguments: a bug of ours
        raise UserError(f"{path}: {error}" if path else str(error)) from error


UNPACKS = (Unpack, getattr(typing, "Unpack", Unpack))  # typing has its own from Python 3.11 on
SETTINGS = "__pydantic_config__"
CONFIG: Mapping[str, object] = {"strict": True, "extra": "forbid", "arbitrary_types_allowed": True}
UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")  # of a mapping, of a dataclass
QUOTED = "'([^']*)'"
# What a value may be that YAML cannot hold: a class or a function, which is built of a mapping.
OBJECTS = ("needs_python_object", "callable_type", "is_instance_of", "is_subclass_of")


class Problems:
    """What is wrong, in the order found; one line for each path, the first found.

    echoes: paths that only repeat another key: what is wrong there is reported at that key.
    """

    def __init__(self, echoes: Iterable[str] = ()) -> None:
        self.lines: dict[str, str] = {}
        self.echoes = frozenset(echoes)

    def add(self, path: str, value: object, text: str, *, of_key: bool = False) -> None:
        """`path` has the wrong `value`. of_key: there is no such key, whatever its value."""
        place = path.rpartition(".")[0] if of_key else path.partition("[")[0]
        if not any(f"{place}.".startswith(f"{echo}.") for echo in self.echoes):
            self.lines.setdefault(path, f"{path}={as_typed(value)}: {text}")

    def missing(self, path: str) -> None:
        """`path` must be given."""
        self.lines.setdefault(path, f"{path} is missing: say {path}=VALUE")

    def report(self) -> None:
        """Raise one UserError with all lines; nothing when there are none."""
        if self.lines:
            raise UserError("\n".join(self.lines.values()))


def as_typed(value: object) -> str:
    """A value as one types it: null, true, text without quotes."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def parameters(target: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """The parameters of a class or function, `**options: Unpack[Options]` as a keyword for each key of Options.

    Annotations written as text are evaluated where possible. The default of a key that may be left out is `...`: it is
    not known.
    """
    try:
        result = dict(inspect.signature(target, eval_str=True).parameters)
    except (NameError, TypeError, SyntaxError):
        return dict(inspect.signature(target).parameters)
    rest = [p for p in result.values() if p.kind is p.VAR_KEYWORD and typing.get_origin(p.annotation) in UNPACKS]
    for parameter in rest:
        (options,) = typing.get_args(result.pop(parameter.name).annotation)
        for name, annotation in typing.get_type_hints(options, include_extras=True).items():
            is_marked = typing.get_origin(annotation) in (Required, NotRequired)
            result[name] = parameter.replace(
                name=name,
                kind=parameter.KEYWORD_ONLY,
                default=parameter.empty if name in options.__required_keys__ else ...,
                annotation=typing.get_args(annotation)[0] if is_marked else annotation,
            )
    return result


def supported_type(annotation: object) -> object:
    """An annotation as pydantic can judge it; `object` where it cannot: text, a protocol, none at all."""
    if annotation in (inspect.Parameter.empty, ...) or isinstance(annotation, str):
        return object
    if is_typeddict(annotation) and not has_keys(annotation):  # a slot of attention, whose nodes are checked apart
        return Mapping
    try:
        adapter(annotation).validate_json("null")
    except ValidationError:
        return annotation
    except Exception:  # whatever pydantic or an annotation of a stranger raises
        return object
    return annotation


@functools.cache
def adapter(annotation: object) -> TypeAdapter[object]:
    """What judges the values of an annotation."""
    return TypeAdapter(annotation, config=None if has_keys(annotation) else CONFIG)  # type: ignore[arg-type]


def has_keys(annotation: object) -> bool:
    """Whether it is of settings, or of the keywords of a constructor."""
    return hasattr(annotation, SETTINGS)


def fields_of(annotation: object) -> dict[str, object]:
    """The keys of such an annotation with their own annotations; none for another type."""
    return typing.get_type_hints(annotation, include_extras=True) if has_keys(annotation) else {}


def as_annotated(value: object, annotation: object, path: str = "") -> object:
    """A value as its annotation has it: a number is its digits where the text may be one.

    UserError as `valid_value`.
    """
    return valid_value(value, annotation, path) if _takes_digits(annotation) else value


def _takes_digits(annotation: object) -> bool:
    return isinstance(annotation, Digits) or any(map(_takes_digits, typing.get_args(annotation)))


def valid_value(value: object, annotation: object, path: str = "") -> object:
    """The value at `path` as its annotation has it. Raises UserError with all that is wrong."""
    problems = Problems()
    result = check_value(value, annotation, path, problems)
    problems.report()
    return result


def check_value(value: object, annotation: object, path: str, problems: Problems) -> object:
    """The value at `path` as its annotation has it; None where it does not match, and the problems say why."""
    try:
        return adapter(annotation).validate_json(json.dumps(value, default=str))
    except ValidationError as error:
        entries: dict[str, list[tuple[str, ErrorDetails]]] = {}
        for entry in error.errors(include_url=False):
            place = _place(entry, value, path)
            entries.setdefault(path + place.removeprefix(path).partition("[")[0], []).append((place, entry))
        for pairs in entries.values():
            deepest = max((place for place, _ in pairs), key=len)  # what is wrong inside a list, if anything is
            _add(deepest, [entry for place, entry in pairs if place == deepest], annotation, problems)
        return None


def _place(entry: ErrorDetails, value: object, path: str) -> str:
    """Where a value is wrong; what else pydantic says of the place are the members of a union."""
    for part in entry["loc"]:
        if isinstance(value, Mapping) and (part in value or entry["type"] == "missing"):
            path, value = f"{path}.{part}".lstrip("."), value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            path, value = f"{path}[{part}]", value[part]
    return path


def _add(place: str, entries: list[ErrorDetails], annotation: object, problems: Problems) -> None:
    """A problem of a place, in the words of pydantic and of bounds: what it must be by any member of a union."""
    entries = [entry for entry in entries if entry["type"] not in OBJECTS] or entries[:1]
    value, kind, loc = entries[0]["input"], entries[0]["type"], entries[0]["loc"]
    if kind == "missing" and isinstance(loc[-1], str):
        problems.missing(place)
        return
    if kind in UNKNOWN:
        for part in loc[:-1]:
            annotation = fields_of(annotation).get(str(part), annotation)
        near = closest(place.rpartition(".")[2], fields_of(annotation))
        problems.add(place, value, f"unknown key.{near or f' Leave it out: ~{place}'}", of_key=True)
        return
    texts = dict.fromkeys(entry["msg"].removeprefix("Value error, ") for entry in entries)
    text = " or ".join(texts).replace("Input should be ", "must be ").replace(" or must be ", " or ")
    text = text.replace("valid array", "list").replace("an object", "a mapping")
    text = text.replace("Field required", "an item more is needed")
    names = re.findall(QUOTED, str(entries[0].get("ctx")))
    text += f".{closest(value, names)}".rstrip(".") if isinstance(value, str) else ""
    if isinstance(value, str | int | float) and any(entry["type"] == "list_type" for entry in entries):
        text += f". Set {typed(place, [value])}"
    problems.add(place, value, text)


# Where the program takes less than the class whose argument it is: a logger is chosen as a group, and processes that
# train together average their gradients.
NARROWER: Mapping[str, object] = {"trainer.logger": bool | None, "loss.reduction": typing.Literal["mean"]}
_NO_LIMIT = Bound(lambda value: value >= -1, "must be at least 0, or -1 for no limit")

# By path, for a number and each number of a list: what the signatures of torch and lightning do not say. Those of
# forecast's own classes do (forecast.bounds).
BOUNDS: Mapping[str, Bound] = {
    "optim.lr": Bound(lambda value: value > 0, "must be greater than 0"),
    "optim.betas": SHARE,
    "optim.weight_decay": at_least(0),
    "optim.momentum": at_least(0),
    "loss.delta": Bound(lambda value: value > 0, "must be greater than 0"),
    "trainer.log_every_n_steps": at_least(0),
    "trainer.gradient_clip_val": at_least(0),
    "trainer.max_epochs": _NO_LIMIT,
    "trainer.max_steps": _NO_LIMIT,
    "trainer.min_epochs": at_least(0),
    "trainer.min_steps": at_least(0),
    "trainer.num_sanity_val_steps": _NO_LIMIT,
    "trainer.accumulate_grad_batches": at_least(1),
}


@functools.cache
def keywords(target: Target, path: str, provided: tuple[str, ...], built: frozenset[str], *, partial: bool) -> object:
    """The annotation of what a node may hold; of one that makes a factory nothing is missing."""
    takes = parameters(target).values()
    fields: dict[str, object] = {}
    for parameter in takes:
        name, kind = parameter.name, parameter.annotation
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name in provided:
            continue
        place = f"{path}.{name}"
        kind = object if name in built else supported_type(NARROWER.get(place, kind))
        kind = typing.Annotated[kind, BOUNDS[place]] if place in BOUNDS else kind
        fields[name] = Required[kind] if parameter.default is parameter.empty and not partial else NotRequired[kind]
    schema = TypedDict(target.__name__, fields)  # type: ignore[misc]
    extra = "allow" if any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes) else "forbid"
    setattr(schema, SETTINGS, {**CONFIG, "extra": extra})
    return schema
