"""The cells of a file as columns, each typed as a whole or read as text, and the table that a layout makes of them."""

import contextlib
import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.reading.column_guess import Kind, column_kind
from forecast.data.reading.columnar import TimeColumn
from forecast.data.reading.csv_text import CsvText
from forecast.data.reading.layout import STEPS, Layout, known_frequency
from forecast.data.reading.numbers import MISSING_SPELLINGS, fault_words, number_in, read_numbers, with_numbers
from forecast.data.reading.raw_columns import BLANKS, RawColumn, blank_rows
from forecast.data.reading.table import Table, TableSpec
from forecast.data.reading.time_formats import YEARS
from forecast.data.reading.timestamps import (
    FAULTS,
    AmbiguousTime,
    plain_iso,
    read_timestamps,
    typed_timestamps,
    whole_numbers,
)
from forecast.data.values.cells import IntArray
from forecast.data.values.findings import Findings, quoted
from forecast.errors import UserError, closest
from forecast.text.terminal import label

Rows = npt.NDArray[np.intp]
Fault = tuple[int, int, str]  # of one column the first row that cannot be read, its place, and why
_MOST_FAULTS = 5  # columns of which one is told
_SAMPLE = 100  # rows that show which columns hold numbers
_MOST_STEPS = 1 << 40  # milliseconds that lie in a calendar's years
_ROUNDS = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)  # the last bit of a number; from 3.1 on it is exact
LEFT_OUT: dict[Kind, str] = {"text": "text", "empty": "empty", "index": "row numbers"}


class Read(TypedDict, total=False):
    """How timestamps were read, as a `Table` has it."""

    time_format: str | None
    time_zone: str | None
    clock: str | None


def read_columns(text: CsvText, spec: TableSpec, *, words: Collection[int]) -> list[RawColumn]:
    """The columns of a file; words: the places of those whose cells are kept as they are written.

    UserError for a file whose rows cannot be told apart.
    """
    words = {*words, *spec.named()}
    if spec.style.decimal == text.separator and text.table is None:
        raise UserError(
            f"data.decimal and data.separator are both {spec.style.decimal!r}. Set them to different characters, or "
            "write the file with another separator."
        )
    columns = _parsed(text, spec, words) if text.table is None else list(text.table.columns)
    candidates = {*spec.candidates}
    for place, column in enumerate(columns):
        if place in words and not (column.is_time and place in spec.times):
            columns[place] = column.as_words()
        elif place in candidates and not column.is_time:
            columns[place] = with_numbers(column, spec.style)
    return columns


def _parsed(text: CsvText, spec: TableSpec, words: Collection[int]) -> list[RawColumn]:
    """The columns of a CSV: pandas reads each as numbers, or as text where one cell is none."""
    sample = [cells for _, cells in islice(text.rows(), _SAMPLE)]
    numbers = {*spec.candidates} - {*words}
    others: dict[int, type] = {place: str for place in range(len(spec.header)) if place not in numbers}
    quick = {place for row in sample for place, cell in enumerate(row) if place in numbers and _is_number(cell, spec)}
    try:
        if len(sample[0]) > len(spec.header):
            raise pd.errors.ParserError("surplus cells, of which pandas would make an index, in silence")
        frame = _frame(
            text, spec, quick, {place: float if place in quick else str for place in range(len(spec.header))}
        )
    except ValueError as error:
        if isinstance(error, pd.errors.ParserError):
            widths = ((line, len(cells)) for line, cells in text.records())
            raise _structure(text, widths, len(spec.header)) from error
        frame = _frame(text, spec, numbers, others)  # in some column a word stands among numbers
    columns = []
    for place, name in enumerate(spec.header):
        cells = frame.iloc[:, place]
        alone = [place] == spec.times and spec.layout.time_format is None
        if cells.dtype.kind in "iuf":
            columns.append(RawColumn.of_numbers(name, cells.to_numpy(dtype=np.float64)))
        elif alone and (stamps := plain_iso(cells)) is not None:
            columns.append(TimeColumn.of(name, stamps))
        else:
            columns.append(RawColumn.of_cells(name, cells.map(str, na_action="ignore") if place in numbers else cells))
    blank = blank_rows(columns)
    return [column.take(np.flatnonzero(~blank)) for column in columns] if blank.any() else columns


