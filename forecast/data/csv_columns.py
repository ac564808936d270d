"""The columns of a CSV file as timestamps and numbers."""

import re
import warnings
from collections.abc import Iterator, Sequence
from csv import QUOTE_NONE
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.cell_faults import BLANKS, CellFaults
from forecast.data.csv_text import CsvText
from forecast.data.findings import Findings, Gaps
from forecast.errors import UserError

FloatArray = npt.NDArray[np.float64]

# Read at a time: pandas holds every timestamp of a chunk as a Python object, many times larger than its number. It
# has a fixed cost for each column of a chunk, so a wide file needs more cells.
CHUNK_CELLS = 200_000
CHUNK_ROWS = 2_000
MISSING_WORDS = frozenset({"", "nan", "na", "n/a", "null", "none", "<na>", "#n/a"})
# As files write them; pandas compares letter by letter.
MISSING_SPELLINGS = frozenset(
    {"NaN"} | {spelling for word in MISSING_WORDS for spelling in (word, word.upper(), word.capitalize())}
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_OTHER_DECIMAL = re.compile(r"[+-]?\d+[.,]\d+", re.ASCII)
_ZONE = re.compile(r"\d[T :]\d\d.*?(Z|[+-]\d\d?(?::?\d\d)?|\b(?:UTC|GMT|[A-Z]{3,4}))\s*$", re.ASCII)
_FLAGS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
_CLOCK = ("now", "today")  # pandas would look at the clock
_YEAR = re.compile(r"\s*(-?\d{4})(?!\d)", re.ASCII)
# Those that nanoseconds reach: pandas 2 knows no others, and with pandas 3 steps between others overflow.
_YEARS = range(pd.Timestamp.min.year + 1, pd.Timestamp.max.year)


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """Which columns of a file to read, by their places in the header, and how.

    gaps: unless refuse, rows and numbers may be missing. freq: the pandas alias that a model was trained on, or None.
    """

    header: Sequence[str]
    time: int
    numbers: Sequence[int]
    decimal: str
    gaps: Gaps = "refuse"
    freq: str | None = None

    @property
    def chunk_rows(self) -> int:
        """Rows read at a time."""
        return max(CHUNK_ROWS, CHUNK_CELLS // len(self.header))


@dataclass(frozen=True)
class Table:
    """The N rows of a file as it holds them: regular or not, with gaps or not.

    places: of the C columns in the header. timestamps (N,) without a time zone; values (N, C) finite, or NaN where one
    is missing. Only where an error was found NaT stands for an unreadable timestamp, inf for a cell that is no number.
    """

    text: CsvText
    columns: tuple[str, ...]
    places: Sequence[int]
    timestamps: pd.DatetimeIndex
    values: FloatArray

    def ordered(self) -> pd.DatetimeIndex:
        """The readable timestamps, increasing, each once."""
        stamps = self.timestamps
        if not stamps.hasnans and bool((stamps[1:] > stamps[:-1]).all()):  # no copy of millions of rows
            return stamps
        once: pd.DatetimeIndex = stamps.dropna().sort_values().unique()
        return once


_Rows = list[tuple[int, list[str]]]  # (line, cells) of each


def read_table(text: CsvText, spec: TableSpec, findings: Findings) -> Table:
    """The chosen columns of a file; a column of nothing but True and False is 1 and 0.

    pandas reads some rows at a time. From the first chunk on in which it cannot take every cell for what it should be,
    the cells are read one by one, to find out which are wrong and why.
    """
    if spec.decimal not in (".", ","):
        raise UserError(f"data.decimal is {spec.decimal!r}; it must be one of two characters. Set '.' or ','.")
    if spec.decimal == text.separator:
        findings.error(
            f"data.decimal and data.separator are both {spec.decimal!r}. Set them to different characters, or write "
            "the file with another separator."
        )
    # Column by column as pandas lays them: sums over the rows round the same, whatever the size of a chunk.
    text.check_nul()
    assert text.content is not None
    values = np.empty((text.content.lines, len(spec.numbers)), order="F")
    stamps: list[pd.DatetimeIndex] = []
    row = 0
    for read_on, numbers, times in _chunks(text, spec, findings):
        text = read_on
        values[row : row + len(times)] = numbers
        stamps.append(times)
        row += len(times)
    columns = tuple(spec.header[place] for place in spec.numbers)
    return Table(text, columns, spec.numbers, pd.DatetimeIndex(stamps[0].append(stamps[1:])), values[:row])


def guess_decimal(columns: list[list[str]]) -> str:
    """A comma when more cells are written so, else a point."""
    numbers = [cell for column in columns for cell in column if _OTHER_DECIMAL.fullmatch(cell.strip(BLANKS))]
    return "," if sum("," in cell for cell in numbers) * 2 > len(numbers) else "."


def _chunks(
    text: CsvText, spec: TableSpec, findings: Findings
) -> Iterator[tuple[CsvText, FloatArray, pd.DatetimeIndex]]:
    """(the text as it is read, values (n, C), timestamps (n,)), some rows at a time."""
    row = 0
    try:
        for numbers, times in _quick_chunks(text, spec):
            yield text, numbers, times
            row += len(times)
        return
    except UserError:
        raise
    except ValueError as error:
        refusal = str(error)
    faults = CellFaults(str(text.path), spec.header, spec.time, spec.decimal, _YEARS)
    before, unclosed = len(findings), "EOF inside string" in refusal
    for read_on, records in _records(text, spec, row, findings, unclosed=unclosed):
        yield read_on, _numbers(records, spec, faults), _timestamps(records, spec, faults)
        row += len(records)
        if findings.strict and faults.faults:
            break
    faults.report(row, findings)
    if len(findings) == before:
        findings.error(f"{text.path} holds something that is no number: {refusal}. Correct it before training.")


def _quick_chunks(text: CsvText, spec: TableSpec) -> Iterator[tuple[FloatArray, pd.DatetimeIndex]]:
    """Values (n, C) and timestamps (n,), some rows at a time; ValueError before the first chunk with a faulty cell."""
    width = len(spec.header)
    if len(next(text.rows())[1]) > width:  # pandas would take the first column for an index, in silence
        raise ValueError("surplus cells")
    numeric = set(spec.numbers)
    with (
        text.open() as file,
        pd.read_csv(
            file,
            sep=text.separator,
            decimal=spec.decimal,
            header=0,
            names=list(range(width)),
            # All columns are parsed, not `usecols`: with it pandas drops surplus cells in silence, as of 1,5
            # without quotes.
            dtype={place: np.float64 if place in numeric else str for place in range(width)},
            skipinitialspace=True,
            keep_default_na=False,
            na_values=sorted(MISSING_SPELLINGS),
            chunksize=spec.chunk_rows,
        ) as chunks,
    ):
        for chunk in chunks:
            numbers = chunk[list(spec.numbers)].to_numpy(dtype=np.float64)
            if np.isinf(numbers).any() or (spec.gaps == "refuse" and np.isnan(numbers).any()):
                raise ValueError("a value is missing or not finite")
            times = chunk[spec.time]
            if times.isna().any() or times.isin(_CLOCK).any():
                raise ValueError("a timestamp is missing")
            with warnings.catch_warnings():
                warnings.filterwarnings("error", ".*mixed time zones", FutureWarning)  # of pandas 2.2; 3 raises
                try:
                    stamps = pd.DatetimeIndex(pd.to_datetime(times, format="ISO8601", errors="coerce"))
                except FutureWarning as warning:
                    raise ValueError(str(warning)) from warning
            if stamps.tz is not None or stamps.hasnans or {stamps.min().year, stamps.max().year} - set(_YEARS):
                raise ValueError("a timestamp cannot be read")
            yield numbers, stamps


def _records(
    text: CsvText, spec: TableSpec, start: int, findings: Findings, *, unclosed: bool
) -> Iterator[tuple[CsvText, _Rows]]:
    """The rows from `start` on, some at a time; from a quote on that goes over its line, quotes are letters.

    unclosed: pandas has found a quote that is never closed in the first of these chunks.
    """
    rows = text.rows(start)
    while True:
        problem = None
        try:
            records = list(islice(rows, spec.chunk_rows))
            if text.quoting != QUOTE_NONE:
                problem = _quote_problem(text, records, spec, unclosed=unclosed)
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
            start += len(records)
        else:
            return


def _quote_problem(text: CsvText, records: _Rows, spec: TableSpec, *, unclosed: bool) -> str | None:
    places = (spec.time, *spec.numbers)
    over = (n for n, cells in records if any("\n" in cells[i].strip(BLANKS) for i in places if i < len(cells)))
    line = next(over, records[-1][0] if unclosed and records else None)
    if line is None:
        return None
    how = "is never closed" if unclosed else "goes over the end of its line"
    return f"{text.path}: line {line}: a quotation mark opens a cell that {how}. Close or remove it."


def _numbers(records: _Rows, spec: TableSpec, faults: CellFaults) -> FloatArray:
    """(n, C): NaN for a missing cell, inf for a faulty one."""
    values = np.empty((len(records), len(spec.numbers)))
    width = len(spec.header)
    for line, cells in records:
        if len(cells) > width:
            faults.add("surplus", -1, line, str(len(cells)))
    for i, place in enumerate(spec.numbers):
        column = [cells[place] if place < len(cells) else "" for _, cells in records]
        if all(cell in _FLAGS for cell in column):
            values[:, i] = [_FLAGS[cell] for cell in column]
            continue
        for row, (written, (line, _)) in enumerate(zip(column, records, strict=True)):
            values[row, i], kind = _number(written, spec)
            if kind is not None:
                faults.add(kind, place, line, written)
    # A row of nothing but separators lacks its timestamp, an error of its own; its cells as gaps would hide others.
    values[[not any(cell.strip() for cell in cells) for _, cells in records]] = np.inf
    return values


def _number(written: str, spec: TableSpec) -> tuple[float, str | None]:
    """The number in a cell and what is wrong with it."""
    cell = written.strip(BLANKS)
    number = cell if spec.decimal == "." else cell.replace(".", "?").replace(spec.decimal, ".")
    value = float(number) if _NUMBER.fullmatch(number) else np.nan
    if np.isfinite(value):
        return value, None
    if cell.lower() in MISSING_WORDS:
        if spec.gaps == "refuse":
            return np.nan, "missing"
        return (np.nan, None) if written in MISSING_SPELLINGS else (np.inf, "padded")
    if _OTHER_DECIMAL.fullmatch(cell):
        return np.inf, "decimal"
    try:
        infinite = not np.isfinite(float(cell))
    except ValueError:
        infinite = False
    return np.inf, "infinite" if infinite else "flag" if cell in _FLAGS else "text"


def _timestamps(records: _Rows, spec: TableSpec, faults: CellFaults) -> pd.DatetimeIndex:
    """(n,), NaT for an unreadable one; a time zone is cut off."""
    cells = [cells[spec.time] if spec.time < len(cells) else "" for _, cells in records]
    zones = [_ZONE.search(cell) for cell in cells]
    bare = pd.Series([c[: zone.start(1)].rstrip() if zone else c for zone, c in zip(zones, cells, strict=True)])
    bare = bare.mask(bare.isin([*_CLOCK, *MISSING_SPELLINGS]))
    stamps = pd.DatetimeIndex(pd.to_datetime(bare, format="ISO8601", errors="coerce", utc=True)).tz_localize(None)
    readable = np.asarray(stamps.year.isin(_YEARS))
    for (line, _), cell, zone, good in zip(records, cells, zones, readable, strict=True):
        year = _YEAR.match(cell)
        if cell in MISSING_SPELLINGS:
            faults.add("no timestamp", spec.time, line, cell)
        elif zone:
            faults.add("zone", spec.time, line, cell, word=zone[1])
        elif not good:
            faults.add("year" if year and int(year[1]) not in _YEARS else "unreadable", spec.time, line, cell)
    known: pd.DatetimeIndex = stamps.where(readable)
    return known
