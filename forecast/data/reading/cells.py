"""A file read cell by cell: all that pandas would read otherwise, or cannot read and give no reason for."""

import contextlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from csv import QUOTE_NONE
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.reading.column_guess import CellFaults, Kind, column_kind
from forecast.data.reading.columnar import TimeColumn
from forecast.data.reading.csv_text import CsvText
from forecast.data.reading.layout import STEPS, Layout
from forecast.data.reading.numbers import MISSING_SPELLINGS, NumberStyle, number_in, read_numbers
from forecast.data.reading.raw_columns import BLANKS, RawColumn, RawColumns, TypedTable
from forecast.data.reading.rows import between_whole, known_frequency
from forecast.data.reading.table import Table, TableSpec, check_signs, plain_table
from forecast.data.reading.time_formats import YEARS
from forecast.data.reading.timestamps import AmbiguousTime, read_timestamps, whole_numbers
from forecast.data.values.cells import FloatArray, IntArray
from forecast.data.values.findings import Findings, quoted
from forecast.errors import UserError, closest
from forecast.text.terminal import label

Rows = npt.NDArray[np.intp]
_MOST_STEPS = 1 << 40  # milliseconds that lie in a calendar's years
_ROWS = 2_000  # read at a time
LEFT_OUT: dict[Kind, str] = {"text": "text", "empty": "empty", "index": "row numbers"}


class Read(TypedDict, total=False):
    """How timestamps were read, as a `Table` has it."""

    time_format: str | None
    time_zone: str | None
    numbers: tuple[int, int] | None


_Records = list[tuple[int, list[str]]]  # (line, cells) of each


@dataclass(frozen=True, eq=False)
class RawFile:
    """The N rows of a file as cells, before anyone decides what they mean.

    text: as it could be read. columns: all of the header's; lines: of each row in the file; surplus: (line, cells) of
    rows with more cells than the header names.
    """

    text: CsvText
    header: Sequence[str]
    columns: list[RawColumn]
    lines: Sequence[int]
    surplus: Sequence[tuple[int, int]]


def read_table(text: CsvText, spec: TableSpec, findings: Findings) -> Table:
    """The chosen columns of a file, less those that hold no numbers where none are named.

    A finding for each fault; AmbiguousTime as `read_timestamps`, and other UserError, where no table can be made.
    """
    check_signs(text, spec, findings)
    words = [*spec.times, *map(spec.header.index, spec.layout.where or ())]
    return table_of(read_raw(text, spec, findings, words=words), spec, findings)


def read_raw(text: CsvText, spec: TableSpec, findings: Findings, *, words: Collection[int]) -> RawFile:
    """All cells of a file; words: the places of columns whose cells are kept as they are written."""
    words = {*words, *spec.named()}
    table = plain_table(text, spec, words) if text.table is None else None
    return raw_cells(text, spec, findings, words=words) if table is None else plain_file(text, table)


def plain_file(text: CsvText, table: TypedTable) -> RawFile:
    """The cells of a file that pandas has read."""
    return RawFile(text, table.names, [*table.columns], table.lines, table.surplus)


def raw_cells(text: CsvText, spec: TableSpec, findings: Findings, *, words: Collection[int]) -> RawFile:
    """The same, of a CSV cell by cell: it knows how each number is written."""
    if text.table is not None:
        columns = [
            column.as_words() if place in words else column.with_numbers()
            for place, column in enumerate(text.table.columns)
        ]
        return RawFile(text, spec.header, columns, text.table.lines, text.table.surplus)
    read = RawColumns(spec.header, text=words)
    lines: list[int] = []
    surplus, width = [], len(spec.header)
    for read_on, records in _records(text, spec, findings):
        text = read_on
        read.add([cells for _, cells in records])
        lines += [line for line, _ in records]
        surplus += [(line, len(cells)) for line, cells in records if len(cells) > width]
    return RawFile(text, spec.header, read.columns(), lines, surplus)


def table_of(raw: RawFile, spec: TableSpec, findings: Findings) -> Table:
    """What a layout reads of the cells of a file; findings and errors as `read_cells`."""
    faults = CellFaults(str(raw.text.path), spec.header, spec.times, spec.style)
    for line, cells in raw.surplus:
        faults.add("surplus", -1, line, str(cells))
    columns, lines = raw.columns, raw.lines
    origin = _chosen_rows(columns, spec, raw.text)
    if origin is not None:
        columns = [column.take(origin) for column in columns]
        lines = [lines[row] for row in origin]
    coded = coded_places(columns, spec)
    index = () if raw.text.table is None else raw.text.table.index
    places = spec.candidates if spec.numbers is not None else _numeric(columns, spec, findings, coded, index)
    values = np.empty((len(lines), len(places)), order="F")
    for number, place in enumerate(places):
        if place in coded:
            values[:, number] = _codes(columns[place], spec)
        else:
            values[:, number] = _values(columns[place], place, lines, spec, faults)
    stamps, written = _timestamps(columns, lines, spec, faults, findings)
    if spec.gaps == "refuse" and (gone := np.isnan(values)).any():
        order = np.argsort(stamps.to_numpy(), kind="stable")
        if spec.cut:
            gone[order] &= between_whole(values[order])[:, None]
        for number, place in enumerate(places):
            for row in np.flatnonzero(gone[:, number]).tolist():
                faults.add("missing", place, lines[row], columns[place].cells([row])[0])
    faults.report(len(lines), findings)
    names = tuple(spec.header[place] for place in places)
    return Table(raw.text, names, places, stamps, values, origin, **written)


