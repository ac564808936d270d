"""A config of conf/ as Hydra composes it, and the groups that it chooses from."""

from collections.abc import Mapping

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from forecast.config import foreign_yaml, recipes
from forecast.config.recipes import published_tables
from forecast.config.values import CONF, options


def compose_config(config_name: str, overrides: list[str], *, hydra: bool = False) -> DictConfig:
    """conf/NAME.yaml with the overrides, as Hydra composes it. hydra: with Hydra's own node."""
    recipes.register(overrides)
    foreign_yaml.install()
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
