"""What an update leaves for the next one: a single file, so that whatever kills it finds the state before or after.

Below it what came of the forecasts of former updates: a line of the log, and the day that is watched.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
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
from forecast.text.documents import as_cell

STATE, LOG, LATEST, FORECASTS = "state.npz", "log.csv", "latest.csv", "forecasts"


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
    refused: list[str]
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

    totals (1 + S, charts): the sums of the charts, of all series and of each; NaN before any day. refused: the ids of
    series whose rows were. log: a line an update. latest: the text of the newest
    forecast.
    """

    checkpoint: str
    levels: tuple[float, ...]
    reference: Reference
    seen: PanelFrame
    issued: Issued
    totals: FloatArray
    refused: list[str]
    log: list[Line]
    latest: str

    @property
    def latest_name(self) -> str:
        """The file of the newest forecast, by the last time that it knew, and its number where others knew the same."""
        time = self.log[-1]["time"]
        same = sum(line["time"] == time for line in self.log)
        bare = re.sub(r"[^\w.-]", "-", time.replace(" ", "T"))  # a document's text is no path
        return f"{bare}{f'-{same}' * (same > 1)}.csv"


def save_state(folder: Path, state: State) -> None:
    """Writes the state, and what a person reads of it. Raises OSError where one cannot be written.

    The state comes first: a process killed behind it leaves files of yesterday, which the same command writes anew.
    """
    name, text = state.latest_name, state.latest
    (folder / FORECASTS).mkdir(exist_ok=True)
    for path in (folder / STATE, folder / LATEST, folder / LOG, folder / FORECASTS / name):
        remove_unfinished(path)  # of a process that was killed: the folder is locked, nobody writes them now
    with together(folder / FORECASTS) as beside:
        beside(name).write_text(text, encoding="utf-8")
    with together(folder) as beside:
        save_arrays(beside(STATE), arrays_of(state))
        beside(LATEST).write_text(text, encoding="utf-8")
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
        refused=state.refused,
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
        refused=meta.refused,
        log=meta.log,
        latest=arrays["latest"].tobytes().decode(),
    )


def part_of(arrays: Arrays, group: str) -> Arrays:
    """Those arrays of a state that are of one group, by their own names."""
    return {name.removeprefix(f"{group}_"): array for name, array in arrays.items() if name.startswith(f"{group}_")}


def so_far(log: Sequence[Line]) -> Iterator[dict[str, float | None]]:
    """For each line of a log the figures over all lines up to it, each value counting alike; None before any truth."""
    count, sums = 0, dict[str, float]()
    for line in log:
        count += line["values"]
        for name, value in figures(line).items():
            if line["values"] and value is not None:
                sums[name] = sums.get(name, 0.0) + value * line["values"]
        yield {name: sums[name] / count if name in sums else None for name in figures(line)}


def figures(line: Line) -> dict[str, float | None]:
    """MAE, that of the baseline and the coverage of each level, as log.csv calls them."""
    coverage = {f"coverage_{level}": share for level, share in line["coverage"].items()}
    return {"mae": line["mae"], "baseline_mae": line["baseline_mae"], **coverage}


def log_text(state: State) -> str:
    """The log as CSV: a line an update. MAE in standard deviations of the train rows; empty: nothing is known yet.

    Of many series, the line of all has no id; below it are those of which there is news, and why rows were refused.
    """
    names, many = list(figures(state.log[0])), state.seen.id_column is not None
    charts = ["errors", "coverage", "baseline"] if state.levels else ["errors", "baseline"]
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    sums = [f"{name}_cusum" for name in charts]
    header = ["rows", "values", *names, *(f"{name}_so_far" for name in names), *sums, "alarms"]
    writer.writerow(["time", "id", *header, "refused"] if many else ["time", *header])
    for line, running in zip(state.log, so_far(state.log), strict=True):
        nothing = dict.fromkeys(running)
        for name, own in {"": line, **line.get("series", {})}.items():
            numbers = [*figures(own).values(), *(nothing if name else running).values()]
            numbers += [own["totals"].get(chart) for chart in charts]
            written = ["" if value is None else f"{value:.5g}" for value in numbers]
            rows = "" if own["rows"] is None else own["rows"]
            cells = [rows, own["values"], *written, " ".join(own["alarms"])]
            ends = [as_cell(name)], [as_cell(own.get("refused") or "")]
            writer.writerow([line["time"], *ends[0], *cells, *ends[1]] if many else [line["time"], *cells])
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


def rows_a_day(freq: str) -> int:
    """Rows of one day, at least one."""
    first, second = pd.date_range("2000-01-03", periods=2, freq=freq)
    return max(1, int(pd.Timedelta(days=1) / (second - first)))


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
