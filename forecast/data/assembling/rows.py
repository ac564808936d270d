"""The rows of several series as files hold them, their ids, and in the order of series and time, each time once."""

import hashlib
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.reading.layout import Aggregate, Duplicates, known_frequency
from forecast.data.sources import CsvSource
from forecast.data.values.cells import Flags, FloatArray, IntArray
from forecast.data.values.findings import counted, quoted
from forecast.data.values.frequency import Moved, on_grid
from forecast.errors import UserError
from forecast.text.terminal import listed

_log = logging.getLogger(__name__)
BLOCK_CELLS = 1 << 22  # looked at at a time
LARGEST = float(np.finfo(np.float32).max)  # a model computes with float32


@dataclass(frozen=True, eq=False, kw_only=True)
class PanelRows:
    """N rows of S series.

    series (N,): the number of the series, by the first appearance of its id. times (N,): nanoseconds since 1970, or
    steps that no calendar counts where `stepped`. values (N, C): NaN where one is missing. where: a row in words, as
    "my.csv: line 7". checksum: of all bytes that were read. time_format: in which the times were read, None for
    ISO 8601 and for columns of parts; time_zone: whose clock they show; typed_times: whether
    they stood there as such, and no text. id_column: None for one series, whose id is
    empty. id_cells: of a panel with facts what each id column says of each series (S,).
    """

    series: IntArray
    times: IntArray
    values: FloatArray
    ids: Sequence[str]
    columns: tuple[str, ...]
    stepped: bool
    where: Callable[[int], str]
    id_column: str | None
    time_column: str
    checksum: str
    time_format: str | None = None
    time_zone: str | None = None
    typed_times: bool = False
    id_cells: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.times)

    def take(self, rows: IntArray) -> "PanelRows":
        """Some rows alone."""
        series, times, values = self.series[rows], self.times[rows], self.values[rows]
        return replace(self, series=series, times=times, values=values, where=lambda row: self.where(int(rows[row])))


def nanoseconds(stamps: pd.DatetimeIndex) -> IntArray:
    """Timestamps (N,) as nanoseconds since 1970."""
    return stamps.to_numpy().astype("datetime64[ns]").astype(np.int64)


def time_words(time: int, *, stepped: bool) -> str:
    """A time in words: a timestamp, or the number of a step."""
    return f"step {time}" if stepped else str(pd.Timestamp(time))


def finite_values(values: npt.NDArray[np.float64], where: Callable[[int], str], columns: Sequence[str]) -> FloatArray:
    """The values (N, C) themselves, NaN where one is missing; UserError for one that is too large or infinite."""
    # false for NaN, which stands for a missing value
    bad = np.abs(values) > LARGEST
    if bad.any():
        row, column = np.argwhere(bad)[0]
        value = float(values[row, column])
        subject = f"{where(int(row))}, column {quoted(columns[column])}: {value!r} is"
        if np.isinf(value):
            raise UserError(f"{subject} not a finite number. Replace it by a finite one.")
        raise UserError(
            f"{subject} larger than {LARGEST:.3g}, the most that a panel holds. Correct it, or write the "
            "column in larger units."
        )
    return values


