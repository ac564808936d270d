"""Which runs of a folder are one row of a table, and which rows may stand in one table."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forecast.comparison.bootstrap import Interval, paired_interval
from forecast.errors import UserError
from forecast.run_folder import NOT_IDENTITY, OVERRIDES, WINDOW_ERRORS, Run, read_run

# What a row averages over.
REPEATS = "seed"
# Overrides that make no other experiment of a run: pictures for TensorBoard, beside what its identity leaves out.
UNNAMED = (*NOT_IDENTITY, "callbacks.figures")


class Spread(NamedTuple):
    """Mean and sample standard deviation over runs; sd None for a single one."""

    mean: float
    sd: float | None
    runs: int


@dataclass(frozen=True, kw_only=True)
class Row:
    """The runs that differ in their seed alone.

    name: what sets them apart from the other rows. finished: one run a seed, by seed. lost: those without results, of
    seeds that no other run has. superseded: older runs of a seed.
    """

    name: str
    finished: tuple[Run, ...]
    lost: tuple[Run, ...] = ()
    superseded: tuple[Run, ...] = ()

    def spread(self, *path: str) -> Spread | None:
        """Of the figure at that place of metrics.json, such as ("test", "scaled", "mse"); None when no run has it."""
        found = (at(run.metrics, path) for run in self.finished)
        values = [float(value) for value in found if isinstance(value, int | float) and math.isfinite(value)]
        if not values:
            return None
        return Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))

    def one(self, *path: str) -> Any:
        """What the first finished run says at that place of metrics.json; None without one."""
        return at(self.finished[0].metrics, path) if self.finished else None


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What rows must share to be compared: data, target columns, splits, horizon, protocol.

    Its rows are in the order of the sweep.
    """

    data: str
    features: str
    targets: tuple[str, ...]
    pred_len: int
    protocol: str
    rows: tuple[Row, ...]

    def row(self, name: str) -> Row | None:
        """The row of that name, None when there is none."""
        return next((row for row in self.rows if row.name == name), None)


