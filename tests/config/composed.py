"""Composing and checking the real conf in tests."""

import pickle
from functools import cache
from unittest import mock

import pytest
from hydra import compose, initialize_config_dir
from hydra._internal.config_repository import CachingConfigRepository
from hydra.core.global_hydra import GlobalHydra

from forecast.config import recipes
from forecast.config.check import check_config
from forecast.config.values import CONF
from forecast.errors import UserError


class ReadOnce(CachingConfigRepository):
    """Reads a file of conf once in a session; Hydra's own reads it for each config, and copies it slowly."""

    read = {}  # noqa: RUF012

    def load_config(self, config_path):
        if config_path not in self.cache:
            if config_path not in self.read:
                self.read[config_path] = pickle.dumps(self.delegate.load_config(config_path))
            self.cache[config_path] = pickle.loads(self.read[config_path])
        return self.cache[config_path]


def refusal(overrides):
    """What check_config says of `train.py OVERRIDES`, which it refuses."""
    with pytest.raises(UserError) as error:
        check_config(composed(*overrides.split()))
    return str(error.value)


def composed(*overrides, name="train", hydra=False):
    """A copy of its own for each caller; Hydra composes the same arguments once."""
    return pickle.loads(_pickled(overrides, name, hydra))


@cache
def _pickled(overrides, name, hydra):
    recipes.register(overrides)
    GlobalHydra.instance().clear()
    reading = mock.patch("hydra._internal.config_loader_impl.CachingConfigRepository", ReadOnce)
    with reading, initialize_config_dir(str(CONF), version_base="1.3"):
        return pickle.dumps(compose(name, overrides=list(overrides), return_hydra_config=hydra))
