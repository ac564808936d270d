"""A config of conf/ as Hydra composes it, and what Hydra knows of a run that it has started: options, folder, sweep."""

import time
from collections.abc import Mapping
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from forecast.config import recipes
from forecast.config.recipes import published_tables
from forecast.config.values import CONF, options


def compose_config(config_name: str, overrides: list[str], *, hydra: bool = False) -> DictConfig:
    """conf/NAME.yaml with the overrides, as Hydra composes it. hydra: with Hydra's own node."""
    recipes.register(overrides)
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
