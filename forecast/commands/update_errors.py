"""What came of the forecasts of former updates: a line of the log, and the day that is watched."""

from typing import Any

import numpy as np
import pandas as pd

from forecast.checkpoint.load import Checkpoint
from forecast.commands.continued import rows_a_day
from forecast.commands.update_state import Issued, State
from forecast.data.cells import FloatArray
from forecast.data.frame import SeriesFrame
from forecast.evaluation.interval_errors import name_of
from forecast.evaluation.watch import Day, alarms, watched


def row_of(whole: SeriesFrame, time: pd.Timestamp) -> int:
    """The row of a time that lies in a frame."""
    return int(whole.timestamps.searchsorted(time))


def first_line(levels: tuple[float, ...]) -> dict[str, object]:
    """The line of the first update, before which nothing was forecast."""
    return {"rows": None, **means([], levels), "day": None, "totals": {}, "alarms": []}


def next_line(checkpoint: Checkpoint, before: State, whole: SeriesFrame, new: int) -> tuple[dict[str, object], bool]:
    """A line of the log, and whether the forecast that was watched has been met by a day of rows.

    All steps count whose truth has come with the last `new` rows of a history, however long ago they were forecast:
    absolute errors in standard deviations of the train rows, mean over `values`, and `coverage` by level. `day`: of
    the watched forecast alone, all of its steps that have come; None before. `totals`: of the charts after it.
    """
    levels, last = before.levels, len(whole) - 1
    rows = range(len(whole) - new, len(whole))
    parts = [errors_of(checkpoint, whole, one, rows) for one in before.issued]
    line: dict[str, object] = {"rows": new, **means(parts, levels), "day": None}
    totals = before.log[-1]["totals"]
    one = next(one for one in before.issued if one.cutoff == before.watched)
    start, pred_len = row_of(whole, one.cutoff), len(one.values)
    met = last - start >= min(rows_a_day(whole.freq), pred_len)
    if met:
        steps = min(last - start, pred_len)
        found = means([errors_of(checkpoint, whole, one, range(start + 1, start + 1 + steps))], levels)
        if found["values"]:
            shares = {level: found["coverage"][name_of(level)] for level in levels}
            day = Day(steps=steps, mae=found["mae"], baseline_mae=found["baseline_mae"], coverage=shares)
            expected, level = before.reference.expected, levels[0] if levels else None
            totals = watched(totals, expected.scores(day, level))
            line["day"] = expected.beside(day, level)
    return {**line, "totals": totals, "alarms": alarms(totals)}, met


def errors_of(checkpoint: Checkpoint, whole: SeriesFrame, one: Issued, rows: range) -> dict[str, FloatArray]:
    """Absolute errors of a forecast and its baseline (n, T), scaled, and whether intervals held (K, n, T), as numbers.

    Of its steps that lie in `rows` of the history; NaN where these hold no measured value.
    """
    targets = [whole.columns.index(name) for name in checkpoint.data["targets"]]
    start = row_of(whole, one.cutoff) + 1
    lines = slice(max(start, rows.start), max(start, min(start + len(one.values), rows.stop)))
    steps = slice(lines.start - start, lines.stop - start)
    truth = whole.values[lines][:, targets]
    if whole.missing is not None:
        truth = np.where(whole.missing[lines][:, targets], np.nan, truth)
    std = checkpoint.scaler.std[targets]
    held = (one.lower[:, steps] <= truth) & (truth <= one.upper[:, steps])
    return {
        "mae": np.abs(one.values[steps] - truth) / std,
        "baseline_mae": np.abs(one.baseline[steps] - truth) / std,
        "held": np.where(np.isnan(truth), np.nan, held.astype(np.float64)),
    }


def means(parts: list[dict[str, FloatArray]], levels: tuple[float, ...]) -> dict[str, Any]:
    """The number of measured values in some `errors_of`, and the means over them; None of none."""
    values = int(sum(np.isfinite(part["mae"]).sum() for part in parts))

    def mean(arrays: list[FloatArray]) -> float | None:
        return float(sum(np.nansum(one) for one in arrays) / values) if values else None

    coverage = {name_of(level): mean([part["held"][k] for part in parts]) for k, level in enumerate(levels)}
    errors = {name: mean([part[name] for part in parts]) for name in ("mae", "baseline_mae")}
    return {"values": values, **errors, "coverage": coverage}
