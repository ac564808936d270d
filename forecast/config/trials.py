"""What `forecast train` would run by some words, composed without running it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.config import hydra_errors, resolvers
from forecast.config.compose import compose_config, without_hydra
from forecast.config.run_config import RunConfig
from forecast.config.values import plain_values
from forecast.errors import UserError
from forecast.text.overrides import hydra_value


class Composed(NamedTuple):
    """A config of train, and the identity that a sweep would give it."""

    identity: str
    config: RunConfig


def composed(overrides: Sequence[str]) -> Composed:
    """What `forecast train OVERRIDES` would run, without running it. Raises UserError for what it would refuse."""
    if not OmegaConf.has_resolver(resolvers.identity.__name__):  # a sweep that runs keeps the folder it began in
        resolvers.register()
    try:
        cfg = compose_config("train", list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        text = hydra_errors.message(error, config_name="train", overrides=overrides)
        raise UserError(text or str(error)) from error
    return Composed(resolvers.identity(_root_=cfg), RunConfig.of(plain_values(cfg)))


class TrainConfig(NamedTuple):
    """What `forecast train OVERRIDES` would run, its interpolations not resolved, and the chosen options of groups."""

    values: DictConfig
    options: Mapping[str, str | None]


def train_config(overrides: Sequence[str], folders: Sequence[str] = ()) -> TrainConfig:
    """Composes a config of train. folders: of a user's own YAML. Raises UserError for what train would refuse."""
    places = [f"hydra.searchpath={hydra_value([f'file://{folder}' for folder in folders])}"] if folders else []
    words = [*overrides, *places]
    try:
        cfg = compose_config("train", words, hydra=True)
    except (HydraException, OmegaConfBaseException) as error:
        text = hydra_errors.message(error, config_name="train", overrides=words)
        raise UserError(text or str(error)) from error
    return TrainConfig(*without_hydra(cfg))
