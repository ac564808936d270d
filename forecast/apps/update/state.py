"""What an update leaves for the next one: a single file, so that whatever kills it finds the state before or after.

Below it what came of the forecasts of former updates: a line of the log, and the day that is watched.
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel

from forecast.apps.update.continued import Continued
from forecast.checkpoint.load import Checkpoint
from forecast.data.panel import PanelFrame
from forecast.data.saved_scale import ids_of, ids_text
from forecast.data.values.cells import Flags, FloatArray, IntArray
from forecast.documents import Arrays, parse_document, read_arrays
from forecast.evaluation.scored_intervals import name_of
from forecast.evaluation.watch import CHARTS, Day, Expected, Reference, alarms, watched
from forecast.files import remove_unfinished, save_arrays, together
from forecast.report.updates import Line

STATE, LOG, LATEST = "state.npz", "log.csv", "latest.csv"


class Meta(BaseModel):
    """What a state holds beside its arrays. first: the time of the calendar's first step."""

    format: Literal[4] = 4
    checkpoint: str
    levels: tuple[float, ...]
    baseline: str
    period: int
    columns: tuple[str, ...]
    freq: str
    first: int
    numbers: tuple[int, int]
    id_column: str | None
    log: list[Line]


@dataclass(frozen=True, kw_only=True, eq=False)
class Issued:
    """W forecasts whose truth has not come yet, or not all of it: original units, in the order in which they were made.

    series (W,): the numbers of theirs; cutoff (W,): the last time that each knew, as `PanelFrame.times`; watched (W,):
    whether it is. values, baseline (W, P, T); lower, upper (W, K, P, T) of the levels of the state.
    """

    series: IntArray
    cutoff: IntArray
    watched: Flags
    values: FloatArray
    baseline: FloatArray
    lower: FloatArray
    upper: FloatArray

    def of(self, chosen: Flags) -> "Issued":
        """Some of them (W,)."""
        return Issued(**{name: part[chosen] for name, part in vars(self).items()})

    def and_then(self, later: "Issued", *, watch: bool) -> "Issued":
        """With those that were made later. watch: whether the newest of each series are watched from now on."""
        parts = {name: np.concatenate([part, getattr(later, name)]) for name, part in vars(self).items()}
        if watch:
            newest = np.full(int(parts["series"].max(initial=-1)) + 1, -1)
            newest[parts["series"]] = np.arange(len(parts["series"]))  # the last of each stays
            parts["watched"] = np.isin(np.arange(len(parts["series"])), newest)
        return Issued(**parts)


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """After an update. checkpoint: its SHA-256. seen: the last rows of S series.

    totals (1, charts): the sums of the charts; NaN before any day. log: a line an update. latest: the text of the
    newest forecast.
    """

    checkpoint: str
    levels: tuple[float, ...]
    reference: Reference
    seen: PanelFrame
    issued: Issued
    totals: FloatArray
    log: list[Line]
    latest: str


def save_state(folder: Path, state: State) -> None:
    """Writes the state, and what a person reads of it. Raises OSError where one cannot be written.

    The state comes first: a process killed behind it leaves files of yesterday, which the same command writes anew.
    """
    for name in (STATE, LATEST, LOG):
        remove_unfinished(folder / name)  # of a process that was killed: the folder is locked, nobody writes them now
    with together(folder) as beside:
        save_arrays(beside(STATE), arrays_of(state))
        beside(LATEST).write_text(state.latest, encoding="utf-8")
        beside(LOG).write_text(log_text(state), encoding="utf-8")


def arrays_of(state: State) -> dict[str, np.ndarray]:
    """A state as arrays without objects; the rest of it as JSON among them."""
    reference, seen = state.reference, state.seen
    meta = Meta(
        checkpoint=state.checkpoint,
        levels=state.levels,
        baseline=reference.baseline,
        period=reference.period,
        columns=seen.columns,
        freq=seen.freq,
        first=seen.first.as_unit("ns").value,
        numbers=seen.numbers,
        id_column=seen.id_column,
        log=state.log,
    )
    measured = np.ones(seen.values.shape, bool) if seen.measured is None else seen.measured
    frame = {"values": seen.values, "measured": measured, "offsets": seen.offsets, "steps": seen.steps}
    return {
        "meta": np.array(meta.model_dump_json()),
        "ids": np.frombuffer(ids_text(seen.ids), np.uint8),
        "latest": np.frombuffer(state.latest.encode(), np.uint8),
        "totals": state.totals,
        **{f"frame_{name}": array for name, array in frame.items()},
        **{f"issued_{name}": array for name, array in vars(state.issued).items()},
        **{f"expected_{name}": array for name, array in reference.expected.arrays().items()},
    }


