"""The rows of the series in a file, long or a column each, in the order of series and time, each time once."""

import hashlib
import logging
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.reading.content import CsvText
from forecast.data.reading.layout import STEPS, USUAL, Aggregate, Duplicates, Layout, known_frequency
from forecast.data.reading.table import Codebook, TableSpec, counted_stamps, read_columns, table_of
from forecast.data.sources import CsvSource
from forecast.data.values.calendar import commonest_step, on_grid
from forecast.data.values.cells import JOINT, Findings, Flags, FloatArray, IntArray, counted, quoted
from forecast.errors import UserError, closest
from forecast.text.overrides import typed
from forecast.text.terminal import listed

KNOWN_IDS = ("unique_id", "item_id")  # as other libraries call them
KNOWN_TIMES = ("ds", "timestamp", "date")
_log = logging.getLogger(__name__)
_LARGEST = float(np.finfo(np.float32).max)  # a model computes with float32


@dataclass(frozen=True, eq=False, kw_only=True)
class PanelRows:
    """N rows of S series.

    series (N,): the number of the series, by the first appearance of its id. times (N,): nanoseconds since 1970, or
    steps that no calendar counts where `stepped`. values (N, C): NaN where one is missing. where: a row in words, as
    "my.csv: line 7". checksum: of all bytes that were read. time_format: in which the times were read, None for ISO
    8601 and for columns of parts; time_zone, clock: as in PanelFrame. id_column: None for one series, whose id is
    empty. id_cells: what each id column says of each series (S,). name: of the panel, once its rows are sorted by
    series and time, each time once.
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
    clock: str | None = None
    id_cells: Mapping[str, Sequence[str]] = field(default_factory=dict)
    name: str = ""

    def __len__(self) -> int:
        return len(self.times)

    @cached_property
    def lengths(self) -> IntArray:
        """The rows of each series (S,)."""
        return np.bincount(self.series, minlength=len(self.ids))

    @cached_property
    def offsets(self) -> IntArray:
        """(S + 1,): of sorted rows series s has offsets[s] to offsets[s + 1], of which there may be none."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def of_series(self, series: int) -> str:
        """Of the series 'ID', for a message; nothing where the file has no ids."""
        return "" if self.ids[series] == "" else f" of the series {quoted(self.ids[series])}"

    def take(self, rows: IntArray) -> "PanelRows":
        """Some rows alone."""
        series, times, values = self.series[rows], self.times[rows], self.values[rows]
        where = self.where  # by itself: the other rows need not stay in memory
        return replace(self, series=series, times=times, values=values, where=lambda row: where(int(rows[row])))


def nanoseconds(stamps: pd.DatetimeIndex) -> IntArray:
    """Timestamps (N,) as nanoseconds since 1970."""
    return stamps.as_unit("ns").asi8


def time_words(time: int, *, stepped: bool) -> str:
    """A time in words: a timestamp, or the number of a step."""
    return f"step {time}" if stepped else str(pd.Timestamp(time))


def _finite_values(values: npt.NDArray[np.float64], where: Callable[[int], str], columns: Sequence[str]) -> FloatArray:
    """The values (N, C) themselves, NaN where one is missing; UserError for one that is too large or infinite."""
    # false for NaN, which stands for a missing value
    bad = (values > _LARGEST) | (values < -_LARGEST)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise UserError(
            f"{where(int(row))}, column {quoted(columns[column])}: {float(values[row, column])!r} is larger than "
            f"{_LARGEST:.3g}, the most that a model computes with. Correct it, or write the column in larger units."
        )
    return values


def joined(parts: Sequence[tuple[str, PanelRows]]) -> PanelRows:
    """The rows of several files, of which each may hold rows of any series; UserError for files of different columns.

    parts: the name of each file and what it holds.
    """
    (name, first), *others = parts
    if not others:
        return first
    for path, rows in others:
        if (rows.columns, rows.stepped) != (first.columns, first.stepped):
            held = [f"{listed(panel.columns)} by {'steps' if panel.stepped else 'dates'}" for panel in (rows, first)]
            raise UserError(
                f"{path} has the columns {held[0]}, where {name} has {held[1]}. Name those that all files have: "
                "data.columns=[NAME]"
            )
    numbers, ids = pd.factorize(np.array([series for _, rows in parts for series in rows.ids], dtype=object))
    firsts = np.unique(numbers, return_index=True)[1].tolist()
    cells = {name: [cell for _, rows in parts for cell in rows.id_cells[name]] for name in first.id_cells}
    ids_before = accumulate((len(rows.ids) for _, rows in parts), initial=0)
    rows_before = [0, *accumulate(len(rows) for _, rows in parts)]

    def where(row: int) -> str:
        part = bisect_right(rows_before, row) - 1
        return parts[part][1].where(row - rows_before[part])

    return replace(
        first,
        series=numbers[np.concatenate([rows.series + n for (_, rows), n in zip(parts, ids_before, strict=False)])],
        times=np.concatenate([rows.times for _, rows in parts]),
        values=np.concatenate([rows.values for _, rows in parts]),
        ids=ids.tolist(),
        id_cells={name: [cells[name][place] for place in firsts] for name in cells},
        where=where,
        checksum=checksum_of([rows.checksum for _, rows in parts]),
    )


