"""The steps of time of all series: inferred, checked on every row; and their gaps on it, refused or filled."""

import logging
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import Day, Tick

from forecast.data.panel import STEP_FREQ, PanelFrame, Repair
from forecast.data.rows import PanelRows, time_words
from forecast.data.values.calendar import first_deviation, grid_frequency, infer_frequency
from forecast.data.values.cells import Flags, FloatArray, Gaps, IntArray, counted, quoted
from forecast.errors import UserError
from forecast.text.overrides import typed
from forecast.text.terminal import listed

_VOTERS = 32  # series that a frequency is inferred from
_FEWEST = 3  # rows that tell one
_FEW = 5  # rows: fewer may lie at a coarser step than others' by chance


@dataclass(frozen=True, eq=False)
class Grid:
    """The times that rows may have: `first`, and each step of `freq` from it.

    first, unit: in nanoseconds, or in steps of the file where `stepped`; unit: of a step, None where they differ.
    stamps: all times, then.
    """

    freq: str
    first: int
    unit: int | None
    stamps: IntArray | None = None
    stepped: bool = False

    def positions(self, times: IntArray) -> IntArray:
        """How many steps after `first` each time lies; -1 for one between steps."""
        if self.unit is not None:
            since = times - self.first
            # whole numbers one apart: none lies between
            if self.unit == 1:
                return since
            steps = since // self.unit
            steps[since != steps * self.unit] = -1
            return steps
        assert self.stamps is not None
        steps = np.searchsorted(self.stamps, times)
        # searchsorted puts a time after the last stamp beyond the array
        steps[self.stamps[np.minimum(steps, len(self.stamps) - 1)] != times] = -1
        return steps

    def times(self, positions: IntArray) -> IntArray:
        """The time of each step."""
        return self.first + positions * self.unit if self.unit is not None else self.stamps[positions]  # type: ignore[index]

    def words(self, time: int) -> str:
        """A time in words."""
        return time_words(time, stepped=self.stepped)


def panel_grid(rows: PanelRows, *, trained_on: str | None) -> tuple[Grid, IntArray]:
    """The grid on which all rows lie, and their positions (N,) on it.

    trained_on: the frequency of a training, which the rows must have; None infers one. UserError, naming a series, for
    rows off the grid, series of different frequencies, and rows of which too few are inside one series.
    """
    counts_steps = trained_on == STEP_FREQ and (rows.stepped or rows.ids[0] != "")  # one series may be of milliseconds
    if trained_on is not None and rows.stepped != counts_steps:
        raise _different(rows, 0, "steps without a calendar" if rows.stepped else "dates", trained_on, trained_on)
    longest = int(rows.lengths.max())
    if trained_on is None and longest < (2 if rows.stepped else _FEWEST):
        raise UserError(
            f"{rows.name}: {len(rows.ids)} series of at most {counted(longest, 'row')} are too short to infer a "
            f"frequency. At least {_FEWEST} rows of one are needed. Is data.id_column the same in all rows of a series?"
        )
    if rows.stepped:
        first = int(rows.times.min())
        grid = Grid(STEP_FREQ, first, int(np.gcd.reduce(rows.times - first)) or 1, stepped=True)
    else:
        grid = _grid_of(trained_on or _frequency(rows), rows.times)
    positions = grid.positions(rows.times)
    for series in [] if rows.stepped else _voters(rows):
        _check_own(rows, series, positions[slice(*rows.offsets[series : series + 2])], grid.freq, trained_on)
    if (positions < 0).any():
        row = int((positions < 0).argmax())
        series = int(np.searchsorted(rows.offsets, row, side="right")) - 1
        raise UserError(
            f"{rows.where(row)}: {grid.words(int(rows.times[row]))}{rows.of_series(series)} is between the steps of "
            f"'{grid.freq}' that the other rows have, counted from {grid.words(grid.first)}. Round the times, or "
            "resample the file to one frequency."
        )
    return grid, positions


