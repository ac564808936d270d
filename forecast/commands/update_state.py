"""What an update leaves for the next one: a single file, so that whatever kills it finds the state before or after."""

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.frame import SeriesFrame
from forecast.errors import UserError
from forecast.evaluation.expected import Reference
from forecast.evaluation.watch import CHARTS, Expected
from forecast.files import remove_unfinished, save_arrays, together

STATE, LOG, LATEST, FORECASTS = "state.npz", "log.csv", "latest.csv", "forecasts"
FORMAT = 1
FloatArray = npt.NDArray[np.float64]
FRAME = ("frame_times", "frame_values", "frame_missing")
ISSUED = ("values", "baseline", "lower", "upper")


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

    log: a line an update, the numbers of `update.compared`. latest: name and text of the newest forecast.
    """

    checkpoint: str
    levels: tuple[float, ...]
    reference: Reference
    seen: SeriesFrame
    issued: list[Issued]
    watched: pd.Timestamp
    log: list[dict[str, Any]]
    latest: tuple[str, str]


def save_state(folder: Path, state: State) -> None:
    """Writes the state, and what a person reads of it. Raises OSError where one cannot be written.

    The state comes first: a process killed behind it leaves files of yesterday, which the same command writes anew.
    """
    name, text = state.latest
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
    if not path.is_file():
        return None
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(str(arrays["meta"]))
        if meta["format"] != FORMAT:
            raise ValueError(f"format {meta['format']}")
        own = {n.removeprefix("expected_"): a for n, a in arrays.items() if n.startswith("expected_")}
        expected = Expected(**{**own, "windows": int(own["windows"])})
        times, values, missing = (arrays[name] for name in FRAME)
        index = pd.DatetimeIndex(times)
        seen = SeriesFrame(values, index, tuple(meta["columns"]), meta["freq"], str(path), missing=missing)
        parts = [arrays[f"issued_{name}"] for name in ISSUED]
        issued = [
            Issued(cutoff=pd.Timestamp(cutoff), **dict(zip(ISSUED, (part[i] for part in parts), strict=True)))
            for i, cutoff in enumerate(meta["cutoffs"])
        ]
        return State(
            checkpoint=meta["checkpoint"],
            levels=tuple(meta["levels"]),
            reference=Reference(baseline=meta["baseline"], period=meta["period"], expected=expected),
            seen=seen,
            issued=issued,
            watched=pd.Timestamp(meta["watched"]),
            log=meta["log"],
            latest=tuple(meta["latest"]),
        )
    except (
        OSError,
        EOFError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AssertionError,
        zipfile.BadZipFile,
    ) as error:
        raise UserError(
            f"{path} cannot be read as the state of an update: {str(error) or type(error).__name__}. Restore it, or "
            "begin anew in another folder: hydra.run.dir=FOLDER"
        ) from error


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
