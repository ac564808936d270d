"""What a file holds: text as bytes, unpacked, or the typed columns of a Parquet or Feather file or a sheet."""

import datetime
import gzip
import hashlib
import io
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from pyarrow import types

from forecast.data.reading.columns import RawColumn, TypedTable
from forecast.data.values.findings import Findings
from forecast.errors import UserError, closest, readable
from forecast.text.terminal import label, listed

PARQUET, FEATHER, GZIP, ZIP = b"PAR1", b"ARROW1", b"\x1f\x8b", b"PK\x03\x04"
KINDS = {  # of a file, by its first bytes
    PARQUET: "a Parquet file",
    FEATHER: "a Feather file",
    GZIP: "compressed with gzip",
    ZIP: "a zip archive or an Excel workbook",
}
_NUMBERS = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
_SAMPLE = 100  # rows of a sheet that tell where its table begins


def unpacked(path: Path, sheet: str | None, findings: Findings) -> tuple[str, bytes, TypedTable | None]:
    """The MD5 of a file as it is stored, and its text, unpacked, or the table that it is.

    sheet: of a workbook, None for the only one with cells. UserError for a file that cannot be read or is damaged, an
    archive of several files, and a workbook where openpyxl is not installed.
    """
    with readable(path):
        stored = path.read_bytes()
    text, table = b"", None
    kind = next((kind for kind in KINDS if stored.startswith(kind)), b"")
    with damaged(path, KINDS.get(kind, "")):
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
    return hashlib.md5(stored, usedforsecurity=False).hexdigest(), text, table


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
    """The first row that reaches as far as most do: a title above a table stands in its first cells."""
    extents = list(map(_extent, rows))
    usual = median_low([extent for extent in extents[len(rows) // 2 :] if extent] or [0])
    return next((place for place, extent in enumerate(extents) if extent >= usual > 0), 0)


def _extent(row: Sequence[object]) -> int:
    """The place of the last cell that holds something, from 1."""
    return max((place for place, cell in enumerate(row, start=1) if cell != ""), default=0)


def columnar_kind(path: Path) -> bytes | None:
    """The first bytes of a Parquet or Feather file; None for others."""
    with readable(path), path.open("rb") as file:
        beginning = file.read(8)
    return next((kind for kind in (PARQUET, FEATHER) if beginning.startswith(kind)), None)


class ColumnarFile:
    """A file of typed columns.

    kinds: what its columns hold, number, time or text, by the names under which they are read; the index of a DataFrame
    without a name is called `date`, or left out where it numbers the rows. Whatever pyarrow raises for a damaged file,
    here and in `tables`.
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
            columns = [raw_column(name, part[field.name]) for name, field in self._fields.items()]
            lines = range(first, first + part.num_rows)
            yield TypedTable(KINDS[self._kind], columns, lines)
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
    return RawColumn.of_words(name, np.where(codes < 0, len(words) - 1, codes), words)


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
