"""What an update leaves for the next one: a single file, so that whatever kills it finds the state before or after."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
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
    FARTHEST,
    Array,
    Count,
    DocumentError,
    NotNegative,
    Positive,
    bare_name,
    parse_json,
    read_arrays,
)
from forecast.errors import UserError
from forecast.evaluation.scored_intervals import name_of
from forecast.evaluation.watch import CHARTS, Expected, Reference, alarms
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
MOST_MB, FARTHEST_STEP = 4000, 10**8  # of a state
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
        arrays = read_arrays(path, ARRAYS, most=MOST_MB)
        return None if arrays is None else _state_of(arrays, str(path))
    except (ValueError, OverflowError, IndexError) as error:
        reason = error.reason if isinstance(error, DocumentError) else str(error)
        raise UserError(
            f"{path} cannot be read as the state of an update: {reason}. Restore it, or begin anew in another folder: "
            "hydra.run.dir=FOLDER"
        ) from error


def _state_of(arrays: dict[str, np.ndarray], path: str) -> State:
    """Raises ValueError where its parts do not belong together."""
    meta = parse_json(path, str(arrays["meta"]).encode("utf-8", "surrogatepass"), Meta)
    (n, length, targets), k = arrays["issued_values"].shape, len(meta["levels"])
    count, kinds = len(arrays["frame_steps"]), len(arrays["expected_levels"])
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
    ids, offsets, steps = ids_of(arrays["ids"].tobytes()), frame["offsets"], frame["steps"]
    values, shape = np.ascontiguousarray(frame["values"]), (n, k, length, targets)
    each, spreads, totals = (count, length), (1 + count, length), arrays["totals"]
    numbers = (values, *(issued[name] for name in ("values", "baseline")), *own.values(), np.nan_to_num(totals))
    parts = {
        "its series": len({*ids.tolist()}) == count == len(ids) == len(offsets) - 1
        and (meta["id_column"] is not None or ids.tolist() == [""]),
        "its rows": offsets[0] == 0
        and offsets[-1] == len(values)
        and bool((np.diff(offsets) > 0).all())
        and bool((steps >= 0).all() and (steps < FARTHEST_STEP).all()),
        "its columns": values.shape == frame["measured"].shape == (len(values), len({*meta["columns"]})),
        "its numbers": all(array.dtype == np.float64 or array.dtype.kind == "i" for array in numbers)
        and all(_measured(array) for array in numbers),
        "its forecasts": n > 0 < length
        and issued["baseline"].shape == issued["values"].shape
        and issued["lower"].shape == issued["upper"].shape == shape
        and issued["series"].shape == issued["cutoff"].shape == issued["watched"].shape == (n,)
        and bool(((issued["series"] >= 0) & (issued["series"] < count)).all()),
        "its validation": own["windows"].shape == (1 + count,)
        and bool((own["windows"] >= 0).all())
        and own["mae"].shape == own["log_mae"].shape == each
        and own["log_std"].shape == own["worse_std"].shape == spreads
        and own["coverage"].shape == (kinds, *each)
        and own["coverage_std"].shape == (kinds, *spreads)
        and {*meta["levels"]} <= {*own["levels"].tolist()},
        "its log": len(meta["log"]) > 0 and _is_log(meta["log"], [name_of(level) for level in meta["levels"]]),
        "its sums": totals.shape == (1 + count, len(CHARTS)),
    }
    if wrong := [name for name, right in parts.items() if not right]:
        raise ValueError(f"{wrong[0]} are none that an update leaves")
    seen = PanelFrame(
        values=values,
        measured=None if frame["measured"].all() else frame["measured"],
        offsets=offsets,
        steps=steps,
        ids=ids,
        first=pd.Timestamp(meta["first"]),
        freq=meta["freq"],
        columns=tuple(meta["columns"]),
        name=path,
        id_column=meta["id_column"],
        numbers=(meta["numbers"][0], meta["numbers"][1]),
    )
    if not np.isin(issued["cutoff"], seen.times()).all():
        raise ValueError("its cutoffs are none that an update leaves")
    return State(
        checkpoint=meta["checkpoint"],
        levels=tuple(meta["levels"]),
        reference=Reference(baseline=meta["baseline"], period=meta["period"], expected=Expected(**own)),
        seen=seen,
        issued=Issued(**issued),
        totals=totals,
        refused=ids_of(arrays["refused"].tobytes()).tolist() if "refused" in arrays else [],
        log=meta["log"],
        latest=arrays["latest"].tobytes().decode(),
    )


def _measured(array: FloatArray) -> bool:
    return bool((np.abs(array) < FARTHEST).all())


def _is_log(log: Sequence[Line], levels: list[str]) -> bool:
    """Whether figures stand where they are needed, and the sums of all series change with a watched day alone."""
    totals: Mapping[str, float] = {}
    for line in log:
        known = (line["mae"], line["baseline_mae"], *line["coverage"].values())
        if list(line["coverage"]) != levels or (line["values"] and None in known):
            return False
        now = {str(name): total for name, total in line["totals"].items()}
        if (line["day"] is None and now != totals) or line["alarms"] != alarms(now):
            return False
        if line["day"] is not None and levels and not {"coverage", "expected_coverage"} <= line["day"].keys():
            return False
        totals = now
    return True


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
