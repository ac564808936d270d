"""What came of the forecasts of former updates: a line of the log, and the day that is watched."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from forecast.apps.update.continued import Continued, rows_a_day
from forecast.apps.update.state import Issued, State
from forecast.checkpoint.load import Checkpoint
from forecast.data.panel import PanelFrame
from forecast.data.values.cells import Flags, FloatArray, IntArray
from forecast.evaluation.scored_intervals import name_of
from forecast.evaluation.watch import CHARTS, Day, alarms, watched
from forecast.report.updates import Line


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """What came of some steps of forecasts, of each series (S,): the means over measured values, NaN of none.

    mae, baseline_mae: absolute errors, scaled. coverage (K, S): shares inside the intervals.
    """

    values: IntArray
    mae: FloatArray
    baseline_mae: FloatArray
    coverage: FloatArray

    @property
    def together(self) -> "Compared":
        """The means over the values of all series, as of one."""
        parts = (self.mae[None], self.baseline_mae[None], self.coverage)
        sums = [np.nansum(part * self.values, axis=1, keepdims=True) for part in parts]
        with np.errstate(invalid="ignore"):
            means = [part / self.values.sum() for part in sums]
        return Compared(
            values=self.values.sum(keepdims=True), mae=means[0][0], baseline_mae=means[1][0], coverage=means[2]
        )

    def line(self, series: int, levels: tuple[float, ...]) -> Line:
        """Of one series, for the log; None of no value."""

        def number(value: np.floating) -> float | None:
            return float(value) if np.isfinite(value) else None

        coverage = {name_of(level): number(self.coverage[k, series]) for k, level in enumerate(levels)}
        return {
            "values": int(self.values[series]),
            "mae": number(self.mae[series]),
            "baseline_mae": number(self.baseline_mae[series]),
            "coverage": coverage,
        }


def first_row(whole: PanelFrame, issued: Issued) -> IntArray:
    """The row of a frame (W,) at which each forecast begins: of a series without rows to come its end."""
    steps = np.searchsorted(whole.times(), issued.cutoff)
    rows: IntArray = whole.offsets[:-1][issued.series] + steps + 1 - whole.steps[issued.series]
    return rows


def compared(checkpoint: Checkpoint, whole: PanelFrame, issued: Issued, chosen: Flags, levels: int) -> Compared:
    """Some steps, chosen (W, P), of forecasts beside their truth, of which these have rows."""
    targets = [whole.columns.index(name) for name in checkpoint.data["targets"]]
    window, step = np.nonzero(chosen)
    rows, series = first_row(whole, issued)[window] + step, issued.series[window]
    truth = whole.values[rows][:, targets]
    if whole.measured is not None:
        truth = np.where(whole.measured[rows][:, targets], truth, np.nan)
    std = checkpoint.scales_of(whole).std[series][:, targets]
    measured = np.isfinite(truth)
    values = np.bincount(series, measured.sum(axis=1), len(whole))

    def mean(cells: FloatArray) -> FloatArray:
        """Over the measured ones (n, T) of each series."""
        sums = np.bincount(series, np.where(measured, cells, 0.0).sum(axis=1), len(whole))
        with np.errstate(invalid="ignore"):
            means: FloatArray = sums / values
        return means

    held = [(issued.lower[window, k, step] <= truth) & (truth <= issued.upper[window, k, step]) for k in range(levels)]
    return Compared(
        values=values.astype(np.int64),
        mae=mean(np.abs(issued.values[window, step] - truth) / std),
        baseline_mae=mean(np.abs(issued.baseline[window, step] - truth) / std),
        coverage=np.stack([np.zeros(len(whole)), *(mean(flags.astype(np.float64)) for flags in held)])[1:],
    )


def no_figures(levels: tuple[float, ...]) -> Line:
    """Of no value."""
    return {"values": 0, "mae": None, "baseline_mae": None, "coverage": {name_of(level): None for level in levels}}


def first_line(time: str, levels: tuple[float, ...], continued: Continued) -> Line:
    """The line of the first update, before which nothing was forecast."""
    nothing = {**no_figures(levels), "day": None, "totals": {}, "alarms": []}
    line: Line = {"time": time, "rows": None, **nothing}
    if continued.whole.id_column is not None:
        line["series"] = with_refused({}, continued.refused, levels)
    return line


def next_line(time: str, checkpoint: Checkpoint, before: State, continued: Continued) -> tuple[Line, FloatArray, bool]:
    """A line of the log, the sums of the charts (1 + S, charts), whether those watched have been met by a day of rows.

    All steps count whose truth has come with the last new rows, however long ago they were forecast: absolute errors in
    standard deviations of the train rows, mean over `values`, and `coverage` by level. `day`: of the watched forecasts
    alone, all of their steps that have come; None before. It is over when half of the series have met it, refused ones
    aside. `series`: lines of those whose alarms have changed, or that were not refused before, or are no longer.
    """
    levels, whole, issued = before.levels, continued.whole, before.issued
    rows, end, steps = first_row(whole, issued), whole.offsets[1:][issued.series], issued.values.shape[1]
    come = rows[:, None] + np.arange(steps)
    there = (come >= whole.offsets[:-1][issued.series][:, None]) & (come < end[:, None])
    new = come >= (end - continued.new[issued.series])[:, None]
    since = compared(checkpoint, whole, issued, there & new, len(levels))
    count = int(continued.new[: len(before.seen)].sum())
    line: Line = {"time": time, "rows": count, **since.together.line(0, levels), "day": None}
    totals = np.concatenate([before.totals, np.full((1 + len(whole) - len(before.totals), len(CHARTS)), np.nan)])
    length = np.minimum(end - rows, steps)
    met = length >= min(rows_a_day(whole.freq), steps)
    awaited = issued.watched & continued.taken[issued.series]
    over = bool(awaited.any()) and 2 * int((met & awaited).sum()) >= int(awaited.sum())
    if over:
        met &= awaited
        day_steps = int(length[met].min())
        chosen = there & met[:, None] & (np.arange(steps) < day_steps)
        of_day = compared(checkpoint, whole, issued, chosen, len(levels))
        if of_day.values.any():
            expected, level = before.reference.expected.with_series(len(whole)), levels[0] if levels else None
            coverage = of_day.coverage[0] if levels else None
            day = Day(steps=day_steps, mae=of_day.mae, baseline_mae=of_day.baseline_mae, coverage=coverage)
            totals = watched(totals, expected.scores(day, level))
            if np.isfinite(totals[0]).any():
                line["day"] = expected.beside(day, level)
    line |= of_totals(totals[0])
    if whole.id_column is not None:
        line["series"] = series_lines(before, continued, totals, since)
    return line, totals, over


def of_totals(totals: FloatArray) -> Line:
    """The sums of the charts after a day by their names, and those above their limits."""
    named = {name: float(total) for name, total in zip(CHARTS, totals, strict=True) if np.isfinite(total)}
    return {"totals": named, "alarms": alarms(named)}


def series_lines(before: State, continued: Continued, totals: FloatArray, since: Compared) -> dict[str, Line]:
    """The lines of series, by their ids, of which something else is to be said than before."""
    whole = continued.whole
    limits = np.array([chart.limit for chart in CHARTS.values()])
    former = np.concatenate([before.totals, np.full((len(totals) - len(before.totals), len(CHARTS)), np.nan)])
    changed = ((former > limits) != (totals > limits)).any(axis=1)[1:]
    news = {*before.refused} ^ continued.refused.keys()
    lines = {}
    for s in np.flatnonzero(changed | np.isin(whole.ids, list(news))).tolist():
        figures = {**since.line(s, before.levels), **of_totals(totals[1 + s])}
        lines[str(whole.ids[s])] = {"rows": int(continued.new[s]), **figures}
    return with_refused(lines, {name: continued.refused.get(name) for name in news}, before.levels)


def with_refused(
    lines: Mapping[str, Line], refused: Mapping[str, str | None], levels: tuple[float, ...]
) -> dict[str, Line]:
    """The lines of series with why their rows were refused, None: they are no longer; in the order of their ids."""
    nothing = {"rows": 0, **no_figures(levels), "totals": {}, "alarms": []}
    names = sorted({*lines, *refused})
    return {name: {**lines.get(name, nothing), "refused": refused.get(name)} for name in names}
