"""`check_config`: every mistake in a config that can be seen before any data is read, in one message."""

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from omegaconf import DictConfig, OmegaConf

from forecast.config import rules
from forecast.config.allow_list import SPECIAL, is_allowed, other_kind, resolve_target
from forecast.config.annotations import as_annotated, bound, expected, literals_of, matches, parameters
from forecast.config.model_roles import check_roles
from forecast.config.settings import TrainSettings
from forecast.config.slots import check_slots, has_slots
from forecast.config.values import CONF, Problems, chosen_groups, options, read_values, select
from forecast.data.reading.layout import Layout
from forecast.errors import UserError, closest
from forecast.text.program import install

# What the program hands in when it builds these, so that YAML need not and must not.
PROVIDED: Mapping[str, tuple[str, ...]] = {
    "model": ("window",),
    "logger": ("save_dir",),
    "optim": ("params",),
    "schedule": ("optimizer",),
    "trainer": ("callbacks",),
}

# Where the program takes less than the class whose argument it is: a logger is chosen as a group, and processes that
# train together average their gradients.
NARROWER: Mapping[str, object] = {"trainer.logger": bool | None, "loss.reduction": Literal["mean"]}

S = TypeVar("S")


def check_config(cfg: DictConfig) -> None:
    """Check a config of train against the constructors that it names and the rules between its values.

    Raises one UserError with all problems: each on a line, with its YAML path, its value and the fix. Missing
    groups are reported alone: without one of them the rest of a config cannot be judged.
    """
    _check_groups(cfg)
    values, problems = read_values(cfg)
    groups = [folder.name for folder in CONF.iterdir() if folder.is_dir()]
    _check_settings(values, TrainSettings, problems, groups=groups)
    for rule in rules.RULES:
        present, operands = zip(*(select(values, path) for path in rule.reads), strict=True)
        if all(present) and not rule.holds(*operands):
            pairs = list(zip(rule.reads, operands, strict=True))
            path, value = next((pair for pair in pairs if "_target_" not in pair[0]), pairs[0])
            problems.add(path, value, rule.message.format(*operands, install=install(rule.extra)))
    check_slots(values, problems)
    check_roles(values, problems)
    problems.report()


def _check_groups(cfg: DictConfig) -> None:
    """Raise UserError for each group that train.yaml chooses and the command line has deleted."""
    problems = Problems()
    without_slots = "_target_" in (cfg.get("model") or {}) and not has_slots(cfg)
    for group, option in chosen_groups("train").items():
        node = cfg.get(group)
        if group == "logger" and not node:  # logger=none, ~logger
            continue
        if group == "attention" and without_slots:
            if node is not None:
                problems.add_line(group, "attention: this model has none; leave attention= and attention.KEY= out")
        # What an experiment says about the group's keys stays when the group is deleted.
        elif option and (
            not isinstance(node, DictConfig) or (_names_a_class(group, option) and "_target_" not in node)
        ):
            valid = ", ".join(options(group, but="inherit"))
            problems.add_line(group, f"{group} is missing: say {group}=NAME, one of {valid}")
    problems.report()


@cache
def _names_a_class(group: str, option: str) -> bool:
    return "_target_" in OmegaConf.load(CONF / group / f"{option}.yaml")


def read_settings(cfg: DictConfig, schema: type[S]) -> S:
    """The plain keys of evaluate.yaml or predict.yaml as `schema`; groups are left out.

    Raises one UserError with all missing, unknown and wrongly typed keys.
    """
    values, problems = read_values(cfg)
    groups = [name for name in values if isinstance(values[name], Mapping) and "_target_" in values[name]]
    _check_settings(values, schema, problems, groups=groups)
    problems.report()
    return _filled(values, schema)


def settings_of(values: Mapping[str, object], schema: type[S]) -> S:
    """Those of plain values that are fields of `schema`; UserError for one that is missing, or wrong."""
    problems, own = Problems(), {field.name for field in dataclasses.fields(schema)}  # type: ignore[arg-type]
    _check_settings({key: value for key, value in values.items() if key in own}, schema, problems, groups=[])
    problems.report()
    return _filled(values, schema)


