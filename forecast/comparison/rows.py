"""Which runs of a folder are one row of a table, and which rows may stand in one table."""

import csv
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from forecast.comparison.bootstrap import Interval, paired_interval
from forecast.documents import read_arrays
from forecast.errors import UserError
from forecast.run_folder import FILES, NOT_IDENTITY, OVERRIDES, SERIES_ERRORS, WINDOW_ERRORS, Run, read_run
from forecast.run_folder.shapes import DataRecord, is_many

# What a row averages over.
REPEATS = "seed"
# Overrides that make no other experiment of a run: pictures for TensorBoard, beside what its identity leaves out.
UNNAMED = (*NOT_IDENTITY, "callbacks.figures")
# Overrides that name the data, and what is forecast.
TASK = ("data", "data.path", "data.name", "pred_len", "protocol")
# Of `data` in run.json: what is alike where window errors may be compared; the last two are of panels.
COMPARED = ("checksum", "targets", "splits", "gaps", "windows", "scaling")


class SeedSpread(NamedTuple):
    """Mean and sample standard deviation over runs; sd None for a single one."""

    mean: float
    sd: float | None
    runs: int

    @classmethod
    def over(cls, values: Sequence[float]) -> "SeedSpread | None":
        """Of the values of several runs; None of no value."""
        if not values:
            return None
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