def checksum_of(files: Sequence[str]) -> str:
    """One checksum of those of several files; of one file its own."""
    return files[0] if len(files) == 1 else hashlib.md5(" ".join(files).encode(), usedforsecurity=False).hexdigest()


def prepare_rows(rows: PanelRows, source: CsvSource, findings: Findings | None = None) -> PanelRows:
    """Rows sorted by series and time, each time once, at the frequency that the source asks for; errors as below."""
    steps = None if source.resample is None or source.aggregate is None else (source.resample, source.aggregate)
    return sort_rows(rows, source.duplicates, Findings(str(source.path)) if findings is None else findings, steps=steps)


def sort_rows(
    rows: PanelRows,
    how: Duplicates,
    findings: Findings,
    *,
    steps: tuple[str, Aggregate] | None = None,
) -> PanelRows:
    """Rows sorted by series and time, repeated ones made one by `how`, equal ones however that is; said in a line.

    Times near a grid are moved onto it, as `on_grid` does. findings: in the panel. steps: a frequency, and what becomes
    of the rows in one step of it. UserError for rows of one time and other values where `how` is error.
    """
    if not _are_sorted(rows):
        rows = rows.take(np.lexsort((rows.times, rows.series)))  # stable: rows of one time as in the file
    # moved first: two rows near one step of the grid then have one time
    if not rows.stepped:
        times, note = on_grid(rows.times, np.diff(rows.times)[rows.series[1:] == rows.series[:-1]])
        rows = replace(rows, times=times)
        if note is not None:
            findings.say(note)
    again = _again(rows)
    if again.any() and (steps is None or how != "error"):
        rows = _made_one(rows, again, how, f"{findings.path}: data.duplicates={how}")
    if steps is not None:
        rows = replace(rows, times=_step_times(rows, steps[0], findings.path))
        rows = _made_one(rows, _again(rows), steps[1], f"{findings.path}: data.resample={steps[0]}")
    return replace(rows, name=findings.path)


def _again(rows: PanelRows) -> Flags:
    """Which of sorted rows (N,) have the series and the time of the row before."""
    same = (rows.series[1:] == rows.series[:-1]) & (rows.times[1:] == rows.times[:-1])
    return np.concatenate([[False], same])


def _step_times(rows: PanelRows, freq: str, name: str) -> IntArray:
    """The step of a frequency in which each time (N,) lies. UserError where fewer than 3 steps are left."""
    if rows.stepped:
        raise UserError(f"{name}: data.resample={freq} is for dates, and the rows count steps. Leave it out.")
    different, places = np.unique(rows.times, return_inverse=True)
    stamps = pd.DatetimeIndex(different.view("datetime64[ns]"))
    counts = pd.Series(0, index=stamps).resample(known_frequency(freq, "data.resample")).count()
    if len(counts) < 3:
        raise UserError(
            f"{name}: data.resample={freq} leaves {counted(len(counts), 'row')} of {len(different)}, from {stamps[0]} "
            f"to {stamps[-1]}. Choose a finer frequency, as data.resample=h."
        )
    times: IntArray = np.repeat(nanoseconds(pd.DatetimeIndex(counts.index)), counts.to_numpy())[places]
    return times


