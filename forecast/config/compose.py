"""A config of conf/ as Hydra composes it, and what Hydra knows of a run that it has started: options, folder, sweep."""

import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from typing_extensions import NotRequired, TypedDict

from forecast.config.values import CONF, options


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


def chosen(name: str) -> str | None:
    """The chosen option of one group; None when nothing, or no such group, was chosen."""
    return choices().get(name)


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
    typed = map(str, HydraConfig.get().overrides.hydra)
    return [override for override in typed if override.startswith(("hydra/launcher=", "hydra.launcher."))]


def users_folders() -> list[str]:
    """The folders of a user's own YAML, --config-dir, absolute."""
    sources = HydraConfig.get().runtime.config_sources
    return [str(Path(source.path).absolute()) for source in sources if source.provider == "command-line"]


class Begun:
    """When the command of this process began, by time.time: what it imports takes seconds, which count."""

    at = time.time()


class ModelEntry(TypedDict):
    """Of a model in a table: the printed column, the overrides that it adds, the keys of a row that it has none of."""

    published: str
    overrides: NotRequired[list[str]]
    drops: NotRequired[list[str]]


class TableEntry(TypedDict):
    """A table in the file."""

    title: str
    source: str
    models: dict[str, ModelEntry]
    every: dict[str, str | int | float]
    columns: list[str]
    rows: dict[str, list[str | int | float]]


@cache
def published_tables() -> dict[str, TableEntry]:
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
    for table in published_tables():
        if anywhere or any(f"{table}/" in word for word in arguments):
            _store(table)


@cache
def _store(table: str) -> None:
    """Each row as the YAML of an experiment would say it: `defaults` that override groups, then nested keys."""
    for row in published_tables()[table]["rows"]:
        choices: list[dict[str, object]] = []
        node: dict[str, object] = {"defaults": choices}
        for key, value in recipe(table, row).items():
            if (CONF / key).is_dir():
                choices.append({f"override /{key}": value})
                continue
            *parents, last = key.split(".")
            inner = node
            for parent in parents:
                inner = cast(dict[str, object], inner.setdefault(parent, {}))
            inner[last] = value
        ConfigStore.instance().store(name=row, node=node, group=f"experiment/{table}", package="_global_")
