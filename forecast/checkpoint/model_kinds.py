"""The kind of a config's model before it is built: the spread that its loss asks for, whether it is fitted at once."""

from forecast.config.build import build
from forecast.config.run_config import Recipe
from forecast.models.base import FittedModel
from forecast.models.spread import Spread

# What training alone builds. Looking such a name up imports Lightning, which would take seconds of each forecast.
TRAINING_ONLY = ("lightning.", "forecast.training.")


def spread_of(loss: Recipe) -> Spread | None:
    """What a model gives in place of a point forecast; None where its loss asks for none.

    Raises UserError as `build` does.
    """
    if not loss.target or loss.target.startswith(TRAINING_ONLY) or not loss.extends(Spread):
        return None
    spread = build({"loss": loss.node})["loss"]
    assert isinstance(spread, Spread)
    return spread


def is_fitted_at_once(model: Recipe) -> bool:
    """Whether a model takes no gradient steps. UserError for a target that is not allowed."""
    return model.extends(FittedModel)
