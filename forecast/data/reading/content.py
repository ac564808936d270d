"""What a file holds: a CSV's lines and cells, or the typed columns of a Parquet or Feather file or a sheet."""

import csv
import datetime
import gzip
import hashlib
import io
import re
import warnings
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from statistics import median_low
from typing import TextIO

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from pyarrow import types

from forecast.data.reading.columns import RawColumn, TypedTable
from forecast.data.values.cells import Findings, quoted
from forecast.errors import UserError, closest, readable
from forecast.text.overrides import hydra_value
from forecast.text.terminal import label, listed

PARQUET, FEATHER, GZIP, ZIP = b"PAR1", b"ARROW1", b"\x1f\x8b", b"PK\x03\x04"
KINDS = {  # of a file, by its first bytes
    PARQUET: "a Parquet file",
    FEATHER: "a Feather file",
    GZIP: "compressed with gzip",
    ZIP: "a zip archive or an Excel workbook",
}
SEPARATORS = (",", ";", "\t", "|")
_NUMBERS = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
_NO_NAME = re.compile(r"\s*([-+.\d]*\d|$)", re.ASCII)
_SAMPLE = 100  # lines that titles are looked for in, and separators tried on
csv.field_size_limit(1 << 30)  # after a quotation mark that is never closed one cell holds half of the file