def _records(text: CsvText, spec: TableSpec, findings: Findings) -> Iterator[tuple[CsvText, _Records]]:
    """The rows, some at a time; from a quote on that goes over its line, quotes are letters."""
    start, last, rows = 0, 0, text.rows()
    while True:
        problem = None
        try:
            records = list(islice(rows, _ROWS))
            if text.quoting != QUOTE_NONE:
                problem = _quote_problem(text, records, spec, last)
        except UserError as error:  # a cell too long for csv
            if text.quoting == QUOTE_NONE:
                raise
            problem = str(error)
        if problem is not None:
            findings.error(problem)
            text = replace(text, quoting=QUOTE_NONE)
            rows = text.rows(start)
        elif records:
            yield text, records
            start, last = start + len(records), records[-1][0]
        else:
            return


def _quote_problem(text: CsvText, records: _Records, spec: TableSpec, last: int) -> str | None:
    """What is wrong with a quote. last: the line of the row before the records, of which the end of a file has none."""
    places = (*spec.times, *spec.candidates)
    one_line_each = bool(records) and records[-1][0] - records[0][0] == len(records) - 1  # all but the last, maybe
    long = records[-1:] if one_line_each else records
    over = (n for n, cells in long if any("\n" in cells[i].strip(BLANKS) for i in places if i < len(cells)))
    line = next(over, None if records else last)
    if not line:
        return None
    if text.is_closed(line):
        if not records:
            return None
        how = "goes over the end of its line"
    else:
        how = "is never closed"
    return f"{text.path}: line {line}: a quotation mark opens a cell that {how}. Close or remove it."


def _chosen_rows(columns: list[RawColumn], spec: TableSpec, text: CsvText) -> Rows | None:
    """The rows whose cells are what `data.where` asks for; None for all. UserError when there are none."""
    chosen: npt.NDArray[np.bool_] | None = None
    style = spec.style if text.table is None else NumberStyle()
    for name, value in (spec.layout.where or {}).items():
        column = columns[spec.header.index(name)]
        codes = [code for code, word in enumerate(column.words, start=1) if _is(word, value, style)]
        same = np.isin(column.codes, codes)
        if not isinstance(value, str):
            same |= (column.codes == 0) & (column.numbers == value)
        if not same.any():
            near = closest(str(value), column.words)
            some = ", ".join(quoted(word) for word in column.words[:8])
            raise UserError(
                f"{text.path}: data.where: no row has {quoted(str(value))} in the column '{name}', which holds {some}"
                f"{', ...' if len(column.words) > 8 else ''}.{near} Choose one of them."
            )
        chosen = same if chosen is None else chosen & same
    if chosen is None:
        return None
    if not chosen.any():
        conditions = ", ".join(f"{name}: {value}" for name, value in (spec.layout.where or {}).items())
        raise UserError(f"{text.path}: data.where: no row has all of {conditions}. Choose cells that stand in one row.")
    return np.flatnonzero(chosen)


def _is(word: str, value: str | float, style: NumberStyle) -> bool:
    """Whether a cell is what is asked for: a number by its value, text letter by letter."""
    if isinstance(value, str):
        return word == value
    return number_in(word, style.decimal, style.thousands) == value


def _numeric(
    columns: list[RawColumn], spec: TableSpec, findings: Findings, coded: Collection[int], index: Collection[str]
) -> list[int]:
    """The columns that hold numbers, or categories (coded); the others are named in one sentence.

    index: those that number the rows.

    UserError when there are none.
    """
    kinds: dict[int, Kind] = {
        place: "numbers" if place in coded else column_kind(columns[place], spec.style, first=place == 0)
        for place in spec.candidates
    }
    kinds |= {place: "index" for place in kinds if spec.header[place] in index and place not in coded}
    out = say_left_out([(spec.header[place], kind) for place, kind in kinds.items()], findings)
    places = [place for place, kind in kinds.items() if kind not in LEFT_OUT]
    if not places:
        raise UserError(
            f"{findings.path}: there is no column of numbers beside the time: {out or 'no other column'}. "
            "Name the columns to read all the same: data.columns=[NAME]"
        )
    return places


def coded_places(columns: list[RawColumn], spec: TableSpec) -> set[int]:
    """The columns that hold categories."""
    words = [place for place in spec.perhaps() if column_kind(columns[place], spec.style) == "text"]
    return {*spec.named(), *words}