def _made_one(rows: PanelRows, again: Flags, how: Duplicates | Aggregate, key: str) -> PanelRows:
    """Sorted rows, each time once; a missing value counts in no mean, sum, first or last.

    again (N,): which rows repeat the time of the row before. key: that asks for it, for a message. UserError for other
    values, where `how` is error.
    """
    once = rows.take(np.flatnonzero(~again))
    if how != "error":
        groups = pd.DataFrame(rows.values).groupby(np.cumsum(~again), sort=False)
        values = groups.sum(min_count=1) if how == "sum" else groups.agg(how)
        _log.info("%s made %d rows of %d, by their %s.", key, len(once), len(rows), how)
        return replace(once, values=values.to_numpy())
    after = np.flatnonzero(again)
    now, before = rows.values[after], rows.values[after - 1]
    other = after[~((now == before) | (np.isnan(now) & np.isnan(before))).all(axis=1)]
    if other.size:
        raise _repeated(rows, int(other[0]), len(other))
    _log.info("%s: equal rows count once; %d rows of %d are left.", key, len(once), len(rows))
    return once


def _are_sorted(rows: PanelRows) -> bool:
    """Whether rows stand in the order of their series and times."""
    same = rows.series[1:] == rows.series[:-1]
    return bool(((rows.series[1:] > rows.series[:-1]) | (same & (rows.times[1:] >= rows.times[:-1]))).all())


def _check_direction(rows: PanelRows, name: str) -> None:
    """UserError for the rows of a file whose times go back and forth within a series: they may be read wrongly."""
    if _are_sorted(rows):
        return
    again = pd.DataFrame(
        {"series": rows.series, "time": rows.times}
    ).duplicated()  # as of two files one below the other
    order = np.argsort(rows.series, kind="stable")
    order = order[~again.to_numpy()[order]]
    same = np.diff(rows.series[order]) == 0
    back = same & (np.diff(rows.times[order]) < 0)
    if back.any() and (back == same).all():
        _log.info("%s: the rows go back in time, and are read the other way round.", name)
    elif back.any():
        place = int(back.argmax())
        before, now = (time_words(int(rows.times[row]), stepped=rows.stepped) for row in order[place : place + 2])
        row, steps = int(order[place + 1]), counted(int(back.sum()), "step")
        stamps = pd.DatetimeIndex(rows.times[order].view("datetime64[ns]"))
        keys = f"data.freq={commonest_step(stamps)} {typed('data.start', str(stamps[0]))}"
        raise UserError(
            f"{rows.where(row)}: {now} follows {before}{rows.of_series(int(rows.series[row]))}; the times go back in "
            f"{steps} of {same.sum()}. Day and month may be exchanged: set data.time_format, as '%d/%m/%Y', or, "
            f"where rows of dates are in order, count them: data.time_column=null {keys}. "
            "If several series stand below one another, name all columns that tell them apart: data.id_column=NAME. If "
            "the rows are just not in order, sort them, or set data.sort=true."
        )


def _repeated(rows: PanelRows, row: int, count: int) -> UserError:
    """What to say of a row whose time stands in the row before, as do so many."""
    time = time_words(int(rows.times[row]), stepped=rows.stepped)
    return UserError(
        f"{rows.where(row)}: {time}{rows.of_series(int(rows.series[row]))} stands already "
        f"({rows.where(row - 1).rpartition(': ')[2]}), with other values; so do {count} of "
        f"{counted(len(rows), 'row')}. If several series stand below one another, name all "
        "columns that tell them apart, as data.id_column=NAME or data.id_column=[NAME, NAME], or choose one, as "
        "data.where='{region: Albany}'; else set data.duplicates=mean, sum, first or last."
    )


def layout_of(source: CsvSource, header: Sequence[str]) -> Layout:
    """How the files of a source are written; where none was named, the time column is one of a usual name."""
    layout = USUAL.changed({field.name: getattr(source, field.name) for field in fields(Layout)})
    usual = [name for name in (USUAL.time_column, *KNOWN_TIMES) if name in header]
    return replace(layout, time_column=usual[0]) if usual and layout.time_column == USUAL.time_column else layout


def id_columns(source: CsvSource, header: Sequence[str], path: str) -> tuple[str, ...]:
    """The columns that tell the series apart; UserError where the header lacks one."""
    names = source.id_column or next((name for name in KNOWN_IDS if name in header), KNOWN_IDS[0])
    names = (names,) if isinstance(names, str) else tuple(names)
    absent = next((name for name in names if name not in header), None)
    if absent is not None:
        raise UserError(
            f"{path}: there is no column '{absent}' (data.id_column) among {listed(header)}.{closest(absent, header)} "
            "Name those that tell the series apart: data.id_column=NAME, or several: data.id_column=[NAME, NAME]"
        )
    return names