@dataclass(frozen=True)
class CsvText:
    """A CSV file as lines and cells; pandas reads the columns, this class finds the words for its errors.

    A row number counts the data rows from 0, as the arrays do; a line number counts the lines of the file
    from 1, as an editor does. They drift apart where a file has blank lines. A text that is `verified` has the MD5 of
    its file as it is stored, and its content in UTF-8, or a table where the file is no text but knows its cells.
    """

    path: Path
    separator: str
    checksum: str = ""
    content: bytes = b""
    table: TypedTable | None = None

    @cached_property
    def above(self) -> int:
        """How many lines stand above the header: titles, and what a program says of itself."""
        return header_line(list(islice(self.whole(), _SAMPLE)), self.separator)

    def whole(self) -> TextIO:
        """The whole text, without its byte order mark, all line ends as \\n."""
        return io.TextIOWrapper(io.BytesIO(self.content), "utf-8-sig")

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """(first line, cells) of the header and of every row, blank ones left out."""
        if self.table is not None:
            yield from self.table.records()
            return
        reader = csv.reader(islice(self.whole(), self.above, None), delimiter=self.separator, skipinitialspace=True)
        line = 1 + self.above
        for cells in reader:
            # One of nothing but separators is no row.
            if any(map(str.strip, cells)):
                yield line, cells
            line = reader.line_num + 1 + self.above

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of the data rows."""
        return islice(self.records(), 1, None)

    def records_of(self, rows: Collection[int]) -> dict[int, tuple[int, list[str]]]:
        """(line, cells) of some data rows, read in one go."""
        if self.table is not None:
            return {row: self.table.record(row) for row in rows}
        records = islice(self.rows(), max(rows, default=-1) + 1)
        return {row: record for row, record in enumerate(records) if row in rows}

    def verified(self, findings: Findings, sheet: str | None = None) -> "CsvText":
        """The same with its content, unpacked, in the encoding that it has.

        sheet: which one of a workbook to read; UserError where that must be said, and for a separator that is none.
        """
        mark = "\t" if self.separator == "\\t" else self.separator  # as a shell hands it over
        if len(mark) != 1 or not mark.isascii() or mark.isalnum() or mark in '"\r\n\0':
            raise UserError(f"data.separator is {mark!r}. Choose ',', ';', '|', '\\t' or another sign of punctuation.")
        checksum, content, table = unpacked(self.path, sheet, findings)
        content = _in_utf8(content, findings)
        return replace(self, separator=mark, checksum=checksum, content=content, table=table)

    def header(self, time_columns: Sequence[str], findings: Findings) -> list[str]:
        """The names of all columns, those of the time among them; a name that stands twice is 'a' and 'a.1'.

        A column without a name is called by its place, 'column 3'. UserError for a file without rows,
        or without one of the time columns.
        """
        records = self.records()
        line, header = next(records, (0, []))
        if next(records, None) is None:
            raise UserError(
                f"{self.path} is empty, or holds a header and no rows. Its first line must name the columns, as "
                "date,a,b. Add one line per time step below it."
            )
        if line > 1:
            findings.say(f"The names of the columns stand in line {line}; what stands above them is left out.")
        header = [name if name.strip() else f"column {place}" for place, name in enumerate(header, start=1)]
        names: dict[str, str] = {}  # to what each is in the file
        for name in header:
            numbered = (f"{name}.{copy}" if copy else name for copy in count())
            names[next(new for new in numbered if new not in names)] = name
        doubles = [new for new, name in names.items() if new != name]
        if doubles:
            findings.say(
                f"Columns of one name are told apart as {listed(doubles)}. To leave them out set "
                f"data.drop={hydra_value(doubles)}."
            )
        for name in time_columns:
            if name not in names:
                raise UserError(
                    f"{self.path}: line {line}: no time column '{name}' among the {len(names)} columns "
                    f"{listed(header[:12])}.{closest(name, names)} Set data.time_column=NAME, or where they are "
                    f"not split data.separator={max(SEPARATORS, key=header[0].count)!r}."
                )
            if re.match(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}", name):
                raise UserError(
                    f"{self.path}: line {line}: the time column is named {quoted(name)}, which looks like a row. Add "
                    "a line with the names of the columns above it."
                )
        return list(names)


def _in_utf8(stored: bytes, findings: Findings) -> bytes:
    """A text in UTF-8; what else it is is said. UserError for what is none."""
    for encoding in ("UTF-16",) if stored.startswith((b"\xff\xfe", b"\xfe\xff")) else ("UTF-8", "Windows-1252"):
        with suppress(UnicodeDecodeError):
            text = stored.decode(encoding)
            if "\0" not in text:  # to pandas a cell ends there
                if encoding == "UTF-8":
                    return stored
                findings.say(f"It is read as {encoding} text, for it is not UTF-8.")
                return text.encode("utf-8-sig")
    raise UserError(
        f"{findings.path} is damaged, or no text in UTF-8, UTF-16 or Windows-1252. Save it as a CSV in UTF-8."
    )


def header_line(lines: Sequence[str], separator: str) -> int:
    """The place of the line with the names of the columns, 0 but where titles stand above names of whole rows."""
    rows = [next(csv.reader([line], delimiter=separator, skipinitialspace=True), []) for line in lines] or [[]]
    place = header_place(rows)
    below = zip(rows[place], rows[-1], strict=False)
    return place if any(_NO_NAME.match(cell) and not _NO_NAME.match(name) for name, cell in below) else 0


def guess_separator(text: str) -> str:
    """The character that cuts the header and the most lines below it into the same number of cells, at least two."""
    sample = [line for line in text.splitlines() if line.strip()][:_SAMPLE] or [""]

    def score(separator: str) -> tuple[float, int]:
        rows = sample[header_line(sample, separator) :]
        widths = [len(cells) for cells in csv.reader(rows, delimiter=separator, skipinitialspace=True)] or [0]
        return (widths.count(widths[0]) / len(widths), widths[0]) if widths[0] > 1 else (0.0, 0)

    return max(SEPARATORS, key=score)


def unpacked(path: Path, sheet: str | None, findings: Findings) -> tuple[str, bytes, TypedTable | None]:
    """The MD5 of a file as it is stored, and its text, unpacked, or the table that it is.

    sheet: of a workbook, None for the only one with cells. UserError for a file that cannot be read or is damaged, an
    archive of several files, and a workbook where openpyxl is not installed.
    """
    with readable(path):
        stored = path.read_bytes()
    text, table = b"", None
    kind = next((kind for kind in KINDS if stored.startswith(kind)), b"")
    # of a large file this takes as long as reading its columns
    with damaged(path, KINDS.get(kind, "")), ThreadPoolExecutor(1) as pool:
        checksum = pool.submit(hashlib.md5, stored, usedforsecurity=False)
        if kind in (PARQUET, FEATHER):
            (table,) = ColumnarFile(pa.BufferReader(stored), kind).tables()
        elif kind == GZIP:
            text = gzip.decompress(stored)
        elif kind == ZIP:
            with zipfile.ZipFile(io.BytesIO(stored)) as archive:
                names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MAC")]
                if "xl/workbook.xml" in names:
                    table = _sheet(stored, sheet, findings)
                elif len(names) == 1:
                    text = archive.read(names[0])
                else:
                    raise UserError(f"{path} is a zip archive of {len(names)} files. Unpack it, and name one file.")
        else:
            text = stored
    return checksum.result().hexdigest(), text, table


@contextmanager
def damaged(path: Path, kind: str) -> Iterator[None]:
    """UserError for whatever a reader of this kind of file raises for a damaged one, which nobody has listed."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = label(str(error)).rstrip(".") or "its end is missing"
        raise UserError(
            f"{path} is {kind}, and cannot be read: {reason}. Copy it again, or save its content as CSV, and name that."
        ) from error