def _check_own(rows: PanelRows, series: int, positions: IntArray, freq: str, trained_on: str | None) -> None:
    """UserError for a series that is regular at another frequency than the grid's. positions (n,): of its rows.

    One that has some steps of the grid alone, and two that follow one another, has gaps, as a shop without weekends; a
    training knows better.
    """
    stamps = _stamps(rows, series)
    own = None if (np.diff(positions) == 1).all() else infer_frequency(stamps)
    is_coarser = len(stamps) >= _FEW and np.diff(positions).min() > 1
    if own not in (None, freq) and (trained_on is not None or is_coarser or positions.min() < 0):
        raise _different(rows, series, f"the frequency '{own}'", freq, trained_on)


def _frequency(rows: PanelRows) -> str:
    """That of most rows of some series, the longest among them."""
    voters = _voters(rows)
    votes: Counter[str] = Counter()
    for stamps in (_stamps(rows, series) for series in voters):
        if freq := infer_frequency(stamps) or grid_frequency(stamps):
            votes[freq] += len(stamps)
    if votes:
        return votes.most_common(1)[0][0]
    stamps = _stamps(rows, voters[0])
    row, usual, expected = first_deviation(stamps)
    raise UserError(
        f"{rows.where(int(rows.offsets[voters[0]]) + row)}: the times{rows.of_series(voters[0])} are not regular: "
        f"{stamps[row]} follows {stamps[row - 1]}, where the usual step '{usual}' expects {expected}. Resample "
        f"the file to one frequency: data.resample={usual} data.aggregate=mean"
    )