def joined(parts: Sequence[tuple[str, PanelRows]]) -> PanelRows:
    """The series of several files; UserError for an id in two of them, and for files of different columns.

    parts: the name of each file and what it holds.
    """
    (name, first), *others = parts
    if not others:
        return first
    homes: dict[str, str] = {}
    for path, rows in parts:
        if rows.columns != first.columns:
            raise UserError(
                f"{path} has the columns {listed(rows.columns)}, where {name} has {listed(first.columns)}. Name those "
                "that all files have: data.columns=[NAME]"
            )
        if rows.stepped != first.stepped:
            kinds = ["numbers of steps" if panel.stepped else "dates" for panel in (rows, first)]
            raise UserError(f"{path} has {kinds[0]} for its times, where {name} has {kinds[1]}. Write all alike.")
        for series in rows.ids:
            if homes.setdefault(series, path) != path:
                raise UserError(
                    f"The series {quoted(series)} stands in {homes[series]} and in {path}. Write all its rows into one "
                    "file, or name another column that tells the series apart: data.id_column=NAME"
                )
    rows_before = [0, *accumulate(len(rows) for _, rows in parts)]
    ids_before = [0, *accumulate(len(rows.ids) for _, rows in parts)]

    def where(row: int) -> str:
        part = bisect_right(rows_before, row) - 1
        return parts[part][1].where(row - rows_before[part])

    numbers = [rows.series + before for (_, rows), before in zip(parts, ids_before, strict=False)]
    return replace(
        first,
        series=np.concatenate(numbers),
        times=np.concatenate([rows.times for _, rows in parts]),
        values=np.concatenate([rows.values for _, rows in parts]),
        ids=list(homes),
        id_cells={name: [cell for _, rows in parts for cell in rows.id_cells[name]] for name in first.id_cells},
        where=where,
        checksum=checksum_of([rows.checksum for _, rows in parts]),
    )


def checksum_of(files: Sequence[str]) -> str:
    """One checksum of those of several files; of one file its own."""
    return files[0] if len(files) == 1 else hashlib.md5(" ".join(files).encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, eq=False, kw_only=True)
class SortedRows:
    """The rows of S series one after another, each in the order of time and each time once.

    offsets (S + 1,): series s has the rows offsets[s] to offsets[s + 1], of which there may be none. times (N,),
    values (N, C), where, ids (S,), columns (C,) as in PanelRows. name: of the panel, for messages. moved: what
    `near_grid.on_grid` did.
    """

    offsets: IntArray
    times: IntArray
    values: FloatArray
    where: Callable[[int], str]
    ids: Sequence[str]
    columns: tuple[str, ...]
    name: str
    moved: Moved | None = None

    @property
    def lengths(self) -> IntArray:
        """The rows of each series (S,)."""
        return np.diff(self.offsets)

    def blocks(self) -> Iterator[tuple[int, "SortedRows"]]:
        """The first series and the rows of each of several parts, of `BLOCK_CELLS` at most where no series has more."""
        offsets, first, count = self.offsets, 0, len(self.offsets) - 1
        rows = BLOCK_CELLS // max(1, len(self.columns))
        while first < count:
            stop = max(int(np.searchsorted(offsets, offsets[first] + rows, side="right")) - 1, first + 1)
            begin, end = int(offsets[first]), int(offsets[stop])
            block = replace(
                self,
                offsets=offsets[first : stop + 1] - begin,
                times=np.asarray(self.times[begin:end]),
                values=np.asarray(self.values[begin:end]),
                where=_shifted(self.where, begin),
                ids=self.ids[first:stop],
            )
            yield first, block
            first = stop

    def of_series(self, series: int) -> str:
        """Of the series 'ID', for a message; nothing where the file has no ids."""
        return "" if self.ids[series] == "" else f" of the series {quoted(self.ids[series])}"

    def series_of(self, row: int) -> int:
        """The series of a row."""
        return int(np.searchsorted(self.offsets, row, side="right")) - 1


def prepare_rows(rows: PanelRows, source: CsvSource) -> SortedRows:
    """Rows sorted by series and time, each time once, at the frequency that the source asks for; errors as below."""
    again = source.duplicates == "error" and source.resample is not None  # rows of one time are then of one step
    whole = sort_rows(
        rows, None if again else source.duplicates, str(source.path), any_order=source.sort or rows.typed_times
    )
    if source.resample is None or source.aggregate is None:
        return whole
    return resampled(whole, source.resample, source.aggregate, stepped=rows.stepped)


