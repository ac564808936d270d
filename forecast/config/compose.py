"""The config that a command line would give, without running it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.config import hydra_errors, resolvers
from forecast.errors import UserError


class Composed(NamedTuple):
    """A config of train as plain values, and the identity that a sweep would give it."""

    identity: str
    values: dict[str, Any]


def composed(overrides: Sequence[str]) -> Composed:
    """What `forecast train OVERRIDES` would run. Raises UserError for overrides that it would refuse."""
    resolvers.register()
    try:
        cfg = hydra_errors.compose_config("train", list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        text = hydra_errors.message(error, config_name="train", overrides=list(overrides), multirun=False)
        raise UserError(text or str(error)) from error
    values = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(values, dict)
    return Composed(resolvers.identity(_root_=cfg), {str(key): value for key, value in values.items()})
