"""Parquet and Feather files: their columns of numbers, text and times, and what is to be said of others."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from pyarrow import types

from forecast.data.reading.raw_columns import RawColumn, TypedTable
from forecast.data.reading.timestamps import TimeReading, typed_timestamps
from forecast.errors import UserError
from forecast.text.terminal import label

PARQUET, FEATHER = b"PAR1", b"ARROW1"
KINDS = {PARQUET: "a Parquet file", FEATHER: "a Feather file"}
_NUMBERS = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
_LONGEST = 40  # characters of the name of a type
UNNAMED = re.compile(r"__index_level_\d+__")  # of an index, as pandas and pyarrow store it


def columnar_kind(path: Path) -> bytes | None:
    """The first bytes of a Parquet or Feather file; None for others, and for what cannot be read."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            beginning = file.read(8)
    except OSError:
        return None
    return next((kind for kind in KINDS if beginning.startswith(kind)), None)


class ColumnarFile:
    """A file of typed columns.

    kinds: the types of its columns by the names under which they are read, the index of a DataFrame first; one of times
    without a name is called as the time column is by default, one of row numbers is left out. index: the columns that
    number the rows. unread: of columns with nothing in them that can be read what a message says of them, by name.
    What pyarrow raises for a damaged file, here and in `tables`.
    """

    def __init__(self, file: pa.NativeFile, first_bytes: bytes) -> None:
        self._file, self._kind = file, first_bytes
        self._stored = pa.parquet.ParquetFile(file) if first_bytes == PARQUET else pa.ipc.open_file(file)
        self._schema = self._stored.schema_arrow if first_bytes == PARQUET else self._stored.schema
        self._stored_names = columns_of(self._schema)
        self.kinds = {name: self._schema.field(stored).type for name, stored in self._stored_names.items()}
        self.unread = {name: reason for name, kind in self.kinds.items() if (reason := unread_type(kind))}
        self.index = index_columns(self._schema)

    def tables(self, rows: int | None = None) -> Iterator[TypedTable]:
        """Its cells, so many rows at a time, None: all."""
        first, names = 2, [name for name in self.kinds if name not in self.unread]
        stored = [self._stored_names[name] for name in names]
        for part in self._parts(rows, stored):
            read = [raw_column(name, column) for name, column in zip(names, part.select(stored).columns, strict=True)]
            lines = range(first, first + part.num_rows)
            yield TypedTable(KINDS[self._kind], read, lines, index=self.index, unread=self.unread).without_blank_rows()
            first += part.num_rows

    def _parts(self, rows: int | None, names: Sequence[str]) -> Iterable[pa.RecordBatch | pa.Table]:
        """Some rows at a time, these columns among theirs."""
        if self._kind == PARQUET:
            # One text may stand in a million rows: it is held once.
            texts = [name for name in names if is_text(self._schema.field(name).type)]
            parquet = pa.parquet.ParquetFile(self._file, read_dictionary=texts)
            return [parquet.read(names)] if rows is None else parquet.iter_batches(rows, columns=names)
        table = self._stored.read_all()
        table.validate(full=True)  # offsets of a damaged file would be read beyond its memory
        return [table] if rows is None else table.to_batches(max_chunksize=rows)


def raw_column(name: str, column: pa.Array | pa.ChunkedArray) -> RawColumn:
    """The cells of a column, as a `TypedTable` has them."""
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    column = plain(column)
    if isinstance(column, pa.ExtensionArray) and column.type.extension_name != "pandas.period":
        column = plain(column.storage)
    if isinstance(column, pa.DictionaryArray) and not is_text(column.type.value_type):
        column = column.dictionary_decode()
    kind = column.type
    if is_time(kind):
        return TimeColumn(name, column)
    whole = [abs(end or 0) for end in pc.min_max(column).as_py().values()] if types.is_integer(kind) else []
    if types.is_floating(kind) or (whole and max(whole) <= 1 << 53):  # of which each is a float
        return RawColumn.of_numbers(name, column.cast(pa.float64()).to_numpy(zero_copy_only=False))
    if types.is_decimal(kind):  # a cast would not be right to the last bit
        return RawColumn.of_numbers(name, column.cast(pa.string()).cast(pa.float64()).to_numpy(zero_copy_only=False))
    return _of_words(name, column)


def _of_words(name: str, column: pa.Array) -> RawColumn:
    if not isinstance(column, pa.DictionaryArray):
        simple = texts_of(column) if isinstance(column, pa.ExtensionArray) else column
        column = pc.dictionary_encode(simple)
    words = [word or "" for word in texts_of(column.dictionary).to_pylist()]
    codes = pc.fill_null(column.indices.cast(pa.int64()), len(words)).to_numpy(zero_copy_only=False)
    return RawColumn.of_words(name, codes, [*words, ""])