def _codes(column: RawColumn, spec: TableSpec) -> FloatArray:
    """The numbers (N,) of categories, NaN for a missing cell."""
    values = np.full(len(column), np.nan)
    is_word = column.codes > 0
    values[is_word] = spec.codebook.codes(column.name, column.words)[column.codes[is_word] - 1]
    numbers = np.flatnonzero(~is_word)
    values[numbers] = spec.codebook.codes(column.name, column.cells(numbers.tolist()))
    return values


def say_left_out(kinds: Sequence[tuple[str, Kind]], findings: Findings) -> str:
    """Says which of the columns, by name, hold no numbers of the series; returns their list, "" without one."""
    out = ", ".join(f"{label(name)} ({LEFT_OUT[kind]})" for name, kind in kinds if kind in LEFT_OUT)
    if out:
        findings.say(f"Left out, as they hold no numbers of the series: {out}.")
    return out


def _values(column: RawColumn, place: int, lines: Sequence[int], spec: TableSpec, faults: CellFaults) -> FloatArray:
    """(N,): NaN for a missing cell, inf for a faulty one."""
    read = read_numbers(column, spec.style)
    for kind, rows in read.faults.items():
        for row, cell in zip(rows.tolist(), column.cells(rows), strict=True):
            faults.add(kind, place, lines[row], cell)
    return read.values


def _timestamps(
    columns: list[RawColumn], lines: Sequence[int], spec: TableSpec, faults: CellFaults, findings: Findings
) -> tuple[pd.DatetimeIndex, Read]:
    """(N,), NaT for an unreadable one; how they were read, as a `Table` has it."""
    layout = spec.layout
    if not spec.times:
        return counted_stamps(layout, len(lines)), {"numbers": (1, 1)} if layout.freq == STEPS else {}
    path, column = findings.path, columns[spec.times[0]]
    steps = steps_in(columns, spec, path)
    if steps is not None:
        unit = int(np.gcd.reduce(np.diff(np.unique(steps)), initial=0)) or 1
        first = int(steps[0]) % unit if np.abs(steps).max() < _MOST_STEPS else int(steps.min())
        return pd.DatetimeIndex(((steps - first) // unit).astype("datetime64[ms]")), {"numbers": (first, unit)}
    with _named(path):
        if isinstance(column, TimeColumn) and len(spec.times) == 1 and layout.time_format is None:
            read = column.reading(layout.time_zone)
        else:
            every, missing = range(len(lines)), MISSING_SPELLINGS | {str(word) for word in layout.missing}
            parts = {
                name: columns[place].cells(every) for name, place in zip(layout.time_columns, spec.times, strict=True)
            }
            read = read_timestamps(parts, missing=missing, time_format=layout.time_format, time_zone=layout.time_zone)
    for row, kind in read.faults.items():
        cell = " ".join(columns[place].cells([row])[0] for place in spec.times)
        faults.add(kind, spec.times[0], lines[row], cell)
    if read.how:
        findings.say(f"The time is read as {read.how}.")
    for note in read.notes:
        findings.say(note)
    settings = read.settings
    return read.stamps, {"time_format": settings.get("data.time_format"), "time_zone": settings.get("data.time_zone")}


def steps_in(columns: Sequence[RawColumn], spec: TableSpec, path: str) -> IntArray | None:
    """The times (N,) of a file as whole numbers that no calendar counts, as weeks 40, 41; None where it has dates."""
    if len(spec.times) != 1 or spec.layout.time_format is not None:
        return None
    column = columns[spec.times[0]]
    if column.is_time or (column.codes == 0).any():
        return None
    with _named(path):
        if not whole_numbers(column.words, column.name):
            return None
    return np.array([int(float(word)) for word in column.words], dtype=np.int64)[column.codes - 1]


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Puts the name of the file before what is said of its times."""
    try:
        yield
    except AmbiguousTime as error:
        raise AmbiguousTime(f"{path}: {error}", error.candidates) from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def counted_stamps(layout: Layout, rows: int) -> pd.DatetimeIndex:
    """(N,): the timestamps of a file without a time column. UserError for a frequency or a start that are none."""
    if layout.freq == STEPS:
        return pd.date_range("1970-01-01", periods=rows, freq="ms")
    freq = known_frequency(layout.freq or "", "data.freq")
    start = pd.to_datetime(str(layout.start), format="ISO8601", errors="coerce")
    if pd.isna(start) or start.tz is not None:
        raise UserError(f"data.start={layout.start} is no time without a zone. Write it as 2016-07-01 00:00:00.")
    with contextlib.suppress(pd.errors.OutOfBoundsDatetime, OverflowError):
        stamps = pd.date_range(start, periods=rows, freq=freq)
        if stamps[0].year in YEARS and stamps[-1].year in YEARS:
            return stamps
    raise UserError(
        f"{rows} rows from data.start={layout.start} at data.freq={layout.freq} leave the years {YEARS[0]} to "
        f"{YEARS[-1]}. Set a finer data.freq, or data.freq={STEPS}."
    )