def _joint_ids(
    parts: Sequence[tuple[npt.NDArray[np.int32], Sequence[str]]], where: Callable[[int], str]
) -> tuple[IntArray, list[list[str]]]:
    """(series (N,), of each id column the cells (S,)) of rows, numbered by their first appearance.

    parts: for each id column the code of each row (N,) and the cells that the codes stand for. UserError for an empty
    one; where: a row in words.
    """
    changes = np.any([codes[1:] != codes[:-1] for codes, _ in parts], axis=0)
    first = np.flatnonzero(np.concatenate([[True], changes]))  # the rows of a series mostly stand together
    numbers = np.zeros(len(first), dtype=np.int64)
    for codes, words in parts:
        if "" in words and (codes == words.index("")).any():
            row = int((codes == words.index("")).argmax())
            raise UserError(f"{where(row)}: the id (data.id_column) is missing. Fill it in, or drop the line.")
        numbers, _ = pd.factorize(numbers * len(words) + codes[first])
    firsts = first[np.diff(np.maximum.accumulate(numbers), prepend=-1) > 0]
    series = np.repeat(numbers, np.diff(first, append=len(codes)))
    return series, [[words[code] for code in codes[firsts].tolist()] for codes, words in parts]


def _counted_times(layout: Layout, series: IntArray) -> IntArray:
    """The times (N,) of rows without a time column: of each series its first, second, third row."""
    numbers: IntArray = pd.Series(series).groupby(series).cumcount().to_numpy()
    if layout.freq == STEPS:
        return numbers
    return nanoseconds(counted_stamps(layout, int(numbers.max()) + 1))[numbers]


# Of a file


VALUE = "value"  # what the column is called of a panel whose columns are series


def file_rows(path: Path, source: CsvSource, book: Codebook) -> PanelRows:
    """The rows of one file, in whatever form; UserError for what is wrong in it."""
    findings = Findings(str(path))
    text = CsvText(path, source.separator).verified(findings, source.sheet)
    names = next((cells for _, cells in text.records()), [])
    rows = rows_of(text, names, source, book, findings)
    return _melted(rows) if source.panel_form == "columns" else rows


def rows_of(
    text: CsvText,
    names: Sequence[str],
    source: CsvSource,
    book: Codebook,
    findings: Findings,
) -> PanelRows:
    """The rows of one series, or of a long panel, in a verified text.

    names: in its header, as they stand there.
    """
    path = str(text.path)
    ids = id_columns(source, names, path) if names and source.panel_form == "long" else ()
    layout = layout_of(source, names)
    layout.check()
    header = text.header(layout.time_columns, findings)
    layout = replace(layout, drop=[*layout.drop, *(name for name in ids if name not in layout.drop)])
    spec = TableSpec.of(header, layout, path, codebook=book)
    places = [header.index(name) for name in ids]
    cells = read_columns(text, spec, words=places)
    table = table_of(text, cells, spec, findings)
    rows = slice(None) if table.origin is None else table.origin

    def where(row: int) -> str:
        return f"{path}: line {table.records([row])[row][0]}"

    series, id_cells = np.zeros(len(table.values), dtype=np.int64), [[""]]
    if ids:
        series, id_cells = _joint_ids([(cells[p].codes[rows] - 1, cells[p].words) for p in places], where)
    times = table.steps
    if times is None:
        times = nanoseconds(table.timestamps) if layout.time_columns else _counted_times(layout, series)
    is_counted = layout.freq == STEPS
    usual = "step" if is_counted else "date"
    held = PanelRows(
        series=series,
        times=times,
        values=_finite_values(table.values, where, table.columns),
        ids=[JOINT.join(parts) for parts in zip(*id_cells, strict=True)],
        columns=table.columns,
        stepped=table.steps is not None or is_counted,
        where=where,
        id_column=JOINT.join(ids) if ids else None,
        time_column=layout.time_column if isinstance(layout.time_column, str) else usual,
        checksum=text.checksum,
        time_format=table.read.settings.get("data.time_format"),
        time_zone=table.read.settings.get("data.time_zone"),
        clock=table.read.clock,
        id_cells=dict(zip(ids, id_cells, strict=False)),
    )
    if not source.sort:
        _check_direction(held, path)
    return held


def _melted(rows: PanelRows) -> PanelRows:
    """The rows of a file of a column a series, one column below the other."""
    series, places = np.nonzero(~np.isnan(rows.values.T))
    return replace(
        rows,
        series=series,
        times=rows.times[places],
        values=rows.values[places, series][:, None],
        ids=list(rows.columns),
        columns=(VALUE,),
        where=lambda row: rows.where(int(places[row])),
        id_column=KNOWN_IDS[0],
    )