def sort_rows(rows: PanelRows, how: Duplicates | None, name: str, *, any_order: bool = True) -> SortedRows:
    """Rows sorted by series and time, repeated ones made one by `how`, equal ones however that is; said in a line.

    Times near a grid are moved onto it, as `on_grid` does. name: of the panel. how: None keeps repeated rows. UserError
    for rows of one time and other values where it is error, and, but for any_order, for one series whose times go back
    and forth.
    """
    forward = _is_sorted(rows)
    if not forward:
        given, rows = rows, _taken(rows, _order(rows))
    inside = rows.series[1:] == rows.series[:-1]
    # moved first: two rows near one step of the grid then have one time
    times, moved = (rows.times, None) if rows.stepped else on_grid(rows.times, np.diff(rows.times)[inside])
    rows = rows if moved is None else replace(rows, times=times)
    again = np.concatenate([[False], inside & (rows.times[1:] == rows.times[:-1])])
    if how == "error" and again.any():
        rows, again = _without_equal(rows, again, name)
    if how is not None and again.any():
        if how == "error":
            raise _repeated(rows, int(again.argmax()), int(again.sum()))
        starts = np.flatnonzero(~again)
        made_one = None if how in ("first", "last") else _made_one(rows.values, starts, how)
        rows = _taken(rows, np.append(starts[1:], len(again)) - 1 if how == "last" else starts)
        rows = rows if made_one is None else replace(rows, values=made_one)
        repeats = counted(int(again.sum()), "repeated row")
        _log.info("%s: data.duplicates=%s made %s one with the row before.", name, how, repeats)
    elif not (forward or any_order or again.any()) and len(rows.ids) == 1:
        _check_direction(given, name)
    counts = np.bincount(rows.series, minlength=len(rows.ids))
    return SortedRows(
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        times=rows.times,
        values=rows.values,
        where=rows.where,
        ids=rows.ids,
        columns=rows.columns,
        name=name,
        moved=moved,
    )


def _without_equal(rows: PanelRows, again: Flags, name: str) -> tuple[PanelRows, Flags]:
    """The rows without those that are equal to the row before, said in a line; which of them still repeat a time.

    again (N,): which rows repeat the time of the row before.
    """
    equal = again.copy()
    equal[1:] &= _equal(rows.values[1:], rows.values[:-1])
    if not equal.any():
        return rows, again
    _log.info("%s: %s count once, as an equal one stands before them.", name, counted(int(equal.sum()), "row"))
    return _taken(rows, np.flatnonzero(~equal)), again[~equal]


def _check_direction(rows: PanelRows, name: str) -> None:
    """UserError for one series whose times go back and forth: what was read may not be the time."""
    back = np.diff(rows.times) < 0
    if back.all():
        _log.info("%s: the rows go back in time, and are read the other way round.", name)
        return
    row = int(back.argmax()) + 1
    now, before = (time_words(int(rows.times[place]), stepped=rows.stepped) for place in (row, row - 1))
    raise UserError(
        f"{rows.where(row)}: {now} follows {before}; the times go back in {counted(int(back.sum()), 'step')} of "
        f"{len(back)}. Day and month may be exchanged: set data.time_format, as '%d/%m/%Y'. If several series stand "
        "below one another, name the column that tells them apart: data.id_column=NAME. If the rows are just not in "
        "order, set data.sort=true."
    )


def resampled(rows: SortedRows, freq: str, aggregate: Aggregate, *, stepped: bool) -> SortedRows:
    """The rows of each series brought to a frequency, as `reading.rows.resampled` does for a single series.

    UserError for times that are steps, a frequency that pandas does not know, and one that leaves fewer than 3 steps.
    """
    if stepped:
        raise UserError(f"{rows.name}: data.resample={freq} is for dates, and the rows count steps. Leave it out.")
    times, places = np.unique(rows.times, return_inverse=True)
    stamps = pd.DatetimeIndex(times.view("datetime64[ns]"))
    counts = pd.Series(0, index=stamps).resample(known_frequency(freq, "data.resample")).count()
    if len(counts) < 3:
        raise UserError(
            f"{rows.name}: data.resample={freq} leaves {counted(len(counts), 'row')} of {len(times)}, from {stamps[0]} "
            f"to {stamps[-1]}. Choose a finer frequency, as data.resample=h."
        )
    steps = np.repeat(np.arange(len(counts)), counts.to_numpy())[places]
    series = np.repeat(np.arange(len(rows.ids)), rows.lengths)
    starts = np.flatnonzero((np.diff(steps, prepend=-1) != 0) | (np.diff(series, prepend=-1) != 0))
    note = f"data.resample={freq} made {len(starts)} rows of {len(rows.times)}, by their {aggregate}."
    _log.info("%s: %s", rows.name, note)
    where, lengths = rows.where, np.bincount(series[starts], minlength=len(rows.ids))
    return replace(
        rows,
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        times=nanoseconds(pd.DatetimeIndex(counts.index))[steps[starts]],
        values=_made_one(rows.values, starts, aggregate),
        where=lambda row: where(int(starts[row])),
    )


