"""Series on one grid of time as one frame: their ends cut to what was measured, their gaps refused or filled."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from forecast.data.assembling.grid import Grid
from forecast.data.assembling.rows import PanelRows, SortedRows
from forecast.data.gaps import MOST_MISSING, Repair, large_hole, longest_run
from forecast.data.panel import PanelFrame
from forecast.data.sources import CsvSource
from forecast.data.values.cells import Flags, FloatArray, IntArray
from forecast.data.values.findings import Gaps, counted, quoted
from forecast.errors import UserError
from forecast.text.terminal import listed

_log = logging.getLogger(__name__)
_NAMED = 8  # series named in a line
_FIX = "data.gaps=interpolate, data.gaps=forward_fill, data.gaps=mask or data.gaps=zero"
NO_VALUE, MOSTLY_MISSING = "no row with a value in each column", "most of its rows missing"
HOLE = f"a hole, and data.gaps=refuse. Fill it, or set {_FIX}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Regular:
    """Regular series one after another.

    values (N, C) finite; measured (N, C), None for all; kept (S,): which of the series these are; lengths (S,), steps
    (S,): their rows, and where each begins on the grid. repair: what was done. left_out: numbers of series, by reason.
    """

    values: FloatArray
    measured: Flags | None
    kept: IntArray
    lengths: IntArray
    steps: IntArray
    repair: Repair
    left_out: dict[str, IntArray]


def regular(rows: SortedRows, grid: Grid, policy: Gaps, *, leave_out: bool = False) -> Regular:
    """Every series from its first to its last whole row, without gaps.

    mask and forward_fill fill with the value before, interpolate on the line in time between neighbours; with zero a
    row or a cell that is not there is a 0 that was measured, and the first and the last row need not be whole.
    UserError, naming the first gap, where `policy` is refuse; leave_out: such series are left out in place of that.
    """
    missing: Flags = np.isnan(rows.values)
    holes = bool(missing.any())
    whole = None if not holes or policy == "zero" else ~np.logical_or.reduce(missing, axis=1)
    first, last = _ends(rows, whole)
    held = first <= last
    positions = grid.positions(rows.times)
    # row 0 stands in for series that hold nothing; their lengths become 0
    steps, ends = positions[np.where(held, first, 0)], positions[np.where(held, last, 0)]
    lengths = np.where(held, ends - steps + 1, 0)
    counts = np.where(held, last - first + 1, 0)
    empty = _counts(missing.sum(axis=1), first, last) if holes else np.zeros_like(counts)
    gaps = (lengths - counts) * len(rows.columns) + empty
    if rows.ids[0] == "" and held[0] and policy != "zero":
        _check_most(rows, grid, slice(first[0], last[0] + 1), int((lengths - counts)[0]))
    holed = (gaps > 0) & (policy == "refuse")
    if holed.any() and not (leave_out and len(rows.ids) > 1):
        raise _gap(rows, grid, gaps, first, last)
    sparse = (gaps > MOST_MISSING * lengths * len(rows.columns)) & (policy != "zero") & ~holed
    kept = np.flatnonzero(held & ~sparse & ~holed)
    reasons = {
        NO_VALUE: np.flatnonzero(~held),
        MOSTLY_MISSING: np.flatnonzero(held & sparse),
        HOLE: np.flatnonzero(holed),
    }
    left_out = {reason: series for reason, series in reasons.items() if series.size}
    if cut := int((rows.lengths - counts)[held].sum()):
        _log.info("%s: %s left out at an end, for want of a value in a column.", rows.name, counted(cut, "row"))
    values = _placed(rows, positions, first[kept], counts[kept], lengths[kept])
    absent = int((lengths - counts)[kept].sum())
    unknown = np.isnan(values) if gaps[kept].any() else None
    repair = Repair(policy)
    if unknown is not None:
        repair = Repair(policy, absent, int(empty[kept].sum()), longest_run(np.logical_or.reduce(unknown, axis=1)))
        if policy == "zero":
            values, unknown = np.nan_to_num(values), None
        else:
            _fill(values, unknown, _times(grid, lengths[kept], steps[kept]) if policy == "interpolate" else None)
    return Regular(
        values=values,
        measured=None if unknown is None else ~unknown,
        kept=kept,
        lengths=lengths[kept],
        steps=steps[kept],
        repair=repair,
        left_out=left_out,
    )


def _check_most(rows: SortedRows, grid: Grid, inside: slice, absent: int) -> None:
    """UserError where most rows of one series, or most of a column, is missing: that is no gap to fill."""
    lengths = inside.stop - inside.start
    if not grid.stepped:
        hole = large_hole(pd.DatetimeIndex(rows.times[inside].astype("datetime64[ns]")), grid.freq)
        if hole is not None:
            raise UserError(f"{rows.name}: {hole}")
    gone = np.isnan(rows.values[inside]).sum(axis=0) + absent
    if (gone > MOST_MISSING * (lengths + absent)).any():
        column = int(gone.argmax())
        raise UserError(
            f"{rows.name}: column {quoted(rows.columns[column])} has no value in {gone[column]} of {lengths + absent} "
            "rows. That is no gap to fill: drop the column, or resample the file to a coarser frequency."
        )


def say_left_out(name: str, left_out: dict[str, list[str]], repair: Repair) -> None:
    """One line for each reason for which series were not taken, and one for what was filled."""
    for reason, ids in left_out.items():
        some = listed(ids[:_NAMED]) + (", ..." if len(ids) > _NAMED else "")
        _log.warning("%s: %d series left out, %s: %s", name, len(ids), reason, some)
    if repair.rows_added or repair.cells_filled:
        does = f"added {repair.rows_added} missing rows and filled {repair.cells_filled} empty cells"
        _log.info("%s: data.gaps=%s %s; longest gap in rows: %d", name, repair.policy, does, repair.longest_run)


def _ends(rows: SortedRows, whole: Flags | None) -> tuple[IntArray, IntArray]:
    """The first and the last row (S,) of each series with a value in each column; none where the last is before."""
    starts, stops = rows.offsets[:-1], rows.offsets[1:]
    if whole is None:
        return starts, stops - 1
    there = np.flatnonzero(whole)
    # how many whole rows are before each row: with `there` the first one at or after it
    before = np.concatenate([[0], np.cumsum(whole)])
    held = before[stops] > before[starts]
    first, last = starts.copy(), starts - 1
    first[held], last[held] = there[before[starts[held]]], there[before[stops[held]] - 1]
    return first, last


def _counts(cells: IntArray, first: IntArray, last: IntArray) -> IntArray:
    """The sum of the cells (N,) of each series, from its first to its last row."""
    before = np.concatenate([[0], np.cumsum(cells)])
    # of a series that holds nothing the last row is before the first
    counts: IntArray = before[np.maximum(last + 1, first)] - before[first]
    return counts


def _placed(rows: SortedRows, positions: IntArray, first: IntArray, counts: IntArray, lengths: IntArray) -> FloatArray:
    """The values of the rows of each series, NaN in the rows that it lacks."""
    size = int(lengths.sum())
    if size == counts.sum() == len(rows.values):  # nothing cut off, nothing lacking
        return rows.values
    starts = np.concatenate([[0], np.cumsum(counts)])
    taken = np.repeat(first - starts[:-1], counts) + np.arange(starts[-1])
    if size == starts[-1]:
        return np.take(rows.values, taken, axis=0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    values = np.full((size, rows.values.shape[1]), np.nan)
    values[np.repeat(offsets - positions[first], counts) + positions[taken]] = rows.values[taken]
    return values


def _times(grid: Grid, lengths: IntArray, steps: IntArray) -> Callable[[IntArray], IntArray]:
    """What tells the times of some rows of series one after another, of these lengths, from these steps on."""
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]

    def times(rows: IntArray) -> IntArray:
        series = np.searchsorted(starts, rows, side="right") - 1
        return grid.times(steps[series] + rows - starts[series])

    return times


def _fill(values: FloatArray, unknown: Flags, when: Callable[[IntArray], IntArray] | None) -> None:
    """Fills the unknown cells of values (N, C); the first and the last row of each series hold all theirs.

    when: the times of some rows, to draw a line between neighbours; None for the value before.
    """
    numbers = np.arange(len(values))
    for column, gone in zip(values.T, unknown.T, strict=True):
        # the nearest known rows; no series reaches into another, since each begins and ends with a known cell
        cells = np.flatnonzero(gone)
        before = np.maximum.accumulate(np.where(gone, 0, numbers))[cells]
        if when is None:
            column[cells] = column[before]
            continue
        after = np.minimum.accumulate(np.where(gone, len(values), numbers)[::-1])[::-1][cells]
        share = (when(cells) - when(before)) / (when(after) - when(before))
        column[cells] = column[before] + share * (column[after].astype(np.float64) - column[before])


class MissingRows(UserError):
    """Rows, or cells of them, are missing, and data.gaps=refuse."""


def _gap(rows: SortedRows, grid: Grid, gaps: IntArray, first: IntArray, last: IntArray) -> MissingRows:
    """What to say of the first gap of the first series with one."""
    series = int((gaps > 0).argmax())
    start, stop = int(first[series]), int(last[series]) + 1
    positions = grid.positions(rows.times[start:stop])
    absent = np.append(np.diff(positions) > 1, False)
    missing = np.isnan(rows.values[start:stop])
    row = int((absent | missing.any(axis=1)).argmax())
    if missing[row].any():
        column, time = rows.columns[int(missing[row].argmax())], grid.words(int(rows.times[start + row]))
        gap = f"{rows.where(start + row)}: the column {quoted(column)}{rows.of_series(series)} has no value at {time}"
    else:
        lacking = int(positions[row + 1] - positions[row] - 1)
        freq = "" if grid.stepped else f" of '{grid.freq}'"
        since = grid.words(int(grid.times(positions[row : row + 1] + 1)[0]))
        gap = f"{rows.where(start + row + 1)}: before it {counted(lacking, 'row')}{freq}{rows.of_series(series)} "
        gap += f"{'is' if lacking == 1 else 'are'} missing, from {since} on"
    if len(rows.ids) > 1:
        gap += f"; {(gaps > 0).sum()} of {len(rows.ids)} series have gaps"
    return MissingRows(f"{gap}. Set {_FIX}.")


def times_are_counted(source: CsvSource) -> bool:
    """Whether the first row of a series is its first step, as the file has no times."""
    return source.panel_form == "rows" or not source.time_columns


def frame_of(series: Regular, rows: PanelRows, grid: Grid, name: str, *, counted: bool) -> PanelFrame:
    """The frame of all series that were kept; what was left out and filled is said. UserError where none was kept.

    rows: of which these are, for their names. counted: whether the first row of a series is its first step.
    """
    ids = rows.ids
    left_out = {reason: [ids[number] for number in numbers.tolist()] for reason, numbers in series.left_out.items()}
    if not series.kept.size and rows.id_column is None:
        raise UserError(
            f"{name}: no row has a value in each of the columns {listed(rows.columns)}. Name columns that have some "
            "rows in common: data.columns=[NAME]"
        )
    if not series.kept.size:
        reasons = ", ".join(f"{len(names)} with {reason}" for reason, names in left_out.items())
        raise UserError(
            f"{name}: none of {len(ids)} series can be used: {reasons}. Name columns that all rows have: "
            "data.columns=[NAME]"
        )
    say_left_out(name, left_out, series.repair)
    begin = int(series.steps.min())
    offsets = np.concatenate([[0], np.cumsum(series.lengths)]).astype(np.int64)
    return PanelFrame(
        values=np.ascontiguousarray(series.values),  # columns are read one by one, and windows are views of rows
        offsets=offsets,
        steps=series.steps - begin,
        ids=np.array([ids[number] for number in series.kept.tolist()], dtype=np.str_),
        first=grid.stamp(begin),
        freq=grid.freq,
        columns=rows.columns,
        name=name,
        measured=series.measured,
        id_column=rows.id_column,
        time_column=rows.time_column,
        numbers=(begin + 1, 1) if counted or not grid.stepped else grid.number(begin),
        repair=series.repair,
        left_out=left_out,
        checksum=rows.checksum,
        time_format=rows.time_format,
        time_zone=rows.time_zone,
        stepped=grid.stepped,
    )
