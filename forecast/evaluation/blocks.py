"""The blocks of metrics.json that an evaluation of one series gives."""

from collections.abc import Mapping
from typing import Any

from forecast.data.differences import SeasonalDifferences
from forecast.data.prepare import Prepared
from forecast.evaluation.baselines import season
from forecast.evaluation.evaluate import MODEL, Evaluation
from forecast.evaluation.metrics import ErrorSums
from forecast.evaluation.naive_errors import OwnScale
from forecast.evaluation.scored_intervals import interval_metrics


def split_metrics(
    evaluation: Evaluation, data: Prepared, naive: SeasonalDifferences | None = None
) -> dict[str, object]:
    """The block of metrics.json for the evaluated split. naive: by what MASE and RMSSE are scaled."""
    own = evaluation.own_scale or {}
    overall, columns = all_metrics(evaluation.errors, data, naive, own.get(MODEL))
    reference = evaluation.baselines["seasonal_naive"].overall()["scaled"]["mse"]
    found = {
        "windows": evaluation.errors.n_windows,
        **overall,
        "skill": 1.0 - overall["scaled"]["mse"] / reference if reference else None,
        "flat": evaluation.errors.flat(data.target_names),
        "columns": columns,
    }
    if evaluation.intervals is not None:
        differences = evaluation.differences
        if differences is None and naive is not None:
            differences = naive.absolute
        scale = None if differences is None else differences * data.target_scale[1]
        found |= interval_metrics(evaluation.intervals, data.target_names, scale)
    return found


def all_metrics(
    errors: ErrorSums, data: Prepared, naive: SeasonalDifferences | None, own: OwnScale | None
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Of a forecaster the metrics overall and by column. own: MASE and RMSSE by each window's own scale, or None."""
    overall, columns = errors.overall(naive), errors.columns(data.target_names, naive)
    if own is not None:
        for block, mase, rmsse in zip(columns.values(), own.mase, own.rmsse, strict=True):
            block |= {"mase": mase, "rmsse": rmsse}
        for key in ("mase", "rmsse"):
            known = [block[key] for block in columns.values() if block[key] is not None]
            overall[key] = sum(known) / len(known) if known else None
    return overall, columns


def baseline_metrics(
    baselines: Mapping[str, ErrorSums],
    data: Prepared,
    naive: SeasonalDifferences | None = None,
    own: Mapping[str, OwnScale] | None = None,
) -> dict[str, dict[str, object]]:
    """The block `baselines` of metrics.json, from the errors of each. naive: as in `split_metrics`; own: of each."""
    blocks: dict[str, dict[str, object]] = {}
    for name, sums in baselines.items():
        overall, columns = all_metrics(sums, data, naive, (own or {}).get(name))
        blocks[name] = {**overall, "columns": columns}
    blocks["seasonal_naive"] = {"period": season(data), **blocks["seasonal_naive"]}
    return blocks