class TimeColumn(RawColumn):
    """A column of dates or timestamps, of pyarrow; they are text as soon as someone asks for it."""

    times: pa.Array

    def __init__(self, name: str, times: pa.Array) -> None:
        vars(self).update(name=name, times=times)

    def __len__(self) -> int:
        return len(self.times)

    def __getattr__(self, key: str) -> object:
        if key not in ("numbers", "codes", "words"):
            raise AttributeError(key)
        vars(self).update(vars(_of_words(self.name, self.times)))
        return vars(self)[key]

    @property
    def is_time(self) -> bool:
        """True."""
        return True

    def reading(self, time_zone: str | None) -> TimeReading:
        """Its times, as `read_timestamps` reads their text."""
        return typed_timestamps(stamps_of(self.times), time_zone, getattr(self.times.type, "tz", None))

    @property
    def blank(self) -> npt.NDArray[np.bool_]:
        """(N,) or (): which times are missing."""
        return np.asarray(self.times.is_null() if self.times.null_count else False)

    def cells(self, rows: Iterable[int]) -> list[str]:
        """Some times as text in ISO 8601, with the offset from UTC that a zone has then."""
        return [text or "" for text in texts_of(self.times.take(pa.array(rows, pa.int64()))).to_pylist()]

    def take(self, rows: npt.NDArray[np.intp]) -> "TimeColumn":
        """Some rows alone."""
        return TimeColumn(self.name, self.times.take(pa.array(rows)))

    def as_words(self) -> RawColumn:
        """Itself: all times are words."""
        return self


def unread_type(kind: pa.DataType) -> str | None:
    """What is to be said of a type that holds neither numbers, text nor times; None for one that does."""
    inner = kind
    if hasattr(inner, "extension_name"):
        inner = inner.storage_type
    if types.is_dictionary(inner):
        inner = inner.value_type
    if is_text(inner) or is_number(inner) or is_time(inner) or types.is_time(inner):
        return None
    return f"is of the type {type_name(kind)}, which holds neither numbers, text nor times"


def type_name(kind: pa.DataType) -> str:
    """The name of a type, not too long for a message."""
    return label(str(kind), _LONGEST)


def unread_column(path: object, name: str, reason: str) -> UserError:
    """The error for a column that cannot be read, and is to be. reason: of `unread_type`."""
    return UserError(
        f"{path}: the column '{label(name)}' {reason}. Store it as numbers, text or times, or name another column."
    )


def is_time(kind: pa.DataType) -> bool:
    """Whether a type is one of dates or timestamps."""
    return bool(types.is_timestamp(kind) or types.is_date(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is one of numbers, or of true and false."""
    return any(check(kind) for check in _NUMBERS)


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of text."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def plain(column: pa.Array) -> pa.Array:
    """A column without types that pyarrow computes little with."""
    if types.is_string_view(column.type):
        return pc.cast(column, pa.large_string())
    return pc.cast(column, pa.float32()) if types.is_float16(column.type) else column


def columns_of(schema: pa.Schema) -> dict[str, str]:
    """The columns to read, those of the index first: what each is called, and as what it is stored."""
    index, names = index_columns(schema), {}
    for stored in sorted(schema.names, key=lambda name: name not in index):
        kind, name = schema.field(stored).type, stored
        if name in index and UNNAMED.fullmatch(name):
            if pa.types.is_integer(kind):
                continue
            others = {"date"} if is_time(kind) else {"date", "ds", "timestamp"}
            name = "" if others.intersection(schema.names) else "date"  # as data.time_column has it
        names[name] = stored
    return names


def index_columns(schema: pa.Schema) -> list[str]:
    """The columns that were the index of a DataFrame; none where no DataFrame was, or its metadata are damaged."""
    try:
        stored = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        return [name for name in stored if isinstance(name, str)]  # a range is no column
    except (ValueError, LookupError, TypeError, RecursionError):
        return []


def texts_of(column: pa.Array) -> pa.Array:
    """The cells of a column of numbers, text or times as text, null for a missing one."""
    column = plain(column)
    if isinstance(column, pa.ExtensionArray):
        if column.type.extension_name == "pandas.period":
            return pa.array([None if pd.isna(period) else str(period) for period in column.to_pandas()], pa.string())
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_time(kind):
        return pa.array([None if time is None else str(time) for time in column.to_pylist()], pa.string())
    if is_time(kind):  # days alone where all are midnight, for a time may stand beside
        stamps, zone = stamps_of(column), getattr(kind, "tz", None)
        stamps = stamps if zone is None else stamps.tz_localize("UTC").tz_convert(zone)
        texts = stamps.astype(str).to_numpy(dtype=object)
        return pa.array(texts, pa.string(), mask=np.asarray(stamps.isna()))  # pandas 2 writes NaT
    if is_text(kind):
        return pc.replace_substring_regex(pc.cast(column, pa.large_string()), r"[\r\n]+", " ")
    return pc.cast(pc.cast(column, pa.float64()) if pa.types.is_floating(kind) else column, pa.string())


def stamps_of(column: pa.Array) -> pd.DatetimeIndex:
    """Dates or timestamps, in UTC where they are instants."""
    times = column.cast(pa.timestamp("s")) if types.is_date(column.type) else column
    return pd.DatetimeIndex(times.to_numpy(zero_copy_only=False))