@dataclass(frozen=True, kw_only=True)
class Row:
    """The runs that differ in their seed alone.

    name: what sets them apart from the other rows. finished: one run a seed, by seed.
    """

    name: str
    finished: tuple[Run, ...]

    def spread(self, *path: str) -> SeedSpread | None:
        """Of the figure at that place of metrics.json, such as ("test", "scaled", "mse"); None when no run has it."""
        values = (at(run.metrics, path) for run in self.finished)
        return SeedSpread.over([float(v) for v in values if isinstance(v, int | float) and math.isfinite(v)])

    def first(self, *path: str) -> object:
        """The value of the first run at that place of metrics.json; None without one."""
        return at(self.finished[0].metrics, path)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Rows, in the order of the sweep, that share data, target columns, splits, horizon and protocol."""

    data: str
    features: str
    targets: tuple[str, ...]
    pred_len: int
    protocol: str
    rows: tuple[Row, ...]


def read_folder(folder: Path) -> list[Run]:
    """All runs in the folders of `folder`, in the order of the sweep's jobs; foreign ones as such, last.

    Raises UserError when there is no such folder, or nothing in it.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder. It is multirun/NAME, the folder of a sweep.")
    if (folder / OVERRIDES).is_file():
        raise UserError(f"{folder} is a single run: say the folder that holds the runs.")
    runs = [read_run(path) for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    if all(run.state == "foreign" for run in runs):
        raise UserError(f"{folder} holds no runs. A sweep writes them: forecast train -m experiment=ablation/attention")
    return sorted(runs, key=lambda run: (run.state == "foreign", run.job, run.path.name))


def comparisons(runs: Sequence[Run]) -> list[Comparison]:
    """The runs that have finished as rows of as many tables as are needed."""
    tables: dict[str, list[Run]] = {}
    for run in runs:
        if run.state == "finished":
            # window errors may be compared for the same columns of the same rows, scaled alike
            data = {key: at(run.run_info, ("data", key)) for key in COMPARED}
            task = [run.metrics[key] for key in ("data", "features", "pred_len", "protocol")]
            tables.setdefault(json.dumps([task, data], sort_keys=True), []).append(run)
    unfinished = [run for run in runs if run.state not in ("finished", "foreign")]
    return [_comparison(members, unfinished) for members in tables.values()]


def _comparison(members: Sequence[Run], unfinished: Sequence[Run]) -> Comparison:
    first = members[0]
    metrics, data = first.metrics, first.run_info.get("data") or DataRecord()
    # what runs differ in names the row, but for the seed and for keys that make no other experiment; those of the same
    # task without results count here, so that a row has its name before the last run has finished
    same = [run for run in unfinished if all(run.overrides.get(key) == first.overrides.get(key) for key in TASK)]
    runs = [*members, *same]
    keys = [
        key
        for key in dict.fromkeys(key for run in runs for key in run.overrides)
        if key != REPEATS
        and not any(f"{key}.".startswith(f"{other}.") for other in UNNAMED)
        and len({run.overrides.get(key) for run in runs}) > 1
    ]
    grouped: dict[tuple[str | None, ...], list[Run]] = {}
    for run in members:
        grouped.setdefault(tuple(run.overrides.get(key) for key in keys), []).append(run)
    return Comparison(
        data=metrics["data"],
        features=metrics["features"],
        targets=tuple(data.get("targets") or ()),
        pred_len=metrics["pred_len"],
        protocol=metrics["protocol"],
        rows=tuple(_row(_row_name(keys, values), runs) for values, runs in grouped.items()),
    )


def _row_name(keys: Sequence[str], values: Sequence[str | None]) -> str:
    """`full` for attention=full where only the attention varies; key=value for keys, which mean little without.

    That of a slot is its name alone.
    """
    if not keys:
        return "all runs"
    if len(keys) == 1 and "." not in keys[0]:
        return str(values[0] if values[0] is not None else f"{keys[0]} as it is")
    named = [(key.removeprefix("attention@model."), value) for key, value in zip(keys, values, strict=True)]
    pairs = [f"{key}={value}" for key, value in named if value is not None]
    return ", ".join(pairs) or "as it is"


def _row(name: str, runs: Sequence[Run]) -> Row:
    """One run a seed: of several the newest, since the older ones were made with another version or config."""
    by_age = sorted(runs, key=lambda run: run.path.stat().st_mtime)
    newest = {str(run.metrics["seed"]): run for run in by_age}
    return Row(name=name, finished=tuple(newest[seed] for seed in sorted(newest, key=int)))


def mse_difference(row: Row, reference: Row) -> Interval | None:
    """How much higher the MSE of `row` is on the windows that both have forecast; None when they share none.

    Scaled units, mean over columns. Windows are the same when their forecasts begin at the same row.
    """
    sides = [[window_errors(run) for run in side.finished] for side in (row, reference)]
    shared = sorted(set.intersection(*(set(errors) for side in sides for errors in side)))
    if not shared:
        return None
    values = [np.array([[errors[origin] for origin in shared] for errors in side]) for side in sides]
    return paired_interval(values[0], values[1], block=block_length(row, reference))


def block_length(*rows: Row) -> int:
    """seq_len + pred_len, of the longest: from there on two windows share no row. 1 of several series."""
    if all(is_many(run.metrics, "test") for row in rows for run in row.finished):
        return 1
    return max(int(run.metrics["seq_len"]) + int(run.metrics["pred_len"]) for row in rows for run in row.finished)


def window_errors(run: Run) -> Mapping[int | str, float]:
    """The first forecast row of each window -> its mean squared error, scaled units, over what was measured.

    Of several series the id of each -> that of all its windows. Nothing where there are too many windows of one.
    """
    if is_many(run.metrics, "test"):
        return series_errors(run.path / SERIES_ERRORS)
    if WINDOW_ERRORS not in run.metrics.get(FILES, [WINDOW_ERRORS]):
        return {}
    arrays = read_arrays(run.path / WINDOW_ERRORS, ["start", "squared_scaled"])
    starts, errors = arrays["start"], arrays["squared_scaled"]
    none = np.isnan(errors)
    held = ~none.all(1)
    means = np.where(none, 0.0, errors)[held].sum(1) / (~none)[held].sum(1)
    return dict(zip((starts[held] + int(run.metrics["seq_len"])).tolist(), means.tolist(), strict=True))


def series_errors(path: Path) -> dict[int | str, float]:
    """The errors of series that have one, by their ids, as errors_by_series.csv has them.

    Each weighs as many windows as it has: the mean of these is that over all windows.
    """
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    place = head.index("mse_scaled")
    counts = {row[0]: int(row[1]) for row in rows if row[place]}
    mean = sum(counts.values()) / max(1, len(counts))
    return {row[0]: float(row[place]) * counts[row[0]] / mean for row in rows if row[place]}


def shared_windows(rows: Sequence[Row]) -> int:
    """How many windows all finished runs of the rows have forecast."""
    sets = [set(window_errors(run)) for row in rows for run in row.finished]
    return len(set.intersection(*sets)) if sets else 0


def at(values: object, path: Sequence[str]) -> object:
    """The value at that place of nested mappings; None where there is none."""
    for key in path:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values
