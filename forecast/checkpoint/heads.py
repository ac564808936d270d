"""Which spread the loss of a config asks a model for."""

from collections.abc import Mapping
from typing import Any

from forecast.config.allow_list import resolve_target
from forecast.config.build import build
from forecast.models.spread import Spread

# What training alone builds. Looking such a name up imports Lightning, which would take seconds of each forecast.
TRAINING_ONLY = ("lightning.", "forecast.training.")


def spread_of(config: Mapping[str, Any]) -> Spread | None:
    """What the model of a resolved config gives in place of a point forecast; None where its loss asks for none.

    Raises UserError as `build` does.
    """
    node = config.get("loss")
    target = node.get("_target_") if isinstance(node, Mapping) else None
    if target is None or str(target).startswith(TRAINING_ONLY):
        return None
    kind = resolve_target(target, "loss")
    if not (isinstance(kind, type) and issubclass(kind, Spread)):
        return None
    spread = build({"loss": node})["loss"]
    assert isinstance(spread, Spread)
    return spread
