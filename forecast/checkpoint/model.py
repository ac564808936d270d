"""The model of a config and of the data that a checkpoint describes, with fresh weights."""

from collections.abc import Mapping
from typing import cast

from forecast.config.build import build
from forecast.config.run_config import Recipe, RunConfig
from forecast.data.roles import PADDED, names_roles
from forecast.models.base import FittedModel, ForecastModel, WindowShape
from forecast.models.ensemble import Ensemble
from forecast.models.spread import Spread
from forecast.run_folder.shapes import DataRecord

# What training alone builds. Looking such a name up imports Lightning, which would take seconds of each forecast.
TRAINING_ONLY = ("lightning.", "forecast.training.")


def window_of(config: RunConfig, data: DataRecord, *, outputs: int = 1) -> WindowShape:
    """The windows that the model of a config sees. data: as a checkpoint describes them."""
    columns, covariates = list(data["columns"]), data.get("covariates") or {}
    n_columns = len(columns) - sum(name in covariates for name in columns)
    targets = tuple(columns.index(name) for name in data["targets"])
    before = data["known"][: len(data["known"]) - len(covariates)]
    n_facts = len(facts["mean"]) if (facts := data.get("facts")) else 0
    return WindowShape(
        n_columns=n_columns,
        targets=targets,
        observed=tuple(i for i in range(n_columns) if i not in targets) if names_roles(config.data.node) else (),
        n_known=len(data["known"]),
        covariates=tuple(0 if words is None else len(words) + 1 for words in covariates.values()),
        facts=tuple(range(len(covariates)))[len(covariates) - n_facts :],
        padding=tuple(i for i, name in enumerate(before) if name == PADDED),
        seq_len=config.seq_len,
        label_len=config.label_len,
        pred_len=config.pred_len,
        outputs=outputs,
    )


def build_model(config: RunConfig, data: DataRecord) -> ForecastModel:
    """The model of a config for data with these columns, targets and known features; fresh weights.

    Where its loss is a spread, the model has it.

    Raises UserError for a class that is no ForecastModel, and as `build` does.
    """
    spread = spread_of(config.loss)
    window = window_of(config, data, outputs=1 if spread is None else spread.n_outputs)
    members = [config.model.build(ForecastModel, window=window) for _ in range(config.networks)]
    model = members[0] if len(members) == 1 else Ensemble(members)
    if spread is not None:
        model.add_spread(spread)
    return model


def spread_of(loss: Recipe) -> Spread | None:
    """What a model gives in place of a point forecast; None where its loss asks for none.

    Raises UserError as `build` does.
    """
    if not loss.target or loss.target.startswith(TRAINING_ONLY) or not loss.extends(Spread):
        return None
    spread = cast(Mapping[str, object], build({"loss": loss.node}))["loss"]
    assert isinstance(spread, Spread)
    return spread


def is_fitted_at_once(model: Recipe) -> bool:
    """Whether a model takes no gradient steps. UserError for a target that is not allowed."""
    return model.extends(FittedModel)
