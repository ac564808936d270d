"""Whether timestamps are regular; rows that their grid lacks, cells without a value, and the ways to fill them."""

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.values.findings import Gaps
from forecast.data.values.frequency import (
    rows_missing,
)
from forecast.text.overrides import typed

MOST_MISSING = 0.5  # of the grid, or of a column: beyond it most of what a model would learn is made up
WORTH, NEARLY_WHOLE = 0.25, 0.1  # shares of the rows of a file, and of a part of it
_HOLES = 30  # sizes of holes that are tried, the largest first
_MAX_RUNS = 3
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Repair:
    """What `data.gaps` did to a file.

    rows_added: rows that the file lacks. cells_filled: cells without a value in the rows that it has. longest_run: the
    most rows in succession that hold something filled in.
    """

    policy: Gaps = "refuse"
    rows_added: int = 0
    cells_filled: int = 0
    longest_run: int = 0


def large_hole(ordered: pd.DatetimeIndex, freq: str) -> str | None:
    """What to say of timestamps (N,), increasing, on a grid of which most is missing; None where less is."""
    absent = rows_missing(ordered, freq) or 0
    if absent <= MOST_MISSING * (absent + len(ordered)):
        return None
    keys = " ".join(typed(f"data.{key}", value) for key, value in longest_part(ordered, freq).items())
    part = f"read the longest part without a large hole with {keys}, " if keys else ""
    return (
        f"from {ordered[0]} to {ordered[-1]} the frequency '{freq}' has {absent + len(ordered)} rows, of which "
        f"{absent} are missing. That is no gap to fill: {part}resample the file to a coarser frequency, count its "
        "rows, as hours of business, with data.time_column=null data.freq=steps data.drop=[TIME], or, if a row that is "
        "not there means 0, as of a day without a sale, set data.gaps=zero."
    )


def longest_part(ordered: pd.DatetimeIndex, freq: str) -> dict[str, str]:
    """{"since": TIME, "until": TIME} of the longest stretch of timestamps (N,) between their largest holes.

    Without an end that is one of the whole; {} where no stretch of a part of them, WORTH at least, is nearly whole.
    """
    steps = np.diff(ordered.to_numpy())
    for hole in np.unique(steps)[: -_HOLES - 1 : -1]:
        stops = np.append(np.flatnonzero(steps >= hole) + 1, len(ordered))
        lengths = np.diff(stops, prepend=0)
        stop, length = int(stops[lengths.argmax()]), int(lengths.max())
        part = ordered[stop - length : stop]
        if length < max(WORTH * len(ordered), 3):
            return {}
        if (rows_missing(part, freq) or 0) <= NEARLY_WHOLE * length:
            ends = {"since": part[0] if stop > length else None, "until": part[-1] if stop < len(ordered) else None}
            return {key: str(stamp) for key, stamp in ends.items() if stamp is not None}
    return {}


def filled_cells(
    values: npt.NDArray[np.float64], timestamps: pd.DatetimeIndex, policy: Gaps
) -> npt.NDArray[np.float64]:
    """Values (N, C), NaN where one is missing, without NaN.

    interpolate: on the line in time between the neighbours. forward_fill: the last value again. mask: like
    forward_fill, and no past may hold the cell (`target_rows.usable_windows`).
    """
    if policy != "interpolate":
        full: npt.NDArray[np.float64] = pd.DataFrame(values).ffill().bfill().to_numpy()
        return full
    seconds = np.asarray((timestamps - timestamps[0]) / pd.Timedelta(seconds=1), dtype=np.float64)
    full = values.copy()
    for column, cells in zip(full.T, values.T, strict=True):
        gap = np.isnan(cells)
        column[gap] = np.interp(seconds[gap], seconds[~gap], cells[~gap])
    return full


def rows_since_measured(
    missing: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.integer[Any]]:
    """How many rows before each cell (N, C) the last measured one of its column lies: 0 for a measured cell.

    starts: the first row of each series, which count as measured; None: of one series.
    """
    starts = np.zeros(1, dtype=np.int64) if starts is None else starts
    numbers, columns = np.arange(len(missing)), []
    for gone in missing.T:
        last = np.where(gone, 0, numbers)
        last[starts] = numbers[starts]
        since = numbers - np.maximum.accumulate(last)
        columns.append(since.astype(np.uint8 if since.max(initial=0) < 256 else np.int32))  # types that torch indexes
    return np.stack(columns, axis=1)


def longest_run(flags: npt.NDArray[np.bool_]) -> int:
    """The most flags (N,) that are set in succession."""
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
    # edges come in pairs, a begin and an end: False stands at both sides
    return int((edges[1::2] - edges[::2]).max(initial=0))
