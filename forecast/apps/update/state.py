"""What an update leaves for the next one: a single file, so that whatever kills it finds the state before or after."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from annotated_types import Ge, Len, Lt
from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from forecast.data.panel import PanelFrame
from forecast.data.saved_scale import ids_of, ids_text
from forecast.data.values.cells import Flags, FloatArray, IntArray
from forecast.documents import (
    Array,
    Count,
    DocumentError,
    NotNegative,
    Positive,
    bare_name,
    fitting,
    parse_json,
    read_arrays,
)
from forecast.errors import UserError
from forecast.evaluation.watch import Expected, Reference
from forecast.files import remove_unfinished, save_arrays, together
from forecast.report.updates import Chart, WatchedDay
from forecast.text.documents import as_cell

STATE, LOG, LATEST, FORECASTS = "state.npz", "log.csv", "latest.csv", "forecasts"
FORMAT = 3
FRAME = {"values": Array("f", 2), "measured": Array("b", 2), "offsets": Array("i", 1), "steps": Array("i", 1)}
ISSUED = {"series": Array("i", 1), "cutoff": Array("i", 1), "watched": Array("b", 1)}
ISSUED |= {"values": Array("f", 3), "baseline": Array("f", 3)}
ISSUED |= {name: Array("f", 4, optional=True) for name in ("lower", "upper")}  # without levels they are not there
EXPECTED = {"windows": Array("i", 1), "together": Array("f", 0), "levels": Array("f", 1)}
EXPECTED |= {name: Array("f", 2) for name in ("mae", "log_mae", "log_std", "worse_std")}
EXPECTED |= {name: Array("f", 3, optional=True) for name in ("coverage", "coverage_std")}
ARRAYS = {
    "meta": Array("U", 0),
    "ids": Array("u", 1),
    "latest": Array("u", 1),
    "refused": Array("u", 1, optional=True),
    "totals": Array("f", 2),
    **{f"frame_{name}": kind for name, kind in FRAME.items()},
    **{f"issued_{name}": kind for name, kind in ISSUED.items()},
    **{f"expected_{name}": kind for name, kind in EXPECTED.items()},
}
# As `PanelFrame.end` writes it, and after it the file of a forecast is called.
Time = Annotated[str, Field(pattern=r"^(step -?\d{1,18}|\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,9})?)?)$")]


class LineFigures(TypedDict):
    """How forecasts of so many values did; None: of no value. coverage: by level."""

    values: Count
    mae: NotNegative | None
    baseline_mae: NotNegative | None
    coverage: dict[str, NotNegative | None]


class Sums(TypedDict):
    """The sums of the charts after a day, and those above their limits."""

    totals: dict[Chart, NotNegative]
    alarms: list[Chart]


class SeriesLine(LineFigures, Sums):
    """What a line of the log says of one of many series. refused: why its rows were, None: they were not."""

    rows: Count | None
    refused: NotRequired[str | None]


class Line(SeriesLine):
    """A line of the log. series: by their ids, of those of which there is news."""

    time: Time
    day: WatchedDay | None
    series: NotRequired[dict[str, SeriesLine]]


class Meta(TypedDict):
    """What a state holds beside its arrays. first: the time of the calendar's first step."""

    format: Literal[3]
    checkpoint: str
    levels: list[Annotated[float, Ge(1), Lt(100)]]
    baseline: str
    period: Positive
    columns: list[str]
    freq: str
    first: Annotated[int, Ge(-(2**63) + 1), Lt(2**63)]
    numbers: Annotated[list[int], Len(2, 2)]
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
        return bare_name(f"{time}{f'-{same}' * (same > 1)}.csv".replace(" ", "T").replace(":", "-"))


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
    meta = {
        "format": FORMAT,
        "checkpoint": state.checkpoint,
        "levels": state.levels,
        "baseline": reference.baseline,
        "period": reference.period,
        "columns": seen.columns,
        "freq": seen.freq,
        "first": seen.first.as_unit("ns").value,
        "numbers": seen.numbers,
        "id_column": seen.id_column,
        "log": state.log,
    }
    measured = np.ones(seen.values.shape, bool) if seen.measured is None else seen.measured
    frame = {"values": seen.values, "measured": measured, "offsets": seen.offsets, "steps": seen.steps}
    arrays = {
        "meta": np.array(json.dumps(meta, allow_nan=False)),
        "ids": np.frombuffer(ids_text(seen.ids), np.uint8),
        "latest": np.frombuffer(state.latest.encode(), np.uint8),
        "refused": np.frombuffer(ids_text(state.refused), np.uint8),
        "totals": state.totals,
        **{f"frame_{name}": array for name, array in frame.items()},
        **{f"issued_{name}": array for name, array in vars(state.issued).items()},
        **{f"expected_{name}": array for name, array in reference.expected.arrays().items()},
    }
    return {name: array for name, array in arrays.items() if array.size or not ARRAYS[name].optional}


