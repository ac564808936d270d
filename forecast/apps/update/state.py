"""What an update leaves for the next one: a single file, so that whatever kills it finds the state before or after."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel

from forecast.data.panel import PanelFrame
from forecast.data.saved_scale import ids_of, ids_text
from forecast.data.values.cells import Flags, FloatArray, IntArray
from forecast.documents import Arrays, parse_document, read_arrays
from forecast.evaluation.watch import Expected, Reference
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
