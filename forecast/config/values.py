"""A composed config as plain values, and the groups and options that conf offers."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from forecast.errors import UserError

PACKAGE = Path(__file__).resolve().parents[1]
# The config tree: in the installed package, or beside it in a checkout.
CONF = PACKAGE / "conf" if (PACKAGE / "conf").is_dir() else PACKAGE.parent / "conf"


def plain_values(cfg: DictConfig, *, resolve: bool = True) -> dict[str, object]:
    """A config, or a section of one, as plain values."""
    values = OmegaConf.to_container(cfg, resolve=resolve)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def options(group: str, but: str = "") -> list[str]:
    """The choices of a config group, without `but`: its YAML files, but for those that others extend, such as _base."""
    return sorted(file.stem for file in (CONF / group).glob("[!_]*.yaml") if file.stem != but)


def walk(node: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every part of plain containers with its path as one types it, outermost first: "model", "optim.betas[0]"."""
    yield path, node
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from walk(value, f"{path}.{key}" if path else str(key))
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for index, value in enumerate(node):
            yield from walk(value, f"{path}[{index}]")


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