def _is_number(cell: str, spec: TableSpec) -> bool:
    return number_in(cell.strip(BLANKS), spec.style.decimal, None) is not None


def _frame(text: CsvText, spec: TableSpec, numbers: Collection[int], types: dict[int, type]) -> pd.DataFrame:
    """The columns by their places; ValueError for a cell that is not of its type."""
    return pd.read_csv(
        io.BytesIO(text.content),
        sep=text.separator,
        skiprows=text.above,
        decimal=spec.style.decimal,
        float_precision="round_trip" if _ROUNDS else None,
        header=0,
        names=list(range(len(spec.header))),
        # All columns are parsed, not `usecols`: with it pandas drops surplus cells in silence, as of an unquoted 1,5.
        dtype=types,
        skipinitialspace=True,
        keep_default_na=False,
        low_memory=len(types) == len(spec.header),  # else a column would have a type in each part
        # a series may be called NA: spellings of nothing are those of numbers alone
        na_values=dict.fromkeys(numbers, sorted(MISSING_SPELLINGS)),  # type: ignore[arg-type]  # named by numbers
    )


def _structure(text: CsvText, widths: Iterable[tuple[int, int]], most: int) -> UserError:
    """What is wrong with a file that cannot be cut into rows. widths: the line and the cells of some rows."""
    line = 1
    for line, cells in widths:
        if cells > most:
            return UserError(
                f"{text.path}: line {line} has {cells} cells, the header names {most} columns. Remove the surplus "
                "cells, name all columns, or set data.decimal and data.separator if numbers are written as 1,5."
            )
    return UserError(
        f"{text.path}: line {line}: a quotation mark opens a cell that is never closed. Close or remove it."
    )


def table_of(text: CsvText, columns: Sequence[RawColumn], spec: TableSpec, findings: Findings) -> Table:
    """What a layout reads of the columns of a file. UserError with a line for each column that has a fault."""
    origin = _chosen_rows(columns, spec, findings.path)
    if origin is not None:
        columns = [column.take(origin) for column in columns]
    rows = len(columns[0])
    words = [place for place in spec.perhaps() if column_kind(columns[place], spec.style) == "text"]
    coded = {*spec.named(), *words}
    places = spec.candidates
    if spec.numbers is None:
        places = _numeric(columns, spec, findings, coded, () if text.table is None else text.table.index)
    values = np.empty((rows, len(places)), order="F")
    for number, place in enumerate(places):
        column = columns[place]
        if place in coded:
            column = column.as_words()
            values[:, number] = spec.codebook.codes(column.name, column.words)[column.codes - 1]
        else:
            values[:, number] = read_numbers(column, spec.style).values
    stamps, written, faults = _timestamps(columns, rows, spec, findings)
    for number, place in enumerate(places):
        if (bad := np.isinf(values[:, number])).any():
            faults.append((int(bad.argmax()), place, "number"))
    table = Table(text, tuple(spec.header[place] for place in places), places, stamps, values, origin, **written)
    if faults:
        raise UserError("\n".join(_fault_lines(sorted(faults)[:_MOST_FAULTS], table, spec, findings.path)))
    return table


def _fault_lines(faults: Sequence[Fault], table: Table, spec: TableSpec, path: str) -> Iterator[str]:
    """A line for each of some cells: where it stands, what is wrong with it, and the fix."""
    records = table.records([row for row, *_ in faults])
    for row, place, kind in faults:
        line, cells = records[row]
        places = spec.times if place in spec.times else [place]
        cell = " ".join(cells[place].strip(BLANKS) for place in places if place < len(cells))
        message, fix = fault_words(cell, spec.style) if kind == "number" else FAULTS[kind]
        message = message.format(quoted(cell)) if kind in FAULTS else message
        if "\n" in cell:
            fix = f"{fix} Look for an unclosed quotation mark."
        yield f"{path}: line {line}, column {quoted(spec.header[place])}: {message}. {fix}"


