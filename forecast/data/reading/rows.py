"""The rows of a file as one series: those of one timestamp made one, in the order of time, at one frequency."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.tseries.frequencies import to_offset

from forecast.data.reading.layout import Aggregate, Duplicates, Layout
from forecast.data.values.findings import counted
from forecast.errors import UserError


class Rows(NamedTuple):
    """values (N, C), NaN where one is missing, at timestamps (N,); notes: what was done, a sentence each.

    origin (N,): the rows before that these are, or the first of those that make one, of a step without rows the same as
    of the next step that has some; None for the very same.
    """

    timestamps: pd.DatetimeIndex
    values: npt.NDArray[np.float64]
    notes: tuple[str, ...] = ()
    origin: npt.NDArray[np.intp] | None = None


def merged(rows: Rows, how: Duplicates) -> Rows:
    """Rows in the order of time, each timestamp once: its first or last row, or the mean or sum of all that have it.

    A missing value counts in no mean and no sum. "error" leaves repeated rows to whoever refuses them.
    """
    stamps, values, notes, origin = rows
    if stamps.is_monotonic_increasing and stamps.is_unique:
        return rows
    order = np.argsort(stamps.to_numpy(), kind="stable")  # NaT last
    if (np.diff(order) < 0).any():
        notes += (f"The rows were sorted by time: {counted(int((np.diff(order) < 0).sum()), 'step')} went back.",)
        stamps, values, origin = stamps[order], values[order], order
    repeats = stamps.duplicated()
    if how == "error" or not repeats.any():
        return Rows(stamps, values, notes, origin)
    origin = order[~stamps.duplicated(keep="last" if how == "last" else "first")]
    if how in ("first", "last"):
        stamps, values = rows.timestamps[origin], rows.values[origin]
    else:
        groups = pd.DataFrame(values, index=stamps).groupby(level=0, sort=False)
        table = groups.mean() if how == "mean" else groups.sum(min_count=1)
        stamps, values = pd.DatetimeIndex(table.index), table.to_numpy()
    note = f"data.duplicates={how} made {counted(int(repeats.sum()), 'repeated row')} one with the row before."
    return Rows(stamps, values, (*notes, note), origin)


def between_whole(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which rows (N,) lie from the first to the last one with a value in each column."""
    whole = ~np.logical_or.reduce(np.isnan(values), axis=1)
    inside: npt.NDArray[np.bool_] = np.maximum.accumulate(whole) & np.maximum.accumulate(whole[::-1])[::-1]
    return inside


def resampled(rows: Rows, freq: str, aggregate: Aggregate) -> Rows:
    """Rows in the order of time brought to a frequency, as pandas' `resample` has it; NaN for a step without values.

    The first and last step may be covered in part only: said for a sum, which is too small there. UserError for a
    frequency that pandas does not know, or that leaves fewer than 3 steps.
    """
    offset = known_frequency(freq, "data.resample")
    table = pd.DataFrame(rows.values, index=rows.timestamps).resample(offset)
    steps = {"mean": table.mean, "last": table.last, "sum": lambda: table.sum(min_count=1)}[aggregate]()
    if len(steps) < 3:
        raise UserError(
            f"data.resample={freq} leaves {counted(len(steps), 'row')} of {len(rows.timestamps)}, from "
            f"{rows.timestamps[0]} to {rows.timestamps[-1]}. Choose a finer frequency, as data.resample=h."
        )
    note = f"data.resample={freq} made {len(steps)} rows of {len(rows.timestamps)}, by their {aggregate}."
    notes = (*rows.notes, note)
    counts = table.size().to_numpy()
    if aggregate == "sum" and min(counts[0], counts[-1]) < counts.max():
        notes += (
            f"The sums of the first and last step are of {counts[0]} and {counts[-1]} rows, where others are of "
            f"{counts.max()}.",
        )
    places = pd.Series(np.arange(len(rows.timestamps)), index=rows.timestamps)
    first = places.resample(offset).first().bfill().to_numpy(dtype=np.intp)
    origin = first if rows.origin is None else rows.origin[first]
    return Rows(pd.DatetimeIndex(steps.index), steps.to_numpy(), notes, origin)


def within(stamps: pd.DatetimeIndex, layout: Layout, path: str) -> npt.NDArray[np.intp] | None:
    """The rows (N,) from data.since to data.until; None for all. UserError for what is no time, and where none is left.

    A row whose time is NaT stays.
    """
    if layout.since is None and layout.until is None:
        return None
    chosen = np.ones(len(stamps), dtype=bool)
    for key, text in (("since", layout.since), ("until", layout.until)):
        if text is not None:
            end = pd.to_datetime(text, format="ISO8601", errors="coerce")
            if pd.isna(end) or end.tz is not None:
                raise UserError(f"data.{key}={text} is no time without a zone. Write it as 2016-07-01 00:00:00.")
            chosen &= ~np.asarray(stamps < end if key == "since" else stamps > end)
    if not chosen.any():
        raise UserError(
            f"{path}: no row lies from data.since={layout.since or 'null'} to data.until={layout.until or 'null'}; "
            f"they reach from {stamps.min()} to {stamps.max()}. Set other times, or null for all rows."
        )
    return None if chosen.all() else np.flatnonzero(chosen)


def known_frequency(freq: str, key: str) -> pd.offsets.BaseOffset:
    """The frequency that an alias names. UserError for none, and for one that does not go forward. key: whose it is."""
    try:
        offset = to_offset(freq)
    except ValueError:
        offset = None
    if offset is None or offset.n < 1:
        raise UserError(f"{key}={freq} is no frequency. Write h, 15min, D, B, W-SUN, MS or another alias of pandas.")
    return offset
