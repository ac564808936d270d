"""Composing the real conf in tests."""

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from forecast.config import recipes
from forecast.config.values import CONF


def composed(*overrides, name="train", hydra=False):
    recipes.register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(name, overrides=list(overrides), return_hydra_config=hydra)
