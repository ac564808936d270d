"""What an update leaves for the next one: a single file, so that whatever kills it finds the state before or after."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from annotated_types import Ge, Lt
from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from forecast.data.cells import FloatArray
from forecast.data.frame import SeriesFrame
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
from forecast.evaluation.expected import Reference
from forecast.evaluation.interval_errors import name_of
from forecast.evaluation.watch import CHARTS, Expected, alarms
from forecast.files import remove_unfinished, save_arrays, together

STATE, LOG, LATEST, FORECASTS = "state.npz", "log.csv", "latest.csv", "forecasts"
FORMAT = 2
FRAME = ("frame_times", "frame_values", "frame_missing")
ISSUED = ("values", "baseline", "lower", "upper")
ARRAYS = {
    "meta": Array("U", 0),
    **dict(zip(FRAME, (Array("M", 1), Array("f", 2), Array("b", 2)), strict=True)),
    **{f"issued_{name}": Array("f", 3 if name in ("values", "baseline") else 4) for name in ISSUED},
    "expected_windows": Array("i", 0),
    **{f"expected_{name}": Array("f", 1) for name in ("mae", "log_mae", "log_std", "worse_std", "levels")},
    **{f"expected_{name}": Array("f", 2) for name in ("coverage", "coverage_std")},
}
# As `update.time_before` writes it, and after it the file of a forecast is called.
Time = Annotated[str, Field(pattern=r"^(step -?\d{1,18}|\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{1,9})?)?)$")]
Chart = Literal["errors", "coverage", "baseline"]


class WatchedDay(TypedDict):
    """See `Expected.beside`."""

    mae: NotNegative
    baseline_mae: NotNegative
    expected_mae: NotNegative
    coverage: NotRequired[NotNegative]
    expected_coverage: NotRequired[NotNegative]


class Line(TypedDict):
    """A line of the log, see `update_errors.next_line`."""

    time: Time
    rows: Count | None
    values: Count
    mae: NotNegative | None
    baseline_mae: NotNegative | None
    coverage: dict[str, NotNegative | None]
    day: WatchedDay | None
    totals: dict[Chart, NotNegative]
    alarms: list[Chart]


class Meta(TypedDict):
    """What a state holds beside its arrays, see `State`."""

    format: Literal[2]
    checkpoint: str
    levels: list[Annotated[float, Ge(1), Lt(100)]]
    baseline: str
    period: Positive
    columns: list[str]
    freq: str
    cutoffs: list[Time]
    watched: Time
    log: list[Line]
    latest: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Issued:
    """A forecast whose truth has not come yet, or not all of it: original units.

    cutoff: the last time that it knew. values, baseline (P, T); lower, upper (K, P, T) of the levels of the state.
    """

    cutoff: pd.Timestamp
    values: FloatArray
    baseline: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """After an update. checkpoint: its SHA-256. seen: the last rows. watched: the cutoff of the forecast that is.

    log: a line an update, the numbers of `update.compared`. latest: the text of the newest forecast.
    """

    checkpoint: str
    levels: tuple[float, ...]
    reference: Reference
    seen: SeriesFrame
    issued: list[Issued]
    watched: pd.Timestamp
    log: list[dict[str, Any]]
    latest: str

    @property
    def latest_name(self) -> str:
        """The file of the newest forecast, by the last time that it knew."""
        return bare_name(f"{self.log[-1]['time']}.csv".replace(" ", "T").replace(":", "-"))


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
        "cutoffs": [str(one.cutoff) for one in state.issued],
        "watched": str(state.watched),
        "log": state.log,
        "latest": state.latest,
    }
    missing = np.zeros(seen.values.shape, bool) if seen.missing is None else seen.missing
    frame = dict(zip(FRAME, (seen.timestamps.to_numpy().astype("datetime64[ns]"), seen.values, missing), strict=True))
    issued = {f"issued_{name}": np.stack([getattr(one, name) for one in state.issued]) for name in ISSUED}
    expected = {f"expected_{name}": array for name, array in reference.expected.arrays().items()}
    return {"meta": np.array(json.dumps(meta, allow_nan=False)), **frame, **issued, **expected}


def read_state(folder: Path) -> State | None:
    """The state in a folder; None where there is none. UserError for one that cannot be read."""
    path = folder / STATE
    try:
        arrays = read_arrays(path, ARRAYS, most=1000)
        return None if arrays is None else _state_of(arrays, str(path))
    except (ValueError, OverflowError) as error:
        reason = error.reason if isinstance(error, DocumentError) else str(error)
        raise UserError(
            f"{path} cannot be read as the state of an update: {reason}. Restore it, or begin anew in another folder: "
            "hydra.run.dir=FOLDER"
        ) from error


def _state_of(arrays: dict[str, Any], path: str) -> State:
    """Raises ValueError where its parts do not belong together."""
    meta = parse_json(path, str(arrays["meta"]).encode("utf-8", "surrogatepass"), Meta)
    own = {name.removeprefix("expected_"): array for name, array in arrays.items() if name.startswith("expected_")}
    windows = int(own.pop("windows"))
    times, values, missing = (arrays[name] for name in FRAME)
    issued = [arrays[f"issued_{name}"] for name in ISSUED]
    index, cutoffs = pd.DatetimeIndex(times), pd.DatetimeIndex(meta["cutoffs"])
    (n, steps, targets), k = issued[0].shape, len(meta["levels"])
    shapes = [(n, steps, targets)] * 2 + [(n, k, steps, targets)] * 2
    parts = {
        "its rows": len(index) > 0 and bool(index.notna().all()) and index.is_monotonic_increasing and index.is_unique,
        "its columns": values.shape == missing.shape == (len(index), len({*meta["columns"]})),
        "its numbers": windows > 0
        and all(one.dtype == np.float64 and _measured(one) for one in (values, *issued[:2], *own.values())),
        "its forecasts": n == len(cutoffs) > 0 < steps and [part.shape for part in issued] == shapes,
        "its cutoffs": bool(cutoffs.isin(index).all()) and pd.Timestamp(meta["watched"]) in cutoffs,
        "its validation": all(own[name].shape == (steps,) for name in ("mae", "log_mae", "log_std", "worse_std"))
        and own["coverage"].shape == own["coverage_std"].shape == (len(own["levels"]), steps)
        and {*meta["levels"]} <= {*own["levels"].tolist()},
        "its log": len(meta["log"]) > 0 and _is_log(meta["log"], [name_of(level) for level in meta["levels"]]),
    }
    if wrong := [name for name, right in parts.items() if not right]:
        raise ValueError(f"{wrong[0]} are none that an update leaves")
    seen = SeriesFrame(values, index, tuple(meta["columns"]), meta["freq"], path, missing=missing)
    return State(
        checkpoint=meta["checkpoint"],
        levels=tuple(meta["levels"]),
        reference=Reference(
            baseline=meta["baseline"], period=meta["period"], expected=Expected(windows=windows, **own)
        ),
        seen=seen,
        issued=[
            Issued(cutoff=cutoff, **dict(zip(ISSUED, (part[i] for part in issued), strict=True)))
            for i, cutoff in enumerate(cutoffs)
        ],
        watched=pd.Timestamp(meta["watched"]),
        log=[dict(line) for line in meta["log"]],
        latest=meta["latest"],
    )


def _measured(array: FloatArray) -> bool:
    return bool((np.abs(array) < FARTHEST).all())


def _is_log(log: Sequence[Line], levels: list[str]) -> bool:
    """Whether figures stand where they are needed, and sums change with a watched day alone."""
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


def so_far(log: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """For each line of a log the figures over all lines up to it, each value counting alike; None before any truth."""
    count, sums = 0, dict[str, float]()
    for line in log:
        count += line["values"]
        for name, value in figures(line).items() if line["values"] else ():
            sums[name] = sums.get(name, 0.0) + value * line["values"]
        yield {name: sums[name] / count if name in sums else None for name in figures(line)}


def figures(line: dict[str, Any]) -> dict[str, Any]:
    """MAE, that of the baseline and the coverage of each level, as log.csv calls them."""
    coverage = {f"coverage_{level}": share for level, share in line["coverage"].items()}
    return {"mae": line["mae"], "baseline_mae": line["baseline_mae"], **coverage}


def log_text(state: State) -> str:
    """The log as CSV: a line an update. MAE in standard deviations of the train rows; empty: nothing is known yet."""
    names = list(figures(state.log[0]))
    charts = [name for name in CHARTS if state.levels or name != "coverage"]
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    sums = [f"{name}_cusum" for name in charts]
    writer.writerow(["time", "rows", "values", *names, *(f"{name}_so_far" for name in names), *sums, "alarms"])
    for line, running in zip(state.log, so_far(state.log), strict=True):
        found = [*figures(line).values(), *running.values(), *(line["totals"].get(name) for name in charts)]
        cells = ["" if value is None else f"{value:.5g}" for value in found]
        rows = "" if line["rows"] is None else line["rows"]
        writer.writerow([line["time"], rows, line["values"], *cells, " ".join(line["alarms"])])
    return lines.getvalue()