def _is_sorted(rows: PanelRows) -> bool:
    same = rows.series[1:] == rows.series[:-1]
    return bool(((rows.series[1:] > rows.series[:-1]) | (same & (rows.times[1:] >= rows.times[:-1]))).all())


def _order(rows: PanelRows) -> IntArray:
    """Sorts rows by series and time; those of one time stay in the order of the file."""
    times = rows.times
    unit = max(int(np.gcd.reduce(times - times[0])), 1)
    steps = (times - times.min()) // unit
    span = int(steps.max()) + 1
    # series and time as one number, where int64 holds it
    if span * len(rows.ids) >= np.iinfo(np.int64).max:
        return np.lexsort((times, rows.series))
    return np.argsort(rows.series * span + steps, kind="stable")  # one sort in place of two


def _taken(rows: PanelRows, order: IntArray) -> PanelRows:
    """Some rows, in this order."""
    where = rows.where
    return replace(
        rows,
        series=rows.series[order],
        times=rows.times[order],
        values=rows.values[order],
        where=lambda row: where(int(order[row])),
    )


def _shifted(where: Callable[[int], str], begin: int) -> Callable[[int], str]:
    return lambda row: where(row + begin)


def _made_one(values: FloatArray, starts: IntArray, how: Duplicates | Aggregate) -> FloatArray:
    """The mean, the sum or the last value of the rows from each start to the next; a missing value counts in none."""
    known = ~np.isnan(values)
    if how == "last":
        # numbers of rows, -1 for a missing cell: their maximum is the last known one
        rows = np.maximum.reduceat(np.where(known, np.arange(len(values))[:, None], -1), starts)
        return np.where(rows < starts[:, None], np.nan, np.take_along_axis(values, np.maximum(rows, 0), axis=0))
    # 0 for NaN, which would spread to the whole sum
    sums = np.add.reduceat(np.where(known, values, 0), starts)
    counts = np.add.reduceat(known.astype(np.int64), starts)
    aggregates = sums / np.maximum(counts, 1) if how == "mean" else sums
    return np.where(counts > 0, aggregates, np.nan)


def _equal(values: FloatArray, others: FloatArray) -> Flags:
    """Which rows (N,) of values (N, C) are equal to the others, missing cells too."""
    alike: Flags = ((values == others) | (np.isnan(values) & np.isnan(others))).all(axis=1)
    return alike


def _repeated(rows: PanelRows, row: int, count: int) -> UserError:
    """What to say of a row whose time stands in the row before, as do so many."""
    before, alone = rows.where(row - 1).rpartition(": ")[2], len(rows.ids) == 1
    time = time_words(int(rows.times[row]), stepped=rows.stepped)
    subject = f"the time {time} stands" if alone else f"the series {quoted(rows.ids[rows.series[row]])} has {time}"
    series = (
        "If several series stand below one another, name the column that tells them apart, as data.id_column=NAME, or "
        "choose one, as data.where='{region: Albany}'"
        if alone
        else "Name all columns that tell series apart, as data.id_column=[store,brand]"
    )
    return UserError(
        f"{rows.where(row)}: {subject} already ({before}), with other values; {count} of "
        f"{counted(len(rows), 'row')} repeat a time{'' if alone else ' of their series'}. {series}, or set "
        "data.duplicates=mean, sum, first or last."
    )
