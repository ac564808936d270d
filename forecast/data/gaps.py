"""Rows that a grid lacks, cells without a value, and the ways to fill them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from forecast.data.values.cells import FloatArray, IntArray
from forecast.data.values.findings import Gaps

MOST_MISSING = 0.5  # of the cells: beyond it most of what a model would learn is made up


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


def fill_cells(values: FloatArray, times: IntArray, policy: Gaps) -> None:
    """Fills the cells of values (N, C) that are NaN, in place. times (N,).

    interpolate: on the line in time between the neighbours. forward_fill: the last value again. mask: like
    forward_fill, and no past may hold the cell (`target_rows.usable_windows`). Beyond the first and the last value
    these are repeated.
    """
    numbers = np.arange(len(values))
    for column in values.T:
        gone = np.isnan(column)
        cells = np.flatnonzero(gone)
        before = np.maximum.accumulate(np.where(gone, -1, numbers))[cells]
        after = np.minimum.accumulate(np.where(gone, len(values), numbers)[::-1])[::-1][cells]
        before = np.where(before < 0, after, before)
        if policy != "interpolate":
            column[cells] = column[before]
            continue
        after = np.where(after == len(values), before, after)
        share = (times[cells] - times[before]) / np.maximum(times[after] - times[before], 1)
        column[cells] = column[before] + share * (column[after] - column[before])


def rows_since_measured(
    missing: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.integer[Any]]:
    """How many rows before each cell (N, C) the last measured one of its column lies: 0 for a measured cell.

    starts: the first row of each series, which count as measured; None: of one series.
    """
    starts = np.zeros(1, dtype=np.int64) if starts is None else starts
    numbers = np.arange(len(missing), dtype=np.int32)[:, None]
    last = np.where(missing, 0, numbers)
    last[starts] = numbers[starts]
    since = numbers - np.maximum.accumulate(last, axis=0)
    return since.astype(np.uint8) if since.max(initial=0) < 256 else since  # types that torch indexes


def longest_run(flags: npt.NDArray[np.bool_]) -> int:
    """The most flags (N,) that are set in succession."""
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
    # edges come in pairs, a begin and an end: False stands at both sides
    return int((edges[1::2] - edges[::2]).max(initial=0))