def _sheet(stored: bytes, name: str | None, findings: Findings) -> TypedTable:
    """The cells of a sheet of a workbook, by its name, or of the only one with cells; row 7 is line 7 in messages.

    Of a formula its last value is taken.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl tells of styles and extensions that it leaves out
        sheets = pd.read_excel(io.BytesIO(stored), None, header=None, dtype=object, na_filter=False, engine="openpyxl")
    filled = [title for title, sheet in sheets.items() if len(sheet)]
    chosen = name if name is not None or len(filled) > 1 else [*filled, *sheets][0]
    if chosen not in sheets:
        raise UserError(
            f"{findings.path} holds the sheets {listed(filled)}.{closest(str(name), filled)} Set data.sheet=NAME."
        )
    cells = sheets[chosen]
    place = header_place(cells.head(_SAMPLE).to_numpy().tolist())
    header = [_text(name) for name in cells.iloc[place]] if len(cells) else []
    rows = cells.iloc[place + 1 :]
    rows = rows[(rows != "").any(axis=1)]
    columns = [_column(name, rows[n]) for n, name in enumerate(header)]
    return TypedTable("an Excel workbook", columns, (rows.index + 1).tolist(), place + 1)


def _column(name: str, cells: "pd.Series[str]") -> RawColumn:
    """The column of a sheet: its numbers, and all else as words."""
    exact = cells.map(lambda cell: isinstance(cell, int | float) and abs(cell) < 1 << 53)
    codes, words = pd.factorize(cells.map(_text, na_action="ignore").mask(exact))  # NaN is an error, as #N/A
    return RawColumn.of_words(name, codes, words.tolist(), cells.where(exact).astype(np.float64).to_numpy())


def _text(cell: object) -> str:
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return str(cell.date())  # a time may stand beside
    return str(cell)


def header_place(rows: Sequence[Sequence[object]]) -> int:
    """The first row that reaches as far as most do: a title above a table stands in its first cells.

    Where that one reaches farther, as what a logger says of itself, it is the first of names that reaches just as far.
    """
    extents = [max((n for n, cell in enumerate(row, start=1) if cell != ""), default=0) for row in rows]
    usual = median_low([extent for extent in extents[len(rows) // 2 :] if extent] or [0])
    place = next((place for place, extent in enumerate(extents) if extent >= usual > 0), 0)
    equal = next((n for n, extent in enumerate(extents) if extent == usual > 0), place)
    return place if any(_NO_NAME.match(str(name)) for row in rows[equal : equal + 1] for name in row[:usual]) else equal


def columnar_kind(path: Path) -> bytes | None:
    """The first bytes of a Parquet or Feather file; None for others."""
    with readable(path), path.open("rb") as file:
        beginning = file.read(8)
    return next((kind for kind in (PARQUET, FEATHER) if beginning.startswith(kind)), None)


class ColumnarFile:
    """A file of typed columns.

    kinds: what its columns hold, number, time or text, by the names under which they are read; the index of a DataFrame
    without a name is called `date`, or left out where it numbers the rows; of text that shows in `tables`. Whatever
    pyarrow raises for a damaged file, here and in `tables`.
    """

    def __init__(self, file: pa.NativeFile, first_bytes: bytes) -> None:
        self._file, self._kind = file, first_bytes
        schema = pa.parquet.read_schema(file) if first_bytes == PARQUET else pa.ipc.open_file(file).schema
        self._fields: dict[str, pa.Field] = {}
        for field in schema:
            name = field.name
            if re.fullmatch(r"__index_level_\d+__", name):  # an index of pandas without one
                if kind_of(field.type) == "number":
                    continue
                name = "" if {"date", "ds", "timestamp"} & {*schema.names} else "date"
            self._fields[name] = field
        self.kinds = {name: kind_of(field.type) for name, field in self._fields.items()}

    def tables(self, rows: int | None = None) -> Iterator[TypedTable]:
        """Its cells, so many rows at a time, None: all."""
        parts: Iterable[pa.RecordBatch | pa.Table]
        if self._kind == PARQUET:
            # One text may stand in a million rows: it is held once.
            texts = [field.name for field in self._fields.values() if types.is_string(field.type)]
            parquet = pa.parquet.ParquetFile(self._file, read_dictionary=texts)
            parts = [parquet.read()] if rows is None else parquet.iter_batches(rows)
        else:
            table = pa.ipc.open_file(self._file).read_all()
            table.validate(full=True)  # offsets of a damaged file would be read beyond its memory
            parts = [table] if rows is None else table.to_batches(max_chunksize=rows)
        first = 2
        for part in parts:
            self._fields = {
                name: field
                for name, field in self._fields.items()
                if field.name == name or part[field.name][:1].to_pylist() not in (["0"], ["1"])  # as R's row names
            }
            columns = [raw_column(name, part[field.name]) for name, field in self._fields.items()]
            yield TypedTable(KINDS[self._kind], columns, range(first, first + part.num_rows))
            first += part.num_rows


def kind_of(kind: pa.DataType) -> str:
    """What a type holds: number or time; text for every other, as pandas writes its cells."""
    values = kind.value_type if types.is_dictionary(kind) else kind
    if any(check(values) for check in _NUMBERS):
        return "number"
    return "time" if types.is_timestamp(values) or types.is_date(values) else "text"


def raw_column(name: str, column: pa.Array | pa.ChunkedArray) -> RawColumn:
    """The cells of a column, as a `TypedTable` has them."""
    kind = column.type
    if types.is_dictionary(kind) and kind_of(kind) != "text":
        kind, column = kind.value_type, column.cast(kind.value_type)
    if kind_of(kind) == "time":
        return TimeColumn.of(name, pd.DatetimeIndex(column.to_pandas(date_as_object=False)))
    if kind_of(kind) == "number":
        numbers = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        # from 2 ** 53 on a float skips whole numbers, as of ids
        if not (types.is_integer(kind) and (np.abs(numbers) >= 1 << 53).any()):
            return RawColumn.of_numbers(name, numbers)
    cells = column.to_pandas(strings_to_categorical=True, integer_object_nulls=True)
    if cells.dtype != "category":
        cells = cells.map(str, na_action="ignore").astype("category")
    words, codes = [*map(str, cells.cat.categories.to_numpy()), ""], cells.cat.codes.to_numpy()
    return RawColumn.of_words(name, np.where(codes < 0, len(words) - 1, codes) if column.null_count else codes, words)


@dataclass(frozen=True, eq=False)
class TimeColumn(RawColumn):
    """A column of times (N,), of a zone where they are instants; to who looks for numbers, they are one word."""

    stamps: pd.DatetimeIndex

    @classmethod
    def of(cls, name: str, stamps: pd.DatetimeIndex) -> "TimeColumn":
        """A column of these times."""
        codes = 1 + np.asarray(stamps.isna(), dtype=np.int32)
        return cls(name, np.broadcast_to(np.float64(np.nan), len(codes)), codes, ["a time", ""], stamps)

    def cells(self, rows: Iterable[int]) -> list[str]:
        """Some times as text in ISO 8601, with the offset from UTC that a zone has then."""
        stamps = self.stamps[np.fromiter(rows, dtype=np.int64)]
        return np.where(stamps.isna(), "", stamps.astype(str)).tolist()

    def take(self, rows: npt.NDArray[np.intp]) -> "TimeColumn":
        """Some rows alone."""
        return self.of(self.name, self.stamps[rows])

    def as_words(self) -> RawColumn:
        """The same as text."""
        return RawColumn.of_cells(self.name, pd.Series(self.cells(range(len(self))), dtype=object))