def check_reading(reading: Mapping[str, object]) -> None:
    """Raises one UserError with all keys of a layout that have a wrong value. Unknown keys are left to the source."""
    problems, kinds = Problems(), {field.name: field.type for field in dataclasses.fields(Layout)}
    for key, value in reading.items():
        if key in kinds:
            plain = list(value) if isinstance(value, tuple) else value
            _check_value(f"data.{key}", plain, kinds[key], problems)
    problems.report()


def _filled(values: Mapping[str, object], schema: type[S]) -> S:
    kinds = {field.name: field.type for field in dataclasses.fields(schema)}  # type: ignore[arg-type]
    nested = {n: _filled(values[n], k) for n, k in kinds.items() if dataclasses.is_dataclass(k)}  # type: ignore[arg-type]
    return schema(**{name: nested.get(name, as_annotated(values[name], kinds[name])) for name in kinds})


def _check_settings(
    values: Mapping[str, Any], schema: Any, problems: Problems, *, groups: list[str], under: str = ""
) -> None:
    """Check keys against the fields of a dataclass, their values, and all that lies below them."""
    fields = {field.name: field.type for field in dataclasses.fields(schema)}
    for name, value in values.items():
        path = f"{under}{name}"
        kind: object = fields.get(name, object)
        if not dataclasses.is_dataclass(kind):
            if name not in fields and name not in groups:
                problems.add(path, value, f"unknown key.{closest(str(name), [*fields, *groups])}".removesuffix("."))
            _check_value(path, value, kind, problems)
        elif isinstance(value, Mapping):
            _check_settings(value, kind, problems, groups=[], under=f"{path}.")
        else:
            keys = ", ".join(f"{path}.{field.name}" for field in dataclasses.fields(kind))
            problems.add(path, value, f"it only has keys: say {keys}=VALUE")
    for name in fields:
        if name not in values:
            problems.missing(f"{under}{name}")


def _check_value(path: str, value: Any, annotation: Any, problems: Problems) -> None:
    """Check one value against the annotation of its key, and all that lies below it."""
    annotation = NARROWER.get(path, annotation)
    limit = rules.BOUNDS.get(path) or bound(annotation)
    if is_allowed(annotation) and not isinstance(value, Mapping):
        problems.add(path, value, f"must be chosen as a group: {path.replace('.', '/')}=NAME")
    elif matches(value, annotation) is False:
        near = closest(value, map(str, literals_of(annotation))) if isinstance(value, str) else ""
        problems.add(path, value, f"must be {expected(annotation)}.{near}".removesuffix("."))
    elif limit and rules.are_numbers(value) and not limit.holds(value):
        problems.add(path, value, limit.message)
    elif isinstance(value, list):
        element = Annotated[object, limit] if limit else object
        for index, inner in enumerate(value):
            _check_value(f"{path}[{index}]", inner, element, problems)
    if isinstance(value, Mapping):
        annotations = _check_target(path, value, problems) if "_target_" in value else {}
        for key, inner in value.items():
            if key not in SPECIAL:
                _check_value(f"{path}.{key}", inner, annotations.get(key, object), problems)


def _check_target(path: str, node: Mapping[str, object], problems: Problems) -> dict[str, object]:
    """Compare the keys of a `_target_` node with its constructor's parameters; their annotations."""
    try:
        target = resolve_target(node["_target_"], path)
    except UserError as error:
        problems.add_line(f"{path}._target_", str(error))
        return {}
    if wrong := other_kind(target, path):
        problems.add(f"{path}._target_", node["_target_"], wrong)
        return {}
    takes = parameters(target).values()
    named = {p.name: p for p in takes if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in takes)
    for name in PROVIDED.get("logger" if path.startswith("logger.") else path, ()):
        if named.pop(name, None) and name in node:
            problems.add(f"{path}.{name}", node[name], "the program sets this itself")
    for key, value in node.items():
        if key not in named and key not in SPECIAL and not takes_any:
            cure = closest(str(key), named) or f" Leave it out: ~{path}.{key}"
            problems.add(f"{path}.{key}", value, f"{target.__name__} takes no '{key}'.{cure}")
    for name, parameter in named.items():
        if parameter.default is parameter.empty and name not in node and not node.get("_partial_"):
            problems.missing(f"{path}.{name}")
    return {name: parameter.annotation for name, parameter in named.items()}