def _voters(rows: PanelRows) -> list[int]:
    """Series with rows that tell a frequency: the longest, and some evenly spread."""
    order = np.argsort(-rows.lengths, kind="stable")  # of equally long ones the first
    order = order[rows.lengths[order] >= _FEWEST]
    voters: list[int] = order[:: len(order) // _VOTERS + 1].tolist()
    return voters


def _stamps(rows: PanelRows, series: int) -> pd.DatetimeIndex:
    """The times of a series."""
    of_series = slice(*rows.offsets[series : series + 2])
    stamps: pd.DatetimeIndex = pd.DatetimeIndex(rows.times[of_series].astype("datetime64[ns]"))
    return stamps


def _grid_of(freq: str, times: IntArray) -> Grid:
    """The grid of a frequency from the first of the times (N,) to the last."""
    first, last, offset = int(times.min()), int(times.max()), to_offset(freq)
    # in pandas 3 a Day is no Tick and has no nanos
    if isinstance(offset, (Tick, Day)):
        return Grid(freq, first, int((pd.Timestamp(0) + offset).value))
    start = offset.rollforward(pd.Timestamp(first))  # perhaps beyond the last, where none lies on the grid
    stamps = pd.date_range(start, max(start, pd.Timestamp(last)), freq=freq)
    every = stamps.to_numpy().astype("datetime64[ns]").astype(np.int64)
    return Grid(freq, int(every[0]), None, every)


def _different(rows: PanelRows, series: int, own: str, usual: str, trained_on: str | None) -> UserError:
    """What to say of a series of another frequency than that of the others, or of a training."""
    others = "other series have" if trained_on is None else "the model was trained on"
    return UserError(
        f"{rows.name}{rows.of_series(series)} has {own}; {others} '{usual}'. Resample the file to one frequency, as by "
        "data.resample=D data.aggregate=mean, or write series of each frequency into a file of their own."
    )


MOST_MISSING = 0.5  # of the cells: beyond it most of what a model would learn is made up
_log = logging.getLogger(__name__)
_NAMED = 8  # series named in a line
_LARGE, _WORTH = 0.1, 0.25  # shares: of all steps, a hole that parts a file; of its rows, a part worth reading
_FIX = "data.gaps=interpolate, data.gaps=forward_fill, data.gaps=mask or data.gaps=zero"


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


def regular(
    rows: PanelRows,
    grid: Grid,
    positions: IntArray,
    policy: Gaps,
    *,
    known: Collection[str] = (),
    leave_out: bool = False,
) -> Regular:
    """Every series from its first to its last whole row, without gaps. positions (N,): of the rows on the grid.

    mask and forward_fill fill with the value before, interpolate on the line in time between neighbours; with zero a
    row or a cell that is not there is a 0 that was measured, and the first and the last row need not be whole; the
    last one holds more than what is `known` in advance. UserError, naming the first gap, where `policy` is refuse;
    leave_out: such series are left out in place of that.
    """
    missing: Flags = np.isnan(rows.values)
    there = np.arange(len(missing))
    if policy != "zero" and missing.any():
        there = np.flatnonzero(~np.logical_or.reduce(missing, axis=1))
    elif known:
        there = np.flatnonzero(~missing[:, [name not in known for name in rows.columns]].all(axis=1))
    begin, end = np.searchsorted(there, rows.offsets[:-1]), np.searchsorted(there, rows.offsets[1:])
    held = np.flatnonzero(begin < end)
    first, last = rows.offsets[held] if policy == "zero" else there[begin[held]], there[end[held] - 1]
    lengths, counts = positions[last] - positions[first] + 1, last - first + 1
    empty = np.zeros_like(counts)
    if missing.any():
        empty_before = np.concatenate([[0], np.cumsum(missing.sum(axis=1))])
        empty = empty_before[last + 1] - empty_before[first]
    gaps = (lengths - counts) * len(rows.columns) + empty
    sparse = (gaps > MOST_MISSING * lengths * len(rows.columns)) & (policy != "zero")
    holed = (gaps > 0) & (policy == "refuse")
    if rows.ids[0] == "" and held.size and policy != "zero":
        _check_sparse(rows, grid, there, positions[there])
    if holed.any() and not (leave_out and len(rows.ids) > 1):
        series = int(held[holed][0])
        there = there[begin[series] : end[series]]
        raise _gap(rows, grid, there, positions[there], series=series, count=int(holed.sum()))
    reasons = {
        "no row with a value in each column": np.flatnonzero(begin == end),
        "most of its rows missing": held[sparse & ~holed],
        f"a hole, and data.gaps=refuse. Fill it, or set {_FIX}": held[holed],
    }
    if cut := int(rows.lengths[held].sum() - counts.sum()):
        _log.info("%s: %s left out at an end, for want of a value in a column.", rows.name, counted(cut, "row"))
    kept = ~(sparse | holed)
    first, counts, lengths = first[kept], counts[kept], lengths[kept]
    values = _placed(rows, positions, first, counts, lengths)
    steps, repair, measured = positions[first], Repair(policy), None
    if gaps[kept].any():
        unknown = np.isnan(values)
        run = longest_run(np.logical_or.reduce(unknown, axis=1))
        repair = Repair(policy, int((lengths - counts).sum()), int(empty[kept].sum()), run)
        if policy == "zero":
            values = np.nan_to_num(values)
        else:
            starts = np.cumsum(lengths) - lengths
            fill_cells(values, grid.times(np.repeat(steps - starts, lengths) + np.arange(len(values))), policy)
            measured = ~unknown
    return Regular(
        values=values,
        measured=measured,
        kept=held[kept],
        lengths=lengths,
        steps=steps,
        repair=repair,
        left_out={reason: series for reason, series in reasons.items() if series.size},
    )


def _placed(rows: PanelRows, positions: IntArray, first: IntArray, counts: IntArray, lengths: IntArray) -> FloatArray:
    """The values of the rows of each series, NaN in the rows that it lacks."""
    if lengths.sum() == counts.sum() == len(rows.values):  # nothing cut off, nothing lacking
        return rows.values
    taken = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    values = np.full((lengths.sum(), rows.values.shape[1]), np.nan)
    begin = np.cumsum(lengths) - lengths - positions[first]
    values[np.repeat(begin, counts) + positions[taken]] = rows.values[taken]
    return values


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


def longest_run(flags: Flags) -> int:
    """The most flags (N,) that are set in succession."""
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
    # edges come in pairs, a begin and an end: False stands at both sides
    return int((edges[1::2] - edges[::2]).max(initial=0))


class MissingRows(UserError):
    """Rows, or cells of them, are missing, and data.gaps=refuse."""


def _gap(rows: PanelRows, grid: Grid, there: IntArray, positions: IntArray, *, series: int, count: int) -> MissingRows:
    """What to say of the first gap of a series. there, positions: its whole rows. count: of series with gaps."""
    place = int((np.diff(positions) > 1).argmax())
    lacking = int(positions[place + 1] - positions[place]) - 1
    since = grid.words(int(grid.times(positions[place : place + 1] + 1)[0]))
    empty = np.flatnonzero(np.isnan(rows.values[there[place] + 1 : there[place + 1]]).any(axis=0))
    cells = f" (no value of {listed([rows.columns[column] for column in empty.tolist()])})" if empty.size else ""
    freq = "" if grid.stepped else f" of '{grid.freq}'"
    others = f"; {count} of {len(rows.ids)} series have gaps" if len(rows.ids) > 1 else ""
    return MissingRows(
        f"{rows.where(int(there[place + 1]))}: before it {counted(lacking, 'row')}{freq}{rows.of_series(series)} "
        f"{'is' if lacking == 1 else 'are'} missing{cells}, from {since} on{others}. Set {_FIX}."
    )


def _check_sparse(rows: PanelRows, grid: Grid, there: IntArray, positions: IntArray) -> None:
    """UserError for one series of which most is missing. there, positions: its whole rows."""
    length = int(positions[-1] - positions[0]) + 1
    gone = length - np.count_nonzero(~np.isnan(rows.values[there[0] : there[-1] + 1]), axis=0)
    if gone.max() <= MOST_MISSING * length:
        return
    ends = np.concatenate([[0], np.flatnonzero(np.diff(positions) > _LARGE * length) + 1, [len(positions)]])
    sizes = np.diff(ends)
    longest, part = int(sizes.argmax()), ""
    if len(sizes) > 1 and sizes[longest] > max(_WORTH * len(positions), 2) and not grid.stepped:
        since, until = (grid.words(int(rows.times[there[place]])) for place in (ends[longest], ends[longest + 1] - 1))
        part = (
            "read the longest part without a large hole with "
            f"{typed('data.since', since)} {typed('data.until', until)}, "
        )
    raise UserError(
        f"{rows.name}: column {quoted(rows.columns[int(gone.argmax())])} has no value in {gone.max()} of {length} rows "
        f"at the frequency '{grid.freq}'. That is no gap to fill: {part}drop the column, resample the file to a "
        "coarser frequency, count its rows, as hours of business, with data.time_column=null data.freq=steps "
        "data.drop=[TIME], or, if a row that is not there means 0, as of a day without a sale, set data.gaps=zero."
    )


def frame_of(series: Regular, rows: PanelRows, grid: Grid, *, counted: bool) -> PanelFrame:
    """The frame of all series that were kept; what was left out and filled is said. UserError where none was kept.

    rows: of which these are, for their names. counted: whether the first row of a series is its first step.
    """
    ids, name = rows.ids, rows.name
    left_out = {reason: [ids[number] for number in numbers.tolist()] for reason, numbers in series.left_out.items()}
    if not series.kept.size:
        reasons = ", ".join(f"{len(names)} with {reason}" for reason, names in left_out.items())
        raise UserError(
            f"{name}: none of {len(ids)} series can be used: {reasons}, of the columns {listed(rows.columns)}. Name "
            "columns that have some rows in common: data.columns=[NAME]"
        )
    for reason, names in left_out.items():
        some = listed(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        _log.warning("%s: %d series left out, %s: %s", name, len(names), reason, some)
    if (repair := series.repair).longest_run:
        does = f"added {repair.rows_added} missing rows and filled {repair.cells_filled} empty cells"
        _log.info("%s: data.gaps=%s %s; longest gap in rows: %d", name, repair.policy, does, repair.longest_run)
    begin = int(series.steps.min())
    offsets = np.concatenate([[0], np.cumsum(series.lengths)]).astype(np.int64)
    return PanelFrame(
        values=np.ascontiguousarray(series.values),  # columns are read one by one, and windows are views of rows
        offsets=offsets,
        steps=series.steps - begin,
        ids=np.array([ids[number] for number in series.kept.tolist()], dtype=np.str_),
        first=pd.Timestamp(0 if grid.stepped else int(grid.times(series.steps.min(keepdims=True))[0])),
        freq=grid.freq,
        columns=rows.columns,
        name=name,
        measured=series.measured,
        id_column=rows.id_column,
        time_column=rows.time_column,
        numbers=(begin + 1, 1) if counted or grid.unit is None else (grid.first + begin * grid.unit, grid.unit),
        repair=repair,
        left_out=left_out,
        checksum=rows.checksum,
        time_format=rows.time_format,
        time_zone=rows.time_zone,
        clock=rows.clock,
        stepped=grid.stepped,
    )
