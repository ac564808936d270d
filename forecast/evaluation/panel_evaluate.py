"""Evaluating a model and its baselines on every window of a split of a panel, with memory for its series alone."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from forecast.data.cells import IntArray
from forecast.data.differences import SeasonalDifferences
from forecast.data.prepare import Prepared
from forecast.data.windows import Windows
from forecast.errors import UserError
from forecast.evaluation.baselines import season
from forecast.evaluation.evaluate import MODEL, Protocol, check_finite, evenly_spaced, exact_float32, forecast_of
from forecast.evaluation.metrics import ErrorSums
from forecast.evaluation.naive_errors import naive_errors
from forecast.evaluation.panel_pass import PanelPass, panel_pass
from forecast.evaluation.replayed import Made, Replayed
from forecast.evaluation.residuals import Residuals
from forecast.evaluation.scored_intervals import Intervals, ScoredIntervals, interval_metrics
from forecast.models.base import ForecastModel

log = logging.getLogger(__name__)

NAMED_SERIES = 5  # of the worst, and of the best
BETWEEN_SERIES = 15  # whose forecasts are kept beside theirs
# The forecasts of a pass, batch after batch, with the ends of intervals of these levels, where any are asked for.
Elsewhere = Callable[[PanelPass, Sequence[float] | None], Iterator[Made]]


@dataclass(frozen=True, kw_only=True)
class PanelEvaluation:
    """The errors of a model and its baselines on the windows of one split.

    naive: by what MASE and RMSSE are scaled. worst, best: the numbers of the series with the largest and the least
    MASE, NAMED_SERIES at most, the utmost first; by MSE where no series has a MASE. between: BETWEEN_SERIES at most of
    the others, evenly spread from the worst on. origins (W,): the rows of the panel
    at which the last windows of these series begin to forecast; forecasts (W, P, T), scaled units: by each forecaster.
    residuals: the model's mean error in each window; residual_times (R,): when the forecasts of these begin.
    intervals: those of the model, where it has any.
    """

    errors: ErrorSums
    baselines: dict[str, ErrorSums]
    naive: SeasonalDifferences
    worst: IntArray
    best: IntArray
    between: IntArray
    origins: IntArray
    forecasts: dict[str, np.ndarray]
    residuals: Residuals
    residual_times: npt.NDArray[np.datetime64]
    intervals: ScoredIntervals | None = None

    @property
    def shown(self) -> IntArray:
        """The worst series, the best, and those between (W,)."""
        return np.concatenate([self.worst, self.best, self.between])


def evaluate_panel(
    model: nn.Module,
    data: Prepared,
    *,
    split: str,
    protocol: Protocol,
    fitted: Mapping[str, Tensor] | None,
    batch_size: int,
    device: torch.device,
    intervals: Intervals | None = None,
    elsewhere: Elsewhere | None = None,
) -> PanelEvaluation:
    """Runs a model and the baselines over the windows of a split, in order, in float32; as `evaluate` does.

    The model must be in evaluation mode and on the device. fitted: what `fit_baselines` gave; None leaves all baselines
    out. elsewhere: makes the model's forecasts in other processes; the sums are made here, in the same order. Raises
    UserError when no window counts, no cell of them was measured, or a forecast is not finite.
    """
    one_pass = panel_pass(model, data, split=split, protocol=protocol, fitted=fitted, device=device)
    data, windows, forecasters = one_pass.data, one_pass.windows, dict(one_pass.forecasters)
    if elsewhere is not None:
        assert isinstance(model, ForecastModel)
        levels = None if intervals is None else intervals.calibration.levels
        forecasters[MODEL] = Replayed(model, elsewhere(one_pass, levels), device=device)
    mean, std = data.target_scale
    errors = {name: ErrorSums(data.pred_len, mean, std) for name in forecasters}
    look_backs = one_pass.look_backs
    scored = None if intervals is None else ScoredIntervals(intervals, pred_len=data.pred_len, mean=mean, std=std)
    residuals = Residuals(one_pass.count, len(data.targets))
    with torch.inference_mode(), exact_float32():
        for batch in one_pass.batches(batch_size):
            for name, one in forecasters.items():
                if name == MODEL and scored is not None:
                    forecast = scored.add(one, batch, look_backs[name], groups=batch.series)
                else:
                    forecast = forecast_of(one, batch, look_backs[name])
                check_finite(forecast, batch.past)
                errors[name].update(forecast, batch.target, batch.measured, batch.series)
                if name == MODEL:
                    residuals.add(forecast, batch)
    if not errors[MODEL].evaluated().any():
        raise UserError(f"{data.frame.name}: no value of the split {split} was measured. Choose another data.split.")
    naive = naive_errors(data, split)
    worst, best, between = ranked(errors[MODEL], naive)
    kept = np.concatenate([worst, best, between])
    # A protocol may leave the last windows of a split out.
    examples = torch.from_numpy(np.minimum(windows.ends[kept], one_pass.count) - 1)
    with torch.inference_mode(), exact_float32():
        batch = windows.__getitems__(examples)
        forecasts = {
            name: forecast_of(one, batch, look_backs[name]).cpu().numpy() for name, one in one_pass.forecasters.items()
        }
        if scored is not None:
            scored.last = scored.of(model, batch, look_backs[MODEL])[1:]
            scored.keep(list(range(len(examples))))
    return PanelEvaluation(
        errors=errors.pop(MODEL),
        baselines=errors,
        naive=naive,
        worst=worst,
        best=best,
        between=between,
        origins=windows.origins_of(examples).numpy(),
        forecasts=forecasts,
        residuals=residuals,
        residual_times=begin_times(data, windows, residuals.numbers),
        intervals=scored,
    )


def begin_times(data: Prepared, windows: Windows, numbers: IntArray) -> npt.NDArray[np.datetime64]:
    """When the forecasts of windows (R,) begin."""
    index = torch.from_numpy(numbers)
    series, rows = windows.series_of(index).numpy(), windows.origins_of(index).numpy()
    steps = rows - data.frame.offsets[series] + data.frame.steps[series]
    times: npt.NDArray[np.datetime64] = data.frame.calendar().to_numpy()[steps]
    return times


def ranked(errors: ErrorSums, naive: SeasonalDifferences) -> tuple[IntArray, IntArray, IntArray]:
    """The worst and the best series, the utmost first, and some between; none twice."""
    table = errors.table(naive)
    by = table["mase"] if np.isfinite(table["mase"]).any() else table["mse"]
    order = np.argsort(by, kind="stable")[: int(np.isfinite(by).sum())]  # NaN comes last
    worst = order[::-1][: min(NAMED_SERIES, -(-len(order) // 2))]
    best = order[: min(NAMED_SERIES, len(order) - len(worst))]
    others = order[len(best) : len(order) - len(worst)][::-1]
    return worst, best, others[evenly_spaced(len(others), BETWEEN_SERIES)]


def panel_metrics(evaluation: PanelEvaluation, data: Prepared) -> dict[str, object]:
    """The block of metrics.json for the evaluated split."""
    errors, naive = evaluation.errors, evaluation.naive
    overall = errors.overall(naive)
    reference = evaluation.baselines["seasonal_naive"].overall(naive)["scaled"]["mse"]
    table, evaluated = errors.table(naive), errors.evaluated()

    def named(series: IntArray) -> list[dict[str, object]]:
        keys = ("mase", "rmsse", "smape", "wape")
        return [{"id": str(data.frame.ids[s]), **{key: float(table[key][s]) for key in keys}} for s in series]

    of_intervals = {}
    if evaluation.intervals is not None:
        of_intervals = interval_metrics(evaluation.intervals, data.target_names, naive.absolute * errors.std.numpy())
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
        **of_intervals,
    }


def panel_baseline_metrics(evaluation: PanelEvaluation, data: Prepared) -> dict[str, dict[str, object]]:
    """The block `baselines` of metrics.json."""
    naive = evaluation.naive
    blocks: dict[str, Any] = {
        name: {**errors.overall(naive), "columns": errors.columns(data.target_names, naive)}
        for name, errors in evaluation.baselines.items()
    }
    blocks["seasonal_naive"] = {"period": season(data), **blocks["seasonal_naive"]}
    return blocks