def read_folder(folder: Path) -> list[Run]:
    """All runs in the folders of `folder`, in the order in which they were asked for; foreign ones as such.

    Raises UserError when there is no such folder, or nothing in it.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder. It is multirun/NAME, the folder of a sweep.")
    if (folder / OVERRIDES).is_file():
        raise UserError(f"{folder} is a single run: say the folder that holds the runs, or see its metrics.json.")
    runs = [read_run(path) for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    if all(run.state == "foreign" for run in runs):
        raise UserError(f"{folder} holds no runs. A sweep writes them: train.py -m experiment=ablation/attention")
    return sorted(runs, key=_job)


def settings(runs: Sequence[Run]) -> list[Setting]:
    """The runs as rows of as many tables as are needed. Foreign runs are left out; none when nothing has finished."""
    tables: dict[str, list[Run]] = {}
    lost = []
    for run in runs:
        if run.state == "finished":
            tables.setdefault(_setting(run), []).append(run)
        elif run.state != "foreign":
            lost.append(run)
    if not tables:
        return []
    # a run without results is shown where its overrides fit best: data and horizon as asked for
    for run in lost:
        tables[max(tables, key=lambda key: _fit(run, tables[key]))].append(run)
    return [_table(members) for members in tables.values()]


def check_reference(tables: Sequence[Setting], name: str | None) -> None:
    """Raises UserError unless a row of that name has results in some table; None is always fine."""
    rows = [row for table in tables for row in table.rows]
    if name is not None and not any(row.name == name and row.finished for row in rows):
        there = ", ".join(dict.fromkeys(row.name for row in rows if row.finished))
        says = "has no finished run" if any(row.name == name for row in rows) else "is no row"
        raise UserError(f"--against={name}: that {says}. Rows with results: {there}")


def _table(members: Sequence[Run]) -> Setting:
    finished = next(run for run in members if run.state == "finished")
    metrics, path = finished.metrics, at(finished.run_info, ("data", "path"))
    named = metrics["data"] if metrics["data"] != "csv" or not path else Path(path).name
    return Setting(
        data=named,
        features=metrics["features"],
        targets=tuple(at(finished.run_info, ("data", "targets")) or ()),
        pred_len=metrics["pred_len"],
        protocol=metrics["protocol"],
        rows=_rows(members),
    )


def compare(row: Row, reference: Row) -> Interval | None:
    """How much higher the MSE of `row` is on the windows that both have forecast; None when they share none.

    Scaled units, mean over columns. Windows are the same when their forecasts begin at the same row.
    """
    if not row.finished or not reference.finished:
        return None
    parts = [[window_errors(run) for run in side.finished] for side in (row, reference)]
    shared = sorted(set.intersection(*(set(errors) for side in parts for errors in side)))
    if not shared:
        return None
    values = [np.array([[errors[origin] for origin in shared] for errors in side]) for side in parts]
    return paired_interval(values[0], values[1], block=block_length(row, reference))


def block_length(*rows: Row) -> int:
    """seq_len + pred_len, of the longest: from there on two windows share no row."""
    return max(int(run.metrics["seq_len"]) + int(run.metrics["pred_len"]) for row in rows for run in row.finished)


def window_errors(run: Run) -> dict[int, float]:
    """The first forecast row of each window -> its mean squared error, scaled units."""
    with np.load(run.path / WINDOW_ERRORS) as arrays:
        origins = arrays["start"] + int(run.metrics["seq_len"])
        return dict(zip(origins.tolist(), arrays["squared_scaled"].mean(1).tolist(), strict=True))


def shared_windows(rows: Sequence[Row]) -> int:
    """How many windows all finished runs of the rows have forecast."""
    sets = [set(window_errors(run)) for row in rows for run in row.finished]
    return len(set.intersection(*sets)) if sets else 0


def _rows(runs: Sequence[Run]) -> tuple[Row, ...]:
    names = _varying(runs)
    grouped: dict[tuple[str | None, ...], list[Run]] = {}
    for run in runs:
        grouped.setdefault(tuple(run.overrides.get(name) for name in names), []).append(run)
    return tuple(_row(_name(names, values), members) for values, members in grouped.items())


def _row(name: str, runs: Sequence[Run]) -> Row:
    """One run a seed: of several the newest, since the older ones were made with another version or config."""
    finished: dict[str, Run] = {}
    superseded = []
    for run in sorted((run for run in runs if run.state == "finished"), key=lambda run: run.path.stat().st_mtime):
        seed = str(run.metrics["seed"])
        superseded += [finished[seed]] if seed in finished else []
        finished[seed] = run
    lost = tuple(run for run in runs if run.state != "finished" and run.overrides.get(REPEATS, "") not in finished)
    ordered = tuple(finished[seed] for seed in sorted(finished, key=int))
    return Row(name=name, finished=ordered, lost=lost, superseded=tuple(superseded))


def _varying(runs: Sequence[Run]) -> list[str]:
    names = dict.fromkeys(name for run in runs for name in run.overrides)
    return [name for name in names if _tells(name) and len({run.overrides.get(name) for run in runs}) > 1]


def _tells(name: str) -> bool:
    return name != REPEATS and not any(name == other or name.startswith(f"{other}.") for other in UNNAMED)


def _name(names: Sequence[str], values: Sequence[str | None]) -> str:
    """`full` for attention=full where only the attention varies; key=value for keys, which say little without."""
    if not names:
        return "all runs"
    if len(names) == 1 and "." not in names[0]:
        return str(values[0] if values[0] is not None else f"{names[0]} as it is")
    said = [f"{name}={value}" for name, value in zip(names, values, strict=True) if value is not None]
    return ", ".join(said) or "as it is"


def _setting(run: Run) -> str:
    """Equal for runs whose window errors may be compared: the same columns of the same rows, scaled alike."""
    described = at(run.run_info, ("data",)) or {}
    data = {key: described.get(key) for key in ("checksum", "targets", "splits", "gaps")}
    asked = [run.metrics[key] for key in ("data", "features", "pred_len", "protocol")]
    return json.dumps([asked, data], sort_keys=True)


def _fit(run: Run, members: Sequence[Run]) -> int:
    return max(len(run.overrides.items() & member.overrides.items()) for member in members)


def _job(run: Run) -> tuple[bool, int, str]:
    """Sorts by the number of the job in its sweep; what is no run comes last."""
    return run.state == "foreign", run.job, run.path.name


def at(values: Any, path: Sequence[str]) -> Any:
    """What stands at that place of nested mappings; None where nothing does."""
    for key in path:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values