def read_state(folder: Path) -> State | None:
    """The state in a folder; None where there is none. DocumentError for one that cannot be read."""
    path = folder / STATE
    if not path.is_file():
        return None
    arrays = read_arrays(path, ["meta"])
    meta = parse_document(path, str(arrays["meta"]), Meta)
    frame = part_of(arrays, "frame")
    seen = PanelFrame(
        values=np.ascontiguousarray(frame["values"]),
        measured=None if frame["measured"].all() else frame["measured"],
        offsets=frame["offsets"],
        steps=frame["steps"],
        ids=ids_of(arrays["ids"].tobytes()),
        first=pd.Timestamp(meta.first),
        freq=meta.freq,
        columns=meta.columns,
        name=str(path),
        id_column=meta.id_column,
        numbers=meta.numbers,
    )
    expected = Expected(**part_of(arrays, "expected"))
    return State(
        checkpoint=meta.checkpoint,
        levels=meta.levels,
        reference=Reference(baseline=meta.baseline, period=meta.period, expected=expected),
        seen=seen,
        issued=Issued(**part_of(arrays, "issued")),
        totals=arrays["totals"],
        log=meta.log,
        latest=arrays["latest"].tobytes().decode(),
    )


def part_of(arrays: Arrays, group: str) -> Arrays:
    """Those arrays of a state that are of one group, by their own names."""
    return {name.removeprefix(f"{group}_"): array for name, array in arrays.items() if name.startswith(f"{group}_")}


def figures(line: Line) -> dict[str, float | None]:
    """MAE, that of the baseline and the coverage of each level, as log.csv calls them."""
    coverage = {f"coverage_{level}": share for level, share in line["coverage"].items()}
    return {"mae": line["mae"], "baseline_mae": line["baseline_mae"], **coverage}


def log_text(state: State) -> str:
    """The log as CSV: a line an update. MAE in standard deviations of the train rows; empty: nothing is known yet."""
    charts = ["errors", "coverage", "baseline"] if state.levels else ["errors", "baseline"]
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(["time", "rows", "values", *figures(state.log[0]), *(f"{name}_cusum" for name in charts), "alarms"])
    for line in state.log:
        numbers = [*figures(line).values(), *(line["totals"].get(chart) for chart in charts)]
        cells = ["" if value is None else f"{value:.5g}" for value in numbers]
        rows = "" if line["rows"] is None else line["rows"]
        writer.writerow([line["time"], rows, line["values"], *cells, " ".join(line["alarms"])])
    return lines.getvalue()


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """What came of some steps of forecasts, of each series (S,): the means over measured values, NaN of none.

    mae, baseline_mae: absolute errors, scaled. coverage (K, S): shares inside the intervals.
    """

    values: IntArray
    mae: FloatArray
    baseline_mae: FloatArray
    coverage: FloatArray

    def line(self, levels: tuple[float, ...]) -> Line:
        """The means over the values of all series, for the log; None of no value."""
        count = int(self.values.sum())

        def mean(means: FloatArray) -> float | None:
            return float(np.nansum(means * self.values) / count) if count else None

        coverage = {name_of(level): mean(self.coverage[k]) for k, level in enumerate(levels)}
        return {
            "values": count,
            "mae": mean(self.mae),
            "baseline_mae": mean(self.baseline_mae),
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


def first_line(time: str, levels: tuple[float, ...]) -> Line:
    """The line of the first update, before which nothing was forecast."""
    nothing = {"mae": None, "baseline_mae": None, "coverage": {name_of(level): None for level in levels}}
    return {"time": time, "rows": None, "values": 0, **nothing, "day": None, "totals": {}, "alarms": []}


def next_line(time: str, checkpoint: Checkpoint, before: State, continued: Continued) -> tuple[Line, FloatArray, bool]:
    """A line of the log, the sums of the charts (1, charts), whether those watched have been met by a day of rows.

    All steps count whose truth has come with the last new rows, however long ago they were forecast: absolute errors in
    standard deviations of the train rows, mean over `values`, and `coverage` by level. `day`: of the watched forecasts
    alone, all of their steps that have come; None before. It is over when half of the series have met it, refused ones
    aside.
    """
    levels, whole, issued = before.levels, continued.whole, before.issued
    rows, end, steps = first_row(whole, issued), whole.offsets[1:][issued.series], issued.values.shape[1]
    come = rows[:, None] + np.arange(steps)
    there = (come >= whole.offsets[:-1][issued.series][:, None]) & (come < end[:, None])
    new = come >= (end - continued.new[issued.series])[:, None]
    since = compared(checkpoint, whole, issued, there & new, len(levels))
    count = int(continued.new[: len(before.seen)].sum())
    line: Line = {"time": time, "rows": count, **since.line(levels), "day": None}
    totals = before.totals
    length = np.minimum(end - rows, steps)
    first, second = pd.date_range("2000-01-03", periods=2, freq=whole.freq)
    met = length >= min(max(1, int(pd.Timedelta(days=1) / (second - first))), steps)  # a day's rows, at least one
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
            totals = watched(totals, expected.scores(day, level)[:1])
            if np.isfinite(totals[0]).any():
                line["day"] = expected.beside(day, level)
    named = {name: float(total) for name, total in zip(CHARTS, totals[0], strict=True) if np.isfinite(total)}
    return {**line, "totals": named, "alarms": alarms(named)}, totals, over
