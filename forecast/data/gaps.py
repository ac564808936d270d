"""Whether timestamps are regular; rows that their grid lacks, cells without a value, and the ways to fill them."""

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.reading.rows import between_whole
from forecast.data.reading.table import Table
from forecast.data.values.findings import GAPS_FIX, Findings, Gaps, counted, quoted
from forecast.data.values.frequency import (
    first_deviation,
    grid_frequency,
    infer_frequency,
    rows_missing,
)
from forecast.errors import UserError
from forecast.text.overrides import typed
from forecast.text.terminal import listed

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


def check_gaps(table: Table, freq: str | None, findings: Findings, *, zero: bool = False) -> None:
    """Errors where most of the rows, or of a column, is missing: that is no gap to fill. A check lists all gaps.

    freq: whose grid the timestamps lie on; None, where a check found none: rows are not counted. zero: what is missing
    is a 0, however much it is.
    """
    ordered = table.ordered()
    absent = 0 if freq is None else rows_missing(ordered, freq) or 0
    whole = absent + len(ordered)
    if absent > MOST_MISSING * whole and not zero:
        assert freq is not None
        findings.error(f"{table.text.path}: {large_hole(ordered, freq)}")
        absent = 0
    elif absent and not findings.strict:
        assert freq is not None
        some = ""
        if gaps := missing_runs(ordered, freq):
            stamp, longest = max(gaps, key=lambda run: run[1])
            first = ", ".join(f"{counted(length, 'row')} from {stamp}" for stamp, length in gaps[:_MAX_RUNS])
            more = ", ..." if len(gaps) > _MAX_RUNS else ""
            some = f" in {counted(len(gaps), 'gap')}: {first}{more}"
            some += f"; the longest has {counted(longest, 'row')}, from {stamp}"
        findings.add("mend", f"{absent} of {whole} rows are missing ({absent / whole:.2%}){some}.")
    if not zero:
        _check_columns(table, absent, findings)