def _chosen_rows(columns: Sequence[RawColumn], spec: TableSpec, path: str) -> Rows | None:
    """The rows whose cells are what `data.where` asks for; None for all. UserError when there are none."""
    where = spec.layout.where or {}
    chosen = np.ones(len(columns[0]), dtype=bool)
    for name, value in where.items():
        column = columns[spec.header.index(name)].as_words()
        codes = [code for code, word in enumerate(column.words, start=1) if _is(word, value, spec)]
        same = np.isin(column.codes, codes)
        chosen &= same
        if not chosen.any():
            some = ", ".join(quoted(word) for word in column.words[:8])
            raise UserError(
                f"{path}: data.where: no row has {quoted(str(value))} in the column '{name}'"
                f"{' beside what else is asked for' if same.any() else ''}, which holds {some}"
                f"{', ...' if len(column.words) > 8 else ''}.{closest(str(value), column.words)} Choose cells that "
                "stand in one row."
            )
    return np.flatnonzero(chosen) if where else None


def _is(word: str, value: str | float, spec: TableSpec) -> bool:
    """Whether a cell is what is asked for: a number by its value, text letter by letter."""
    return word == value or (
        not isinstance(value, str) and number_in(word, spec.style.decimal, spec.style.thousands) == value
    )


def _numeric(
    columns: Sequence[RawColumn], spec: TableSpec, findings: Findings, coded: Collection[int], index: Collection[str]
) -> list[int]:
    """The columns that hold numbers, or categories (coded); the others are named in one sentence.

    index: those that number the rows. UserError when there are none.
    """
    kinds: dict[int, Kind] = {
        place: "index" if spec.header[place] in index else column_kind(columns[place], spec.style, first=place == 0)
        for place in spec.candidates
        if place not in coded
    }
    left_out = {place: LEFT_OUT[kind] for place, kind in kinds.items() if kind in LEFT_OUT}
    out = ", ".join(f"{label(spec.header[place])} ({kind})" for place, kind in left_out.items())
    if out:
        findings.say(f"Left out, as they hold no numbers of the series: {out}.")
    if len(left_out) == len(spec.candidates):
        raise UserError(
            f"{findings.path}: there is no column of numbers beside the time: {out or 'no other column'}. "
            "Name the columns to read all the same: data.columns=[NAME]"
        )
    return [place for place in spec.candidates if place not in left_out]


def _timestamps(
    columns: Sequence[RawColumn], rows: int, spec: TableSpec, findings: Findings
) -> tuple[pd.DatetimeIndex, Read, list[Fault]]:
    """(N,), NaT for an unreadable one; how they were read, as a `Table` has it; the first that cannot be read."""
    layout = spec.layout
    if not spec.times:
        return counted_stamps(layout, rows), {}, []
    path, column = findings.path, columns[spec.times[0]]
    steps = steps_in(columns, spec, path)
    if steps is not None:
        unit = int(np.gcd.reduce(np.diff(np.unique(steps)), initial=0)) or 1
        first = int(steps[0]) % unit if np.abs(steps).max() < _MOST_STEPS else int(steps.min())
        return pd.DatetimeIndex(((steps - first) // unit).astype("datetime64[ms]")), {}, []
    with _named(path):
        if isinstance(column, TimeColumn) and len(spec.times) == 1 and layout.time_format is None:
            read = typed_timestamps(column.stamps, layout.time_zone, column.zone)
        else:
            missing = MISSING_SPELLINGS | {str(word) for word in layout.missing}
            parts = {
                name: columns[place].cells(range(rows))
                for name, place in zip(layout.time_columns, spec.times, strict=True)
            }
            read = read_timestamps(parts, missing=missing, time_format=layout.time_format, time_zone=layout.time_zone)
    if read.how:
        findings.say(f"The time is read as {read.how}.")
    written: Read = {
        "time_format": read.settings.get("data.time_format"),
        "time_zone": read.settings.get("data.time_zone"),
        "clock": read.clock,
    }
    return read.stamps, written, [(row, spec.times[0], read.faults[row]) for row in sorted(read.faults)[:1]]


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
