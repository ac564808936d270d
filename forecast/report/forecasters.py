"""The model and the baselines of metrics.json by name: whatever is there, in its order."""

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

from forecast.run_folder.shapes import Block, Metrics
from forecast.text.terminal import label

# key in metrics.json: what it is called where the words of the key do not say it
BASELINES = {
    "last_value": "last value",
    "seasonal_naive": "seasonal naive",
    "closed_form_nlinear": "closed-form NLinear",
}
# The least error that any forecaster can expect, of made-up data: no forecaster itself.
BOUND = "best_reachable"
# key of a baseline: the option of the group model that it is, with these keys, where it has another name
MODELS = {"closed_form_nlinear": "ridge"}
SAME = 1e-4  # relative: a model is fitted in other digits than the same baseline


class ScoredForecaster(NamedTuple):
    """The model or a baseline.

    key: of a baseline in metrics.json, "" of the model. scores: scaled, with mse and mae, mase and so on, where known.
    """

    key: str
    name: str
    note: str
    scores: Block

    def error(self, *path: str) -> float | None:
        """The metric at that place of the scores, such as ("scaled", "mse"); None when absent or not finite."""
        value: object = self.scores
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None

    @property
    def mse(self) -> float | None:
        """In scaled units, as all are compared."""
        return self.error("scaled", "mse")


def baseline_name(key: str, models: Collection[str] = ()) -> str:
    """What a reader sees of a baseline; beside models, of which one is of its kind, `the ridge baseline`."""
    name = BASELINES.get(key, key.replace("_", " "))
    return f"the {name} baseline" if key in models else name


def models_of(metrics: Metrics) -> set[str]:
    """The model, and the members whose mean it is."""
    return {str(metrics.get("model")), *(str(member["model"]) for member in metrics.get("members") or ())}


def baselines_of(metrics: Metrics) -> list[ScoredForecaster]:
    """The baselines of metrics.json without BOUND, each with a note on its look-back or period."""
    blocks, models = metrics.get("baselines") or {}, models_of(metrics)
    return [
        ScoredForecaster(key, label(baseline_name(key, models)), _note(key, block, metrics.get("seq_len")), block)
        for key, block in blocks.items()
        if key != BOUND
    ]


def forecasters(metrics: Metrics, split: str) -> list[ScoredForecaster]:
    """The model, then the baselines on the same windows, and BOUND last where it is known."""
    block = metrics[split]
    model = ScoredForecaster("", label(str(metrics.get("model", "model"))), "this run", block)
    if "skill" not in block:  # train records the validation scores without it: its baselines are of other windows
        return [model]
    bound = (metrics.get("baselines") or {}).get(BOUND)
    least = [] if bound is None else [ScoredForecaster(BOUND, baseline_name(BOUND), "", bound)]
    return [model, *baselines_of(metrics), *least]


def is_itself(model: str, mse: float, key: str, theirs: float) -> bool:
    """Whether a model and a baseline are one forecaster: of one kind, with the same error.

    Another ridge than the one among the baselines is a forecaster of its own, and so is another season.
    """
    return MODELS.get(key, key) == model and math.isclose(mse, theirs, rel_tol=SAME)


def best_baseline(metrics: Metrics) -> ScoredForecaster | None:
    """The baseline with the least MSE, the first of equals; None without any."""
    return min((row for row in baselines_of(metrics) if row.mse is not None), key=_mse, default=None)


def _mse(row: ScoredForecaster) -> float:
    mse = row.mse
    assert mse is not None
    return mse


def _note(key: str, block: Block, seq_len: int | None) -> str:
    if "period" in block:
        period = block["period"]
        return "last value: period unknown or longer than seq_len" if period is None else f"{period} steps"
    look_back = block.get("look_back", seq_len if key == "closed_form_nlinear" else None)
    if look_back is None:
        return ""
    return f"look-back {look_back}{' = seq_len' * (look_back == seq_len)}"
