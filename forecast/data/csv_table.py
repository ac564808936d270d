"""The cells of a CSV file as timestamps and numbers, or the words for the first cell that is neither."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.csv_text import CsvText, shown
from forecast.data.gaps import FIXES, MISSING_SPELLINGS, MISSING_WORDS, Gaps
from forecast.errors import UserError

FloatArray = npt.NDArray[np.float64]

# Read at a time: pandas holds every timestamp of a chunk as a Python object, many times larger than its number. It
# takes a time of its own for each column of a chunk, so a wide file needs more cells.
CHUNK_CELLS = 200_000
CHUNK_ROWS = 2_000
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_OTHER_DECIMAL = re.compile(r"[+-]?\d+[.,]\d+", re.ASCII)
_ZONE = re.compile(r"\d:\d\d.*?(Z|[+-]\d\d?(:?\d\d)?|\b(UTC|GMT|[A-Z]{3,4}))\s*$")
_FLAGS = frozenset({"True", "TRUE", "true", "False", "FALSE", "false"})
_BLANKS = " \t\n\v\f\r"  # what pandas takes for blank around a number
_CLOCK = ("now", "today")  # pandas would look at the clock
_YEAR = re.compile(r"\s*(-?\d{4})(?!\d)", re.ASCII)
# Those that nanoseconds reach: pandas 2 knows no others, and with pandas 3 steps between others overflow.
_YEARS = range(pd.Timestamp.min.year + 1, pd.Timestamp.max.year)


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """What to read of a file: C `columns` of numbers written with `decimal`; `gaps` says whether one may be missing."""

    time_column: str
    columns: tuple[str, ...]
    decimal: str
    gaps: Gaps


def read_table(text: CsvText, spec: TableSpec) -> tuple[pd.DatetimeIndex, FloatArray]:
    """The rows of a file -> timestamps (N,) without a time zone and values (N, C).

    Values are finite, or NaN where one is missing and `gaps` is not refuse; a column of nothing but True and False
    is 1 and 0. UserError for the first cell that is neither number nor timestamp.
    """
    if spec.decimal == text.separator:
        raise UserError(f"data.decimal and data.separator are both {spec.decimal!r}. Set them to different characters.")
    header = text.header(spec.time_column)
    # Column by column as pandas lays them: sums over the rows round the same, whatever the size of a chunk.
    values = np.empty((text.most_rows(), len(spec.columns)), order="F")
    stamps: list[pd.DatetimeIndex] = []
    row = 0
    for chunk in _chunks(text, header, spec):
        numbers = chunk[list(spec.columns)].to_numpy(dtype=np.float64)
        good = np.isfinite(numbers) | (np.isnan(numbers) & (spec.gaps != "refuse"))
        if not good.all():
            _refuse_cell(text, header, spec, start=row + int((~good).any(axis=1).argmax()))
        stamps.append(_timestamps(text, chunk[spec.time_column], start=row))
        values[row : row + len(chunk)] = numbers
        row += len(chunk)
    assert row, "the header was found with a row below it"
    return pd.DatetimeIndex(stamps[0].append(stamps[1:])), values[:row]


def _chunks(text: CsvText, header: tuple[str, ...], spec: TableSpec) -> Iterator[pd.DataFrame]:
    """The rows, some at a time: the time column as text, the chosen columns as float64, NaN for a missing value."""
    row = 0
    try:
        with (
            text.open() as file,
            pd.read_csv(
                file,
                sep=text.separator,
                decimal=spec.decimal,
                header=0,
                names=list(header),
                # All columns are parsed, not `usecols`: with it pandas drops surplus cells in silence, as of 1,5
                # without quotes.
                dtype={name: np.float64 if name in spec.columns else str for name in header},
                skipinitialspace=True,
                keep_default_na=False,
                na_values=sorted(MISSING_SPELLINGS),
                chunksize=max(CHUNK_ROWS, CHUNK_CELLS // len(header)),
            ) as chunks,
        ):
            for chunk in chunks:
                yield chunk
                row += len(chunk)
    except UserError:
        raise
    except pd.errors.ParserError as error:
        _refuse_long_row(text, len(header), start=row)
        raise text.unclosed_quote() from error
    except ValueError as error:
        _refuse_cell(text, header, spec, start=row)
        raise UserError(
            f"{text.path} holds something that is no number: {error}. Correct it before training."
        ) from error


def _refuse_long_row(text: CsvText, width: int, *, start: int) -> None:
    for line, cells in text.rows(start):
        if len(cells) > width:
            raise UserError(
                f"{text.path}: line {line} has {len(cells)} cells, the header names {width} columns. Remove "
                "the surplus cells, or set data.decimal and data.separator if numbers are written as 1,5."
            )


def _refuse_cell(text: CsvText, header: tuple[str, ...], spec: TableSpec, *, start: int) -> None:
    """Refuses the first cell from row `start` on that is no number; a flag only when nothing else is wrong."""
    places = [(name, header.index(name)) for name in spec.columns]
    flag: UserError | None = None
    for line, cells in text.rows(start):
        for name, at in places:
            written = cells[at] if at < len(cells) else ""
            problem = _cell_problem(written, spec)
            if problem is None:
                continue
            error = UserError(f"{text.path}: line {line}, column {shown(name)}: {problem}")
            if written not in _FLAGS:
                raise error
            flag = flag or error
    if flag is not None:
        raise flag


def _cell_problem(written: str, spec: TableSpec) -> str | None:
    """What is wrong with a cell that should hold a number, and the fix; None for nothing."""
    cell, decimal = written.strip(_BLANKS), spec.decimal
    if _is_finite_number(cell, decimal):
        return None
    if cell.lower() in MISSING_WORDS:
        return _missing_problem(written, spec.gaps)
    if _OTHER_DECIMAL.fullmatch(cell):
        other = "," if decimal == "." else "."
        return f"{cell!r} is no number when decimals are written with {decimal!r}. Set data.decimal='{other}'."
    try:
        infinite = not np.isfinite(float(cell))
    except ValueError:
        infinite = False
    if infinite:
        return f"{shown(cell)} is not a finite number. Replace it by a finite one before training."
    return f"{shown(cell)} is no number. Correct it, or drop the column, before training."


def _is_finite_number(cell: str, decimal: str) -> bool:
    number = cell if decimal == "." else cell.replace(".", "?").replace(decimal, ".")
    return bool(_NUMBER.fullmatch(number)) and bool(np.isfinite(float(number)))


def _missing_problem(written: str, gaps: Gaps) -> str | None:
    cell = written.strip(_BLANKS)
    if gaps == "refuse":
        return f"the value is missing ({cell!r}). Fill the gap, or drop the column, before training, or set {FIXES}."
    if written in MISSING_SPELLINGS:
        return None
    return f"the value is missing, but written as {written!r}. Write NaN, or nothing, for a missing value."


def _timestamps(text: CsvText, column: "pd.Series[str]", *, start: int) -> pd.DatetimeIndex:
    """(n,) timestamps of the rows from `start` on; refuses the first one that is missing, zoned or unreadable."""
    missing = column.isna().to_numpy()
    if missing.any():
        where = f"{text.path}: line {text.line(start + int(missing.argmax()))}, column {shown(str(column.name))}"
        raise UserError(f"{where}: the timestamp is missing. Fill it in or drop the line.")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", ".*mixed time zones", FutureWarning)  # of pandas 2.2; 3 raises
            stamps: pd.DatetimeIndex = pd.DatetimeIndex(pd.to_datetime(column, format="ISO8601", errors="coerce"))
    except (ValueError, FutureWarning) as error:  # several time zones
        raise _unreadable(text, column, start=start) from error
    if stamps.tz is not None or stamps.hasnans or column.isin(_CLOCK).any():
        raise _unreadable(text, column, start=start)
    if stamps.min().year not in _YEARS or stamps.max().year not in _YEARS:
        raise _unreadable(text, column, start=start)
    return stamps


def _unreadable(text: CsvText, column: "pd.Series[str]", *, start: int) -> UserError:
    for row, cell in enumerate(column, start):
        problem = _stamp_problem(cell)
        if problem:
            where = f"{text.path}: line {text.line(row)}, column {shown(str(column.name))}"
            return UserError(f"{where}: {shown(cell)} {problem}")
    raise AssertionError("every timestamp can be read")


def _stamp_problem(cell: str) -> str | None:
    """What is wrong with a timestamp, and the fix; None for nothing."""
    if _ZONE.search(cell):
        return (
            "carries a time zone. Convert all timestamps to one zone without clock changes (UTC) and write them "
            "without the suffix."
        )
    year = _YEAR.match(cell)
    if year and int(year[1]) not in _YEARS:
        return (
            f"is not in the years {_YEARS[0]} to {_YEARS[-1]}, which can be read. Correct it, or drop the line if it "
            "marks an open end."
        )
    # ISO8601 has the year first: pandas would guess whether 01/02/2016 begins with the day or the month.
    if cell in _CLOCK or pd.isna(pd.to_datetime(cell, format="ISO8601", errors="coerce")):
        return "is no timestamp that can be read without guessing. Write the year first, as 2016-07-01 00:00:00."
    return None
