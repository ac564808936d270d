"""Composing the real conf in tests."""

import pickle
from functools import cache

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from forecast.config import recipes
from forecast.config.values import CONF


def composed(*overrides, name="train", hydra=False):
    """A copy of its own for each caller; Hydra composes the same arguments once."""
    return pickle.loads(_pickled(overrides, name, hydra))


@cache
def _pickled(overrides, name, hydra):
    recipes.register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return pickle.dumps(compose(name, overrides=list(overrides), return_hydra_config=hydra))
