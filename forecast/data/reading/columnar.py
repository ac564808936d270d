"""Parquet and Feather files: their columns of numbers, times and text, and which hold none of them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from pyarrow import types

from forecast.data.reading.raw_columns import RawColumn, TypedTable
from forecast.errors import readable

PARQUET, FEATHER = b"PAR1", b"ARROW1"
KINDS = {PARQUET: "a Parquet file", FEATHER: "a Feather file"}
_NUMBERS = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)


def columnar_kind(path: Path) -> bytes | None:
    """The first bytes of a Parquet or Feather file; None for others."""
    with readable(path), path.open("rb") as file:
        beginning = file.read(8)
    return next((kind for kind in KINDS if beginning.startswith(kind)), None)


class ColumnarFile:
    """A file of typed columns.

    kinds: what its columns hold, number, time or text, by the names under which they are read; the
    index of a DataFrame is first, and without a name called `date`, or left out where it numbers the rows. index: its
    names. Whatever pyarrow raises for a damaged file, here and in `tables`.
    """

    def __init__(self, file: pa.NativeFile, first_bytes: bytes) -> None:
        self._file, self._kind = file, first_bytes
        schema = pa.parquet.read_schema(file) if first_bytes == PARQUET else pa.ipc.open_file(file).schema
        stored = (schema.pandas_metadata or {}).get("index_columns", [])
        self.index = [name for name in stored if isinstance(name, str)]  # a range is no column
        self._fields: dict[str, pa.Field] = {}
        for field in sorted(schema, key=lambda field: field.name not in self.index):
            name = field.name
            if name in self.index and re.fullmatch(r"__index_level_\d+__", name):  # it has none
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
        days = column.cast(pa.timestamp("s")) if types.is_date(kind) else column
        return TimeColumn.of(name, pd.DatetimeIndex(days.to_numpy(zero_copy_only=False)), getattr(kind, "tz", None))
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
    """A column of times (N,), NaT where one is missing; to who looks for numbers, they are one word.

    zone: in which the file shows them; they are instants then, in UTC.
    """

    stamps: pd.DatetimeIndex
    zone: str | None

    @classmethod
    def of(cls, name: str, stamps: pd.DatetimeIndex, zone: str | None = None) -> "TimeColumn":
        """A column of these times."""
        codes = 1 + np.asarray(stamps.isna(), dtype=np.int32)
        return cls(name, np.broadcast_to(np.float64(np.nan), len(codes)), codes, ["a time", ""], stamps, zone)

    def cells(self, rows: Iterable[int]) -> list[str]:
        """Some times as text in ISO 8601, with the offset from UTC that a zone has then."""
        stamps = self.stamps[np.fromiter(rows, dtype=np.int64)]
        local = stamps if self.zone is None else stamps.tz_localize("UTC").tz_convert(self.zone)
        return np.where(stamps.isna(), "", local.astype(str)).tolist()

    def take(self, rows: npt.NDArray[np.intp]) -> "TimeColumn":
        """Some rows alone."""
        return self.of(self.name, self.stamps[rows], self.zone)

    def as_words(self) -> RawColumn:
        """The same as text."""
        return RawColumn.of_cells(self.name, pd.Series(self.cells(range(len(self))), dtype=object))
