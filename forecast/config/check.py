"""`check_config`: every mistake in a config that can be seen before any data is read, in one message."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from omegaconf import DictConfig, OmegaConf

from forecast.config import rules
from forecast.config.hints import fits, signature, words
from forecast.config.settings import TrainSettings
from forecast.config.slots import check_slots, has_slots
from forecast.config.targets import SPECIAL, is_allowed, resolve_target, target_nodes
from forecast.config.values import CONF, Problems, chosen_groups, options, read_values, select
from forecast.errors import UserError, closest

# What the program hands in when it builds these, so that YAML need not and must not.
PROVIDED: Mapping[str, tuple[str, ...]] = {
    "model": ("window",),
    "logger": ("save_dir",),
}

S = TypeVar("S")


def check_config(cfg: DictConfig) -> None:
    """Check a config of train.py against the constructors that it names and the rules between its values.

    Raises one UserError with all problems: each on a line, with its YAML path, its value and the fix. Without one
    of its groups a config makes no sense: then that is all it says.
    """
    _check_groups(cfg)
    values, problems = read_values(cfg)
    groups = [folder.name for folder in CONF.iterdir() if folder.is_dir()]
    _check_settings(values, TrainSettings, problems, groups=groups)
    for path, node in target_nodes(values):
        _check_target(path, node, problems)
    _check_ranges(values, problems)
    _check_rules(values, problems)
    check_slots(values, problems)
    problems.report()


def _check_groups(cfg: DictConfig) -> None:
    """Raise UserError for each group that train.yaml chooses and the command line has deleted."""
    problems = Problems()
    for group, option in chosen_groups("train").items():
        if option is None:
            continue
        node = cfg.get(group)
        # What an experiment says about the group's keys stays behind when the group is deleted.
        built = "_target_" in OmegaConf.load(CONF / group / f"{option}.yaml")
        if group == "attention" and "_target_" in (cfg.get("model") or {}) and not has_slots(cfg):
            if node is not None:
                problems.say(group, "attention: this model has none; leave attention= and attention.KEY= out")
            continue
        if not isinstance(node, DictConfig) or (built and "_target_" not in node):
            valid = ", ".join(options(group, but="inherit"))
            problems.say(group, f"{group} is missing: say {group}=NAME, one of {valid}")
    problems.report()


def read_settings(cfg: DictConfig, schema: type[S]) -> S:
    """The plain keys of evaluate.yaml or predict.yaml as `schema`; groups are left out.

    Raises one UserError with all missing, unknown and wrongly typed keys.
    """
    values, problems = read_values(cfg)
    groups = [name for name in values if isinstance(values[name], Mapping) and "_target_" in values[name]]
    _check_settings(values, schema, problems, groups=groups)
    for path, node in target_nodes(values):
        _check_target(path, node, problems)
    _check_ranges(values, problems)
    problems.report()
    return _filled(values, schema)


def _filled(values: Mapping[str, Any], schema: type[S]) -> S:
    hints = {field.name: field.type for field in dataclasses.fields(schema)}  # type: ignore[arg-type]
    nested = {n: _filled(values[n], h) for n, h in hints.items() if dataclasses.is_dataclass(h)}  # type: ignore[arg-type]
    return schema(**{name: nested.get(name, values[name]) for name in hints})


def _check_settings(
    values: Mapping[str, Any], schema: Any, problems: Problems, *, groups: list[str], under: str = ""
) -> None:
    fields = {field.name: field.type for field in dataclasses.fields(schema)}
    for name, value in values.items():
        path = f"{under}{name}"
        nested: Any = fields.get(name)
        if dataclasses.is_dataclass(nested) and isinstance(value, Mapping):
            _check_settings(value, nested, problems, groups=[], under=f"{path}.")
        elif dataclasses.is_dataclass(nested):
            keys = ", ".join(f"{path}.{field.name}" for field in dataclasses.fields(nested))
            problems.add(path, value, f"it only has keys: say {keys}=VALUE")
        elif name in fields:
            _check_type(path, value, fields[name], problems)
        elif name not in groups:
            problems.add(path, value, f"unknown key.{closest(str(name), [*fields, *groups])}".removesuffix("."))
    for name in fields.keys() - values.keys():
        problems.missing(f"{under}{name}")


def _check_target(path: str, node: Mapping[str, Any], problems: Problems) -> None:
    """Compare the keys of one `_target_` node, and their plain values, with the constructor's signature."""
    try:
        target = resolve_target(node["_target_"], path)
    except UserError as error:
        problems.say(f"{path}._target_", str(error))
        return
    parameters = signature(target)
    named = {n: p for n, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    provided = PROVIDED.get(
        path.removesuffix("." + path.rsplit(".", 1)[-1]) if path.startswith("logger.") else path, ()
    )
    for key, value in node.items():
        here = f"{path}.{key}"
        if key in SPECIAL:
            continue
        if key in provided:
            problems.add(here, value, "the program sets this itself")
        elif key in named:
            _check_type(here, value, named[key].annotation, problems)
        elif not anything:
            where = f"{target.__name__} takes no '{key}'"
            problems.add(here, value, f"{where}.{closest(str(key), [n for n in named if n not in provided])}")
    if not node.get("_partial_"):
        for name, parameter in named.items():
            if parameter.default is parameter.empty and name not in node and name not in provided:
                problems.missing(f"{path}.{name}")


def _check_type(path: str, value: object, hint: Any, problems: Problems) -> None:
    if is_allowed(hint) and not isinstance(value, Mapping):
        problems.add(path, value, f"must be chosen as a group: {path.replace('.', '/')}=NAME")
    elif fits(value, hint) is False:
        near = closest(value, _literals(words(hint))) if isinstance(value, str) else ""
        problems.add(path, value, f"must be {words(hint)}.{near}".removesuffix("."))


def _literals(said: str) -> list[str]:
    return said.removeprefix("one of ").removesuffix(" or null").split(", ") if said.startswith("one of ") else []


def _check_ranges(values: Mapping[str, Any], problems: Problems) -> None:
    for path, value in _numbers(values):
        holds, says = rules.RANGES.get(path.rsplit(".", 1)[-1].split("[")[0], (None, ""))
        if holds and not holds(value):
            problems.add(path, value, says)


def _numbers(node: Any, path: str = "") -> Iterator[tuple[str, int | float]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _numbers(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _numbers(value, f"{path}[{index}]")
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield path, node


def _check_rules(values: Mapping[str, Any], problems: Problems) -> None:
    for rule in rules.RULES:
        found = [select(values, path) for path in rule.reads]
        if all(present for present, _ in found):
            read = [value for _, value in found]
            if not rule.holds(*read):
                shown = next(i for i, path in enumerate(rule.reads) if "_target_" not in path)
                problems.add(rule.reads[shown], read[shown], rule.says.format(*read))
