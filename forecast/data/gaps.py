"""Gaps in a series: rows that its regular grid lacks, cells without a value, and the explicit ways to fill them."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.csv_text import CsvText
from forecast.data.frequency import grid_stamps, rows_missing
from forecast.errors import UserError

Gaps = Literal["refuse", "interpolate", "forward_fill", "mask"]
MISSING_WORDS = frozenset({"", "nan", "na", "n/a", "null", "none", "<na>", "#n/a"})
# As files write them; pandas compares letter by letter.
MISSING_SPELLINGS = frozenset(
    {"NaN"} | {spelling for word in MISSING_WORDS for spelling in (word, word.upper(), word.capitalize())}
)
FIXES = "data.gaps=interpolate, forward_fill or mask"
MOST_MISSING = 0.5  # of the grid, or of a column: beyond it most of what a model would learn is made up
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


UNTOUCHED = Repair()


class Filled(NamedTuple):
    """A series without gaps: values (N, C), timestamps (N,), filled (N,) the rows with a value made up; None: none."""

    values: npt.NDArray[np.float64]
    timestamps: pd.DatetimeIndex
    filled: npt.NDArray[np.bool_] | None
    repair: Repair


def fill(
    text: CsvText,
    timestamps: pd.DatetimeIndex,
    values: npt.NDArray[np.float64],
    *,
    columns: Sequence[str],
    freq: str,
    policy: Gaps,
) -> Filled:
    """Puts the rows of a file on the whole grid of `freq` and fills what is missing.

    timestamps (N,) increasing, all on the grid; values (N, C), NaN where a cell has none. interpolate: on the line in
    time between the neighbours. forward_fill: the last value again. mask: like forward_fill, and no window may touch
    the row (`window_gaps`). UserError when a gap has no neighbour to fill it from, and when most is missing.
    """
    assert policy != "refuse"
    absent = rows_missing(timestamps, freq)
    assert absent is not None, f"a timestamp is off the grid of {freq}"
    if not absent and not np.isnan(values).any():
        return Filled(values, timestamps, None, Repair(policy))
    _refuse_most_rows(text, timestamps, freq, absent)
    stamps = grid_stamps(timestamps, freq) if absent else timestamps
    full = np.full((len(stamps), len(columns)), np.nan)
    full[stamps.get_indexer(timestamps)] = values
    missing = np.isnan(full)
    filled = missing.any(axis=1)
    _refuse_most_cells(text, missing, columns)
    _refuse_ends(text, timestamps, values, columns=columns, policy=policy)
    last_value = pd.DataFrame(full).ffill().bfill()
    repaired = _interpolated(full, stamps) if policy == "interpolate" else last_value.to_numpy()
    repair = Repair(policy, absent, int(np.isnan(values).sum()), longest_run(filled))
    does = f"added {absent} missing rows and filled {repair.cells_filled} empty cells"
    _log.info("%s: data.gaps=%s %s; longest gap in rows: %d", text.path, policy, does, repair.longest_run)
    return Filled(repaired, stamps, filled, repair)


def longest_run(flags: npt.NDArray[np.bool_]) -> int:
    """The most flags (N,) that are set in succession."""
    lengths = [stop - start for start, stop in runs(flags)]
    return max(lengths, default=0)


def runs(flags: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """(first, behind the last) of each stretch of set flags (N,)."""
    padded = np.concatenate([[False], flags, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1]).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def _interpolated(full: npt.NDArray[np.float64], stamps: pd.DatetimeIndex) -> npt.NDArray[np.float64]:
    seconds = np.asarray((stamps - stamps[0]) / pd.Timedelta(seconds=1), dtype=np.float64)
    repaired: npt.NDArray[np.float64] = full.copy()
    for column in repaired.T:
        gap = np.isnan(column)
        column[gap] = np.interp(seconds[gap], seconds[~gap], column[~gap])
    return repaired


def _refuse_most_rows(text: CsvText, timestamps: pd.DatetimeIndex, freq: str, absent: int) -> None:
    rows = absent + len(timestamps)
    if absent > MOST_MISSING * rows:
        raise UserError(
            f"{text.path}: from {timestamps[0]} to {timestamps[-1]} the frequency '{freq}' has {rows} rows, of which "
            f"{absent} are missing. That is no gap to fill: resample the file to a coarser frequency, or cut it to a "
            "part without holes."
        )


def _refuse_most_cells(text: CsvText, missing: npt.NDArray[np.bool_], columns: Sequence[str]) -> None:
    for name, count in zip(columns, missing.sum(axis=0).tolist(), strict=True):
        if count > MOST_MISSING * len(missing):
            raise UserError(
                f"{text.path}: column '{name}' has no value in {count} of {len(missing)} rows. That is no gap to "
                "fill: drop the column, or resample the file to a coarser frequency."
            )


def _refuse_ends(
    text: CsvText,
    timestamps: pd.DatetimeIndex,
    values: npt.NDArray[np.float64],
    *,
    columns: Sequence[str],
    policy: Gaps,
) -> None:
    """Refuses a gap that has no value before it, or none behind it, where the policy needs one."""
    ends = {"interpolate": (0, len(values) - 1), "forward_fill": (0,), "mask": ()}[policy]
    for row in ends:
        missing = np.flatnonzero(np.isnan(values[row]))
        if missing.size:
            before = "before" if row == 0 else "behind"
            other = "mask" if row == 0 else "forward_fill"
            raise UserError(
                f"{text.path}: line {text.line(row)}, column '{columns[missing[0]]}': the value at {timestamps[row]} "
                f"is missing, and there is none {before} it from which data.gaps={policy} could fill it. Cut the file "
                f"{'down to its first whole row' if row == 0 else 'behind its last whole row'}, or set "
                f"data.gaps={other}."
            )
