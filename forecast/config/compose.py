"""A config of conf/ as Hydra composes it, and what Hydra knows of a run that it has started: options, folder, sweep."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from forecast.errors import UserError


def parsed(words: Iterable[str]) -> Iterator[Override]:
    """Words KEY=VALUE, as Hydra's grammar has them. Raises UserError for one that is none."""
    for word in words:
        try:
            yield OverridesParser.create().parse_override(word)
        except HydraException as error:
            key, _, text = word.partition("=")
            quotes = f" Put quotes around the value, and around all: \"{key}='{text}'\"." if text else ""
            raise UserError(f"{word!r} cannot be read as KEY=VALUE.{quotes}") from error


def compose_config(config_name: str, overrides: list[str], *, hydra: bool = False) -> DictConfig:
    """conf/NAME.yaml with the overrides, as Hydra composes it. hydra: with Hydra's own node."""
    register_rows(overrides)
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(config_name, overrides=overrides, return_hydra_config=hydra)


def without_hydra(cfg: DictConfig) -> tuple[DictConfig, dict[str, str | None]]:
    """Of a config with Hydra's own node a copy without it, and the chosen option of each group of ours."""
    config = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    return config, own_choices(cfg.hydra.runtime.choices)


def own_choices(choices: Mapping[str, str | None]) -> dict[str, str | None]:
    """Of the options that Hydra has chosen those of our groups: {"model": "informer", ...}."""
    return {str(group): option for group, option in choices.items() if not str(group).startswith("hydra/")}


def groups() -> dict[str, list[str]]:
    """Every config group with its options; a group inside a group as data/split, a published table as a group too."""
    folders = [folder.relative_to(CONF).as_posix() for folder in CONF.rglob("*") if folder.is_dir()]
    tables = {f"experiment/{name}": list(table["rows"]) for name, table in published_tables().items()}
    return {folder: options(folder) for folder in folders} | tables


def choices() -> dict[str, str | None]:
    """The chosen option of every group of ours: {"model": "informer", ...}."""
    return own_choices(HydraConfig.get().runtime.choices)


def in_sweep() -> bool:
    """Whether this run is one of a sweep's (-m)."""
    return bool(HydraConfig.get().mode == RunMode.MULTIRUN)


def job_number() -> int | None:
    """The number of this run in its sweep, None outside one."""
    return int(HydraConfig.get().job.num) if in_sweep() else None


def run_folder() -> Path:
    """Where this run writes."""
    return Path(HydraConfig.get().runtime.output_dir)


def task_overrides() -> list[str]:
    """The overrides of the command line, those of hydra.* left out."""
    return [str(override) for override in HydraConfig.get().overrides.task]


def is_typed(key: str) -> bool:
    """Whether the command line gives a value to a key."""
    return any(override.lstrip("+").startswith(f"{key}=") for override in task_overrides())


def launcher_overrides() -> list[str]:
    """Those of the command line that say how the jobs of a sweep are started: hydra/launcher, hydra.launcher.*."""
    return [
        override
        for override in map(str, HydraConfig.get().overrides.hydra)
        if override.startswith(("hydra/launcher=", "hydra.launcher."))
    ]


def users_folders() -> list[str]:
    """The folders of a user's own YAML, --config-dir, absolute."""
    sources = HydraConfig.get().runtime.config_sources
    return [str(Path(source.path).absolute()) for source in sources if source.provider == "command-line"]


class Begun:
    """When the command of this process began, by time.time: what it imports takes seconds, which count."""

    at = time.time()


Table = dict[str, Any]  # of published.yaml: title, source, models, every, columns, rows


@cache
def published_tables() -> dict[str, Table]:
    """What the file says of each table, by its name; its rows by theirs, in their order."""
    tables = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text(encoding="utf-8"))
    for table in tables.values():
        table["rows"] = {str(row): values for row, values in table["rows"].items()}
    return dict(tables)


def recipe(table: str, row: str) -> dict[str, str | int | float]:
    """A row's choices of groups and its dotted keys: {"model": "informer2020", "data.features": "M", "seq_len": 48}."""
    content = published_tables()[table]
    return {**content["every"], **dict(zip(content["columns"], content["rows"][row], strict=False))}


def register_rows(arguments: Sequence[str]) -> None:
    """Lays rows into Hydra's store, beside the files of conf/experiment: the tables that a command's words name.

    Of all tables where a folder of a user's own may name them. Hydra copies its store for each config that it
    composes: with all rows in it that takes longer than the rest.
    """
    anywhere = any(word.startswith(("--config-", "-cd", "-cp")) for word in arguments)
    rows = [(table, row) for table, content in published_tables().items() for row in content["rows"]]
    for table, row in rows:
        if not anywhere and not any(f"{table}/" in word for word in arguments):
            continue
        # as the YAML of an experiment would say it: `defaults` that override groups, then nested keys
        node = OmegaConf.create({"defaults": []})
        for key, value in recipe(table, row).items():
            if (CONF / key).is_dir():
                node.defaults.append({f"override /{key}": value})
            else:
                OmegaConf.update(node, key, value)
        ConfigStore.instance().store(name=row, node=node, group=f"experiment/{table}", package="_global_")


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
