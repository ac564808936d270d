"""A composed config as plain values, the list of its problems, and the groups and options that conf offers."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from omegaconf import Container, DictConfig, ListConfig, Node, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.errors import UserError
from forecast.text.terminal import label

LONGEST_VALUE, MOST_LINES = 200, 50  # characters of a value in a message; lines of it
PACKAGE = Path(__file__).resolve().parents[1]
# The config tree: in the installed package, or beside it in a checkout.
CONF = PACKAGE / "conf" if (PACKAGE / "conf").is_dir() else PACKAGE.parent / "conf"


class Problems:
    """What is wrong, in the order found; one line for each YAML path, the first found."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._echoes: set[str] = set()

    def echo(self, path: str) -> None:
        """Notes that `path` only repeats another key: a wrong value is reported at that key."""
        self._echoes.add(path)

    def add_line(self, path: str, line: str) -> None:
        """Keep `line` unless `path` has one."""
        self._lines.setdefault(path, line)

    def add(self, path: str, value: object, text: str, *, of_key: bool = False) -> None:
        """`path` has the wrong `value`. of_key: there is no such key, whatever its value."""
        if of_key or path not in self._echoes:
            self.add_line(path, f"{label(path)}={label(as_typed(value), LONGEST_VALUE)}: {text}")

    def missing(self, path: str) -> None:
        """`path` must be given."""
        self.add_line(path, f"{path} is missing: say {path}=VALUE")

    def report(self) -> None:
        """Raise one UserError with all lines; nothing when there are none."""
        if self._lines:
            lines = list(self._lines.values())
            more = [f"... and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
            raise UserError("\n".join([*lines[:MOST_LINES], *more]))


def as_typed(value: object) -> str:
    """A value as one types it: null, true, text without quotes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def read_values(cfg: DictConfig) -> tuple[dict[str, object], Problems]:
    """Plain containers, interpolations resolved, without `hydra`.

    Left out, and noted as a problem: `???` and what cannot be resolved. Left out silently: a node that only
    repeats another one (a model's slot that inherits), which is checked where it stands.
    """
    problems = Problems()
    values = _plain(cfg, "", problems)
    assert isinstance(values, dict)
    return values, problems


def plain_values(cfg: DictConfig, *, resolve: bool = True) -> dict[str, object]:
    """A config, or a section of one, as plain values."""
    values = OmegaConf.to_container(cfg, resolve=resolve)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _plain(node: object, path: str, problems: Problems) -> object:
    """A DictConfig as a dict, a ListConfig as a list, without what is left out; another value as it is."""
    if not isinstance(node, Container):
        return node
    in_list = isinstance(node, ListConfig)
    values: dict[object, object] = {}
    for key in range(len(node)) if isinstance(node, ListConfig) else node:
        here = f"{path}[{key}]" if in_list else f"{path}.{key}" if path else str(key)
        if here == "hydra":
            continue
        if OmegaConf.is_missing(node, key):
            problems.missing(here)
            continue
        raw = node._get_node(key) if OmegaConf.is_interpolation(node, key) else None
        written = str(raw._value()) if isinstance(raw, Node) else ""
        try:
            value = node[key]
        except (OmegaConfBaseException, RecursionError) as error:
            if written.startswith("${attention.") and here.startswith(("attention.", "model.")):
                valid = ", ".join(options("attention", but="inherit"))
                problems.add_line(
                    "attention",
                    "attention=inherit: only a model's slots can inherit (attention@model.cross_attention=inherit); "
                    f"choose one of {valid}",
                )
            else:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                problems.add_line(here, f"{here}={written}: cannot be resolved: {reason}")
            continue
        if written and OmegaConf.is_config(value):
            continue  # it repeats a section, which is checked where it stands
        if written and ":" not in written:  # ${key}; a resolver, ${name:...}, makes a value of its own
            problems.echo(here)
        values[key if in_list else str(key)] = _plain(value, here, problems)
    return list(values.values()) if in_list else values


def options(group: str, but: str = "") -> list[str]:
    """The choices of a config group, without `but`: its YAML files, but for those that others extend, such as _base."""
    return sorted(file.stem for file in (CONF / group).glob("[!_]*.yaml") if file.stem != but)


def option_of(group: str, name: str) -> DictConfig:
    """The file of a choice of a config group, as it is written."""
    node = OmegaConf.load(CONF / group / f"{name}.yaml")
    assert isinstance(node, DictConfig)
    return node


def walk(node: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every part of plain containers with its path as one types it, outermost first: "model", "optim.betas[0]"."""
    yield path, node
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from walk(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for index, value in enumerate(node):
            yield from walk(value, f"{path}[{index}]")


def yaml_reason(error: BaseException) -> str:
    """What is wrong with a YAML file, and in which line; of the file itself at most a few letters."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, RecursionError):
        return "its brackets stand too deep in each other"
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f"line {mark.line + 1}: {label(str(getattr(error, 'problem', '')), 80)}"
    return label((str(error).splitlines() or [type(error).__name__])[0], 80)


def check_is_plain(text: str, path: str) -> None:
    """Raises UserError for an interpolation in a saved config, which would be resolved wherever it stands."""
    if "${" in text:
        raise UserError(f"{path}={text}: a saved config holds plain values, no interpolation")


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts etth1_96 before etth1_192."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in name.split("_")]


@cache
def chosen_groups(name: str) -> dict[str, str | None]:
    """The groups that conf/NAME.yaml chooses from, each with its option; None for one that is left open."""
    entries = OmegaConf.to_container(OmegaConf.load(CONF / f"{name}.yaml").defaults)
    assert isinstance(entries, list)
    inherited = chosen_groups("train") if "train" in entries else {}  # backtest.yaml begins with train.yaml
    return {
        **inherited,
        **{group: option for entry in entries if isinstance(entry, dict) for group, option in entry.items()},
    }


def section(values: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The mapping under a key of plain values; an empty one where there is none."""
    inner = values.get(name)
    return inner if isinstance(inner, Mapping) else {}


def select(values: Mapping[str, object], path: str) -> tuple[bool, object]:
    """Whether `path` is in plain containers, and its value."""
    here: object = values
    for part in path.split("."):
        if not isinstance(here, Mapping) or part not in here:
            return False, None
        here = here[part]
    return True, here