def read_state(folder: Path) -> State | None:
    """The state in a folder; None where there is none. UserError for one that cannot be read."""
    path = folder / STATE
    try:
        with fitting(path):
            arrays = read_arrays(path, ARRAYS)
            return None if arrays is None else _state_of(arrays, str(path))
    except DocumentError as error:
        raise UserError(
            f"{path} cannot be read as the state of an update: {error.reason}. Restore it, or begin anew in another "
            "folder: hydra.run.dir=FOLDER"
        ) from error


def _state_of(arrays: dict[str, np.ndarray], path: str) -> State:
    meta = parse_json(path, str(arrays["meta"]).encode("utf-8", "surrogatepass"), Meta)
    (n, length, targets), count = arrays["issued_values"].shape, len(arrays["frame_steps"])
    arrays = {
        **{f"issued_{name}": np.zeros((n, 0, length, targets)) for name in ("lower", "upper")},
        **{
            f"expected_{name}": np.zeros((0, more + count, length))
            for name, more in (("coverage", 0), ("coverage_std", 1))
        },
        **arrays,
    }
    frame, issued, own = (
        {name: arrays[f"{group}_{name}"] for name in names}
        for group, names in (("frame", FRAME), ("issued", ISSUED), ("expected", EXPECTED))
    )
    seen = PanelFrame(
        values=np.ascontiguousarray(frame["values"]),
        measured=None if frame["measured"].all() else frame["measured"],
        offsets=frame["offsets"],
        steps=frame["steps"],
        ids=ids_of(arrays["ids"].tobytes()),
        first=pd.Timestamp(meta["first"]),
        freq=meta["freq"],
        columns=tuple(meta["columns"]),
        name=path,
        id_column=meta["id_column"],
        numbers=(meta["numbers"][0], meta["numbers"][1]),
    )
    return State(
        checkpoint=meta["checkpoint"],
        levels=tuple(meta["levels"]),
        reference=Reference(baseline=meta["baseline"], period=meta["period"], expected=Expected(**own)),
        seen=seen,
        issued=Issued(**issued),
        totals=arrays["totals"],
        refused=ids_of(arrays["refused"].tobytes()).tolist() if "refused" in arrays else [],
        log=meta["log"],
        latest=arrays["latest"].tobytes().decode(),
    )


def so_far(log: Sequence[Line]) -> Iterator[dict[str, float | None]]:
    """For each line of a log the figures over all lines up to it, each value counting alike; None before any truth."""
    count, sums = 0, dict[str, float]()
    for line in log:
        count += line["values"]
        for name, value in figures(line).items():
            if line["values"] and value is not None:
                sums[name] = sums.get(name, 0.0) + value * line["values"]
        yield {name: sums[name] / count if name in sums else None for name in figures(line)}


def figures(line: LineFigures) -> dict[str, float | None]:
    """MAE, that of the baseline and the coverage of each level, as log.csv calls them."""
    coverage = {f"coverage_{level}": share for level, share in line["coverage"].items()}
    return {"mae": line["mae"], "baseline_mae": line["baseline_mae"], **coverage}


def log_text(state: State) -> str:
    """The log as CSV: a line an update. MAE in standard deviations of the train rows; empty: nothing is known yet.

    Of many series, the line of all has no id; below it are those of which there is news, and why rows were refused.
    """
    names, many = list(figures(state.log[0])), state.seen.id_column is not None
    charts: list[Chart] = ["errors", "coverage", "baseline"] if state.levels else ["errors", "baseline"]
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    sums = [f"{name}_cusum" for name in charts]
    header = ["rows", "values", *names, *(f"{name}_so_far" for name in names), *sums, "alarms"]
    writer.writerow(["time", "id", *header, "refused"] if many else ["time", *header])
    for line, running in zip(state.log, so_far(state.log), strict=True):
        nothing = dict.fromkeys(running)
        of_all: dict[str, SeriesLine] = {"": line}
        for name, own in {**of_all, **line.get("series", {})}.items():
            numbers = [*figures(own).values(), *(nothing if name else running).values()]
            numbers += [own["totals"].get(chart) for chart in charts]
            written = ["" if value is None else f"{value:.5g}" for value in numbers]
            rows = "" if own["rows"] is None else own["rows"]
            cells = [rows, own["values"], *written, " ".join(own["alarms"])]
            ends = [as_cell(name)], [as_cell(own.get("refused") or "")]
            writer.writerow([line["time"], *ends[0], *cells, *ends[1]] if many else [line["time"], *cells])
    return lines.getvalue()