def large_hole(ordered: pd.DatetimeIndex, freq: str) -> str | None:
    """What to say of timestamps (N,), increasing, on a grid of which most is missing; None where less is."""
    absent = rows_missing(ordered, freq) or 0
    if absent <= MOST_MISSING * (absent + len(ordered)):
        return None
    keys = " ".join(typed(f"data.{key}", value) for key, value in longest_part(ordered, freq).items())
    part = f"read the longest part without a large hole with {keys}, " if keys else ""
    return (
        f"from {ordered[0]} to {ordered[-1]} the frequency '{freq}' has {absent + len(ordered)} rows, of which "
        f"{absent} are missing. That is no gap to fill: {part}resample the file to a coarser frequency, or, if a row "
        "that is not there means 0, as of a day without a sale, set data.gaps=zero."
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


def _check_columns(table: Table, absent: int, findings: Findings) -> None:
    """The part of `check_gaps` on cells; absent: rows that the file lacks, 0 where they are an error of their own."""
    rows, missing = len(table.values), np.isnan(table.values)
    counts = missing.sum(axis=0).tolist()
    first_rows = [int(flags.argmax()) for flags in missing.T]
    listed = [] if findings.strict else [row for row, count in zip(first_rows, counts, strict=True) if count]
    records = table.records(listed)
    order, inside = np.argsort(table.timestamps.to_numpy(), kind="stable"), np.zeros(rows, dtype=np.bool_)
    inside[order] = between_whole(table.values[order])
    for column, (name, count) in enumerate(zip(table.columns, counts, strict=True)):
        where = ""
        if count and not findings.strict:
            row, place = first_rows[column], table.places[column]
            line, cells = records[row]
            cell = cells[place] if place < len(cells) else ""
            first = f"in line {line} ({quoted(cell)})"
            origin = table.origin
            if origin is not None and origin[row] in origin[row + 1 : row + 2]:  # a step of data.resample without rows
                first = f"at {table.timestamps[row]}, where no row is"
            where = f", the first {first}, at most {longest_run(missing[:, column])} in succession"
        beside = 0 if count > MOST_MISSING * rows else absent
        if count + beside > MOST_MISSING * (rows + beside):
            findings.error(
                f"{table.text.path}: column {quoted(name)} has no value in {count + beside} of {rows + beside} rows"
                f"{where}. That is no gap to fill: drop the column, or resample the file to a coarser frequency."
            )
        elif where:
            text = f"Column {quoted(name)}: {counted(count, 'value')} of {rows} missing{where}."
            if (missing[:, column] & inside).any():
                findings.add("mend", text)
            else:
                findings.add("note", f"{text} They lie at an end of the file, whose rows are left out.")


def fill(
    table: Table, freq: str, policy: Gaps
) -> tuple[npt.NDArray[np.float64], pd.DatetimeIndex, npt.NDArray[np.bool_] | None, Repair]:
    """Puts the rows of a file on the whole grid of `freq` and fills what is missing, after `check_gaps`.

    Returns values (N, C), timestamps (N,), missing (N, C): the cells made up, None for none, and what was done. With
    zero none is: a row that nobody wrote, or a cell that nobody filled, is a 0 that was measured.
    table: its timestamps increase and lie on the grid. At the ends the rows up to one with a value in each column
    are left out. UserError where no row is one.
    """
    if policy != "zero":
        table = _without_ends(table)
    timestamps, values = table.timestamps, table.values
    absent = 0 if policy == "refuse" else rows_missing(timestamps, freq)
    assert absent is not None, f"a timestamp is off the grid of {freq}"
    if policy == "refuse" or (not absent and not np.isnan(values).any()):
        return values, timestamps, None, Repair(policy)
    stamps = pd.date_range(timestamps[0], timestamps[-1], freq=freq) if absent else timestamps
    full = np.full((len(stamps), len(table.columns)), np.nan)
    full[stamps.get_indexer(timestamps)] = values
    missing: npt.NDArray[np.bool_] | None = np.isnan(full)
    repair = Repair(policy, absent, int(np.isnan(values).sum()), longest_run(np.isnan(full).any(axis=1)))
    if policy == "zero":
        full, missing = np.nan_to_num(full), None
    else:
        full = filled_cells(full, stamps, policy)
    does = f"added {absent} missing rows and filled {repair.cells_filled} empty cells"
    _log.info("%s: data.gaps=%s %s; longest gap in rows: %d", table.text.path, policy, does, repair.longest_run)
    return full, stamps, missing, repair


def _without_ends(table: Table) -> Table:
    """The table from its first to its last row with a value in each column, but for ends that are open."""
    inside = between_whole(table.values)
    if inside.all():
        return table
    if not inside.any():
        raise UserError(
            f"{table.text.path}: no row has a value in each of the columns {listed(table.columns)}. Name columns that "
            "have some rows in common: data.columns=[NAME]"
        )
    first, last = int(inside.argmax()), len(inside) - int(inside[::-1].argmax())
    start, stop = first, last
    if stop - start < len(inside):
        _log.info(
            "%s: the first %d and the last %d rows lack a value in a column and are left out.",
            table.text.path,
            start,
            len(inside) - stop,
        )
    return table.take(np.arange(start, stop))


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


def missing_runs(timestamps: pd.DatetimeIndex, freq: str) -> list[tuple[pd.Timestamp, int]]:
    """The first timestamp and the length of each run of rows that the grid of `freq` has and a file lacks.

    timestamps (N,) increasing, on the grid, of which at most MOST_MISSING is missing; else none is listed.
    """
    absent = rows_missing(timestamps, freq)
    if not absent or absent > MOST_MISSING * (absent + len(timestamps)):
        return []
    stamps = pd.date_range(timestamps[0], timestamps[-1], freq=freq)
    return [(stamps[start], stop - start) for start, stop in runs(~np.asarray(stamps.isin(timestamps)))]


def longest_run(flags: npt.NDArray[np.bool_]) -> int:
    """The most flags (N,) that are set in succession."""
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
    # edges come in pairs, a begin and an end: False stands at both sides
    return int((edges[1::2] - edges[::2]).max(initial=0))


def runs(flags: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """(first, one after the last) of each stretch of set flags (N,)."""
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


_MANY_REPEATS = 0.1  # share of rows: a clock set back repeats a few timestamps, stacked series repeat most


def regular_frequency(table: Table, findings: Findings, *, gaps: Gaps) -> str | None:
    """The frequency; errors for repeated, irregular and other timestamps.

    gaps: unless refuse, rows may be missing. None after an error.
    """
    ordered = table.ordered()
    if ordered is not table.timestamps:
        _check_order(table, findings)
    freq = infer_frequency(ordered) if len(ordered) >= 3 else None
    return _frequency_with_gaps(table, ordered, findings, gaps) if freq is None else freq


def _check_order(table: Table, findings: Findings) -> None:
    """An error for timestamps that stand twice."""
    rows = np.flatnonzero(table.timestamps.notna())
    stamps = table.timestamps[rows]
    repeats = stamps.duplicated()
    if not repeats.any():
        return
    row = int(repeats.argmax())
    (first, _), (again, _) = table.records(rows[[int((stamps == stamps[row]).argmax()), row]].tolist()).values()
    message = (
        f"{table.text.path}: line {again}: the timestamp {table.words(stamps[row])} stands already in line {first}"
    )
    some = f"{int(repeats.sum())} of {counted(len(stamps), 'row')}"
    if repeats.mean() > _MANY_REPEATS:
        findings.error(
            f"{message}; {some} repeat one. This looks like several series in one file, "
            f"{int(stamps.value_counts().max())} below each other: choose one, as data.where='{{region: Albany}}', "
            "read all as a panel, as data.id_column=region, or set data.duplicates=mean or sum."
        )
    else:
        findings.error(f"{message}. Set data.duplicates=mean, sum, first or last ({some}).")


def _frequency_with_gaps(table: Table, ordered: pd.DatetimeIndex, findings: Findings, gaps: Gaps) -> str | None:
    """The frequency on whose grid irregular timestamps lie; an error for none, and for any that may not have gaps."""
    path = table.text.path
    if len(ordered) < 3:
        noun = "readable timestamps" if table.timestamps.hasnans else "rows"
        findings.error(
            f"{path}: {len(ordered)} {noun} are too few to infer a frequency. At least 3 are needed to read the file."
        )
        return None
    freq = grid_frequency(ordered)
    if freq is not None and gaps != "refuse":
        return freq
    row, usual, expected = first_deviation(ordered, over_gaps=gaps != "refuse")
    before, after = (int((table.timestamps == stamp).argmax()) for stamp in (ordered[row - 1], ordered[row]))
    records = table.records([before, after])
    expected = expected if table.numbers is None else table.words(pd.Timestamp(expected))
    steps = np.diff(ordered.to_numpy())
    alike = (steps == np.sort(steps)[len(steps) // 2]).mean()
    findings.error(
        f"{path}: line {records[after][0]}: the timestamps are not regular: {table.words(ordered[row])} follows "
        f"{table.words(ordered[row - 1])} (line {records[before][0]}), where the usual step '{usual}' expects "
        f"{expected}; {alike:.0%} of the steps are alike. Fill the gap, or resample the file to one frequency"
        f"{f', or set {GAPS_FIX}' if freq is not None else ''}."
    )
    return freq
