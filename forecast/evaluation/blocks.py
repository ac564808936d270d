"""The blocks of metrics.json that an evaluation gives."""

from collections.abc import Mapping

import numpy as np

from forecast.data.differences import SeasonalDifferences
from forecast.data.prepare import Prepared
from forecast.data.scaling import cell_means
from forecast.data.values.cells import IntArray
from forecast.evaluation.baselines import season
from forecast.evaluation.evaluate import Evaluation
from forecast.evaluation.metrics import UNIT_FREE, ErrorSums
from forecast.evaluation.scored_intervals import interval_metrics


def split_metrics(evaluation: Evaluation, data: Prepared, split: str) -> dict[str, object]:
    """The block of metrics.json for the evaluated split."""
    errors, naive = evaluation.errors, evaluation.naive
    overall, table, evaluated = errors.overall(naive), errors.table(naive), errors.evaluated()
    reference = evaluation.baselines["seasonal_naive"].overall()["scaled"]["mse"]

    def named(series: IntArray) -> list[dict[str, object]]:
        return [{"id": str(data.frame.ids[s]), **{key: float(table[key][s]) for key in UNIT_FREE}} for s in series]

    of_intervals = {}
    if evaluation.intervals is not None:
        scale = None if naive is None else naive.absolute * errors.std.numpy()
        of_intervals = interval_metrics(evaluation.intervals, data.target_names, scale)
    return {
        "windows": errors.n_windows,
        **overall,
        "skill": 1.0 - overall["scaled"]["mse"] / reference if reference else None,
        "flat": errors.flat(data.target_names),
        "columns": errors.columns(data.target_names, naive),
        "series": {
            "count": len(data.frame),
            "evaluated": int(evaluated.sum()),
            "without_mase": int(np.isnan(table["mase"][evaluated]).sum()),
            "worst": named(evaluation.worst),
            "best": named(evaluation.best),
        },
        "level_shift": level_shift(data, split),
        **of_intervals,
    }


def baseline_metrics(
    baselines: Mapping[str, ErrorSums], data: Prepared, naive: SeasonalDifferences | None
) -> dict[str, dict[str, object]]:
    """The block `baselines` of metrics.json, from the errors of each. naive: by what MASE and RMSSE are scaled."""
    blocks = {
        name: {**errors.overall(naive), "columns": errors.columns(data.target_names, naive)}
        for name, errors in baselines.items()
    }
    blocks["seasonal_naive"] = {"period": season(data), **blocks["seasonal_naive"]}
    return blocks


def level_shift(data: Prepared, split: str) -> float | None:
    """How far the mean of a series' rows in a split lies from what it is scaled by, in standard deviations.

    The root mean square over the targets, the median over the series that have such rows.
    """
    rows, columns = data.splits[split], list(data.targets)
    count, mean, _ = cell_means(data.frame, rows.first, rows.stop)
    known = (count[:, columns] > 0).all(1)
    shift = (mean - data.scaler.mean)[known][:, columns] / data.scaler.std[known][:, columns]
    return float(np.median(np.sqrt(np.square(shift).mean(1)))) if known.any() else None
