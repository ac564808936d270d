"""What `forecast tune` does: trials of a model's settings, judged by their validation error, until time is up."""

from importlib.util import find_spec

from omegaconf import DictConfig

from forecast.apps.common.command import Answer
from forecast.errors import UserError
from forecast.text.overrides import install

OF = "study.json"  # what a study is of


def tune(cfg: DictConfig) -> Answer:
    """Runs trials and writes what came of them. UserError where Optuna is not installed."""
    if find_spec("optuna") is None:
        raise UserError(f"forecast tune: the package optuna is not installed. Install it: {install('tune')}")
    from forecast.apps.tune import tuning

    return tuning.tune(cfg)
