"""A composed config as plain values, with a list of what could not be read on the way."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.errors import UserError

CONF = Path(__file__).resolve().parents[2] / "conf"


class Problems:
    """What is wrong, in the order found; one line for each YAML path, the first found."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._echoes: set[str] = set()

    def echo(self, path: str) -> None:
        """`path` only repeats another key: what is wrong with its value is said there."""
        self._echoes.add(path)

    def say(self, path: str, line: str) -> None:
        """Keep `line` unless `path` has one."""
        if path not in self._echoes:
            self._lines.setdefault(path, line)

    def add(self, path: str, value: object, text: str) -> None:
        """`path` has the wrong `value`."""
        self.say(path, f"{path}={shown(value)}: {text}")

    def missing(self, path: str) -> None:
        """`path` must be given."""
        self.say(path, f"{path} is missing: say {path}=VALUE")

    def report(self) -> None:
        """Raise one UserError with all lines; nothing when there are none."""
        if self._lines:
            raise UserError("\n".join(self._lines.values()))


def shown(value: object) -> str:
    """A value as one types it: null, true, text without quotes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def read_values(cfg: DictConfig) -> tuple[dict[str, Any], Problems]:
    """Plain containers, interpolations resolved, without `hydra`.

    Left out, and noted as a problem: `???` and what cannot be resolved. Left out silently: a node that only
    repeats another one (a model's slot that inherits), which is checked where it stands.
    """
    problems = Problems()
    values = _mapping(cfg, "", problems)
    values.pop("hydra", None)
    return values, problems


def _mapping(node: DictConfig, path: str, problems: Problems) -> dict[str, Any]:
    values = {}
    for key in node:
        here = f"{path}.{key!s}" if path else str(key)
        if here == "hydra":
            continue
        found, value = _one(node, key, here, problems)
        if found:
            values[str(key)] = value
    return values


def _sequence(node: ListConfig, path: str, problems: Problems) -> list[Any]:
    read = (_one(node, index, f"{path}[{index}]", problems) for index in range(len(node)))
    return [value for found, value in read if found]


def _one(node: Any, key: Any, path: str, problems: Problems) -> tuple[bool, Any]:
    if OmegaConf.is_missing(node, key):
        problems.missing(path)
        return False, None
    written = OmegaConf.is_interpolation(node, key)
    try:
        value = node[key]
    except (OmegaConfBaseException, RecursionError) as error:
        problems.say(*_unresolvable(path, node._get_node(key)._value(), error))
        return False, None
    if written and OmegaConf.is_config(value):
        return False, None
    if written and ":" not in str(node._get_node(key)._value()):
        problems.echo(path)
    if isinstance(value, DictConfig):
        return True, _mapping(value, path, problems)
    if isinstance(value, ListConfig):
        return True, _sequence(value, path, problems)
    return True, value


def _unresolvable(path: str, text: object, error: BaseException) -> tuple[str, str]:
    """The path under which the problem is kept, and its line."""
    if str(text).startswith("${attention.") and path.startswith(("attention.", "model.")):
        line = (
            "attention=inherit: only a model's slots can inherit (attention@model.cross_attention=inherit); "
            f"choose one of {', '.join(options('attention', but='inherit'))}"
        )
        return "attention", line
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return path, f"{path}={text}: cannot be resolved: {reason}"


def options(group: str, but: str = "") -> list[str]:
    """The choices of a config group: its YAML files."""
    return sorted(file.stem for file in (CONF / group).glob("*.yaml") if file.stem != but)


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts etth1_96 before etth1_192."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split("_")]


def chosen_groups(name: str) -> dict[str, str | None]:
    """The groups that conf/NAME.yaml chooses from, each with its option; None for one that is left open."""
    entries = OmegaConf.to_container(OmegaConf.load(CONF / f"{name}.yaml").defaults)
    assert isinstance(entries, list)
    return {group: option for entry in entries if isinstance(entry, dict) for group, option in entry.items()}


def select(values: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    """Whether `path` is in plain containers, and its value."""
    here: Any = values
    for part in path.split("."):
        if not isinstance(here, Mapping) or part not in here:
            return False, None
        here = here[part]
    return True, here
