"""Parquet and Feather files: their columns of numbers, text and times, and what is to be said of others."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from pyarrow import types

from forecast.data.findings import Findings
from forecast.data.reading.raw_columns import RawColumn, TypedTable
from forecast.errors import UserError
from forecast.text.terminal import label

PARQUET, FEATHER = b"PAR1", b"ARROW1"
KINDS = {PARQUET: "a Parquet file", FEATHER: "a Feather file"}
_CELL = 8  # bytes
_LONGEST = 40  # characters of the name of a type
UNNAMED = re.compile(r"__index_level_\d+__")  # of an index, as pandas and pyarrow store it


def columnar_table(content: bytes, first_bytes: bytes, largest: int, findings: Findings) -> TypedTable:
    """The cells of a file, and a line on the columns that hold neither numbers, text nor times.

    The index of a DataFrame stands first; one of times without a name is called as the time column is by default, one
    of row numbers is left out. What pyarrow raises for a damaged file; ValueError for more than `largest` bytes.
    """
    schema, parts = _opened(pa.BufferReader(content), first_bytes, largest)
    names, places = columns_of(schema)
    kinds = {place: schema.field(place).type for place in places}
    unread = {name: what for name, place in zip(names, places, strict=True) if (what := unread_type(kinds[place]))}
    rows, columns = parts(tuple(place for name, place in zip(names, places, strict=True) if name not in unread))
    read: list[RawColumn] = []
    for name, place in zip(names, places, strict=True):
        if name in unread:
            continue
        try:
            read.append(raw_column(name, columns[place]))
        except NotText as error:
            unread[name] = not_text(kinds[place], error.cell)
    left_out = [(name, kinds[place]) for name, place in zip(names, places, strict=True) if name in unread]
    if left_out:
        some = ", ".join(f"{label(name)} ({type_name(kind)})" for name, kind in left_out)
        findings.say(f"Left out, as they hold neither numbers, text nor times: {some}.")
    return TypedTable(KINDS[first_bytes], read, range(2, rows + 2), unread=unread).without_blank_rows()


_Parts = Callable[[Sequence[int]], tuple[int, Mapping[int, pa.Array]]]


def _opened(file: pa.BufferReader, first_bytes: bytes, largest: int) -> tuple[pa.Schema, _Parts]:
    """The schema of a file, and what reads its rows: how many they are, and some columns by their places."""

    def check(rows: int, columns: int) -> None:
        if rows * columns * _CELL > largest:
            raise ValueError(f"it claims {rows} rows of {columns} columns")

    def of_parquet(places: Sequence[int]) -> tuple[int, Mapping[int, pa.Array]]:
        check(parquet.metadata.num_rows, len(places))
        names = {schema.field(place).name for place in places}
        every = [place for place, name in enumerate(schema.names) if name in names]
        # One text may stand in a million rows: it is held once.
        texts = [field.name for field in map(schema.field, every) if is_text(field.type) or is_bytes(field.type)]
        stored = pa.parquet.ParquetFile(file, read_dictionary=texts)
        table = stored.read(list(dict.fromkeys(schema.field(place).name for place in every)))
        return table.num_rows, {place: table.column(every.index(place)).combine_chunks() for place in places}

    def of_feather(places: Sequence[int]) -> tuple[int, Mapping[int, pa.Array]]:
        rows = 0
        columns: dict[int, list[pa.Array]] = {place: [] for place in places}
        for number in range(ipc.num_record_batches):
            batch = ipc.get_batch(number)
            batch.validate(full=True)  # its offsets are those of a stranger
            rows += batch.num_rows
            check(rows, len(places))
            for place, chunks in columns.items():
                chunks.append(batch.column(place))
        return rows, {
            place: pa.chunked_array(chunks, schema.field(place).type).combine_chunks()
            for place, chunks in columns.items()
        }

    if first_bytes == PARQUET:
        parquet = pa.parquet.ParquetFile(file)
        schema = parquet.schema_arrow
        return schema, of_parquet
    ipc = pa.ipc.open_file(file)
    schema = ipc.schema
    return schema, of_feather


def raw_column(name: str, column: pa.Array) -> RawColumn:
    """The cells of a column, as a `TypedTable` has them. Raises NotText."""
    if isinstance(column, pa.ChunkedArray):  # of no chunks
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    column = plain(column)
    if isinstance(column, pa.ExtensionArray) and column.type.extension_name != "pandas.period":
        column = plain(column.storage)
    if isinstance(column, pa.DictionaryArray) and not is_text(column.type.value_type):
        column = column.dictionary_decode()
    kind = column.type
    if types.is_timestamp(kind) or types.is_date(kind):
        return TimeColumn(name, column)
    if types.is_floating(kind) or (types.is_integer(kind) and _is_exact(column)):
        return RawColumn.of_numbers(name, column.cast(pa.float64()).to_numpy(zero_copy_only=False))
    if types.is_decimal(kind):  # a cast would not be right to the last bit
        return RawColumn.of_numbers(name, column.cast(pa.string()).cast(pa.float64()).to_numpy(zero_copy_only=False))
    return _of_words(name, column)


def _is_exact(column: pa.Array) -> bool:
    """Whether all whole numbers of a column are floats."""
    ends = pc.min_max(column).as_py()
    return all(end is None or abs(end) <= 1 << 53 for end in ends.values())


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
        if key not in ("numbers", "decimals", "commas", "codes", "words"):
            raise AttributeError(key)
        vars(self).update(vars(_of_words(self.name, self.times)))
        return vars(self)[key]

    @property
    def stamps(self) -> pd.DatetimeIndex | None:
        """The times (N,), NaT for a missing one; None for those of a zone."""
        times = self.times.cast(pa.timestamp("s")) if types.is_date(self.times.type) else self.times
        stamps: pd.DatetimeIndex = pd.DatetimeIndex(times.to_numpy(zero_copy_only=False))
        return None if times.type.tz else stamps

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

    def with_numbers(self) -> RawColumn:
        """Itself: times are no numbers."""
        return self

    def as_words(self) -> RawColumn:
        """Itself: all times are words."""
        return self


class NotText(ValueError):
    """A column of bytes holds something else than text in UTF-8. cell: the number of the first such one."""

    def __init__(self, cell: int) -> None:
        super().__init__(f"cell {cell} is no text")
        self.cell = cell


def unread_type(kind: pa.DataType) -> str | None:
    """What is to be said of a type that holds neither numbers, text nor times; None for one that does."""
    inner = kind
    if hasattr(inner, "extension_name"):
        inner = inner.storage_type
    if types.is_dictionary(inner):
        inner = inner.value_type
    numbers = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    times = (types.is_timestamp, types.is_date, types.is_time)
    if is_text(inner) or is_bytes(inner) or any(check(inner) for check in (*numbers, *times)):
        return None
    return f"is of the type {type_name(kind)}, which holds neither numbers, text nor times"


def type_name(kind: pa.DataType) -> str:
    """The name of a type, not too long for a message."""
    return label(str(kind), _LONGEST)


def not_text(kind: pa.DataType, row: int) -> str:
    """What is to be said of a column whose cell in a row, from 0, is no text."""
    return f"is of the type {type_name(kind)}, and row {row + 1} holds other bytes than text in UTF-8"


def unread_column(path: object, name: str, what: str) -> UserError:
    """The error for a column that cannot be read, and is to be. what: of `unread_type` or `not_text`."""
    return UserError(
        f"{path}: the column '{label(name)}' {what}. Store it as numbers, text or times, or name another column."
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of text."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether a type is one of bytes: Spark, Impala and Hive write text so, without the mark that it is text."""
    checks = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    return any(check(kind) for check in checks)


def holds_bytes(kind: pa.DataType) -> bool:
    """Whether cells of a type are bytes, also as those of a dictionary or an extension."""
    inner = kind.storage_type if hasattr(kind, "extension_name") else kind
    return is_bytes(getattr(inner, "value_type", inner))


def plain(column: pa.Array) -> pa.Array:
    """A column whose bytes are text, and without types that pyarrow computes little with. Raises NotText."""
    if holds_bytes(column.type):
        column = column.storage if isinstance(column, pa.ExtensionArray) else column
        if isinstance(column, pa.DictionaryArray):
            try:
                words = plain(column.dictionary)
            except NotText:  # perhaps in no row
                return plain(column.dictionary_decode())
            return pa.DictionaryArray.from_arrays(column.indices, words)
        column = pc.cast(column, pa.large_binary())
        try:
            column = pc.cast(column, pa.large_string())
        except pa.ArrowInvalid:
            raise NotText(next(i for i, cell in enumerate(column.to_pylist()) if not _is_text(cell))) from None
        if pc.any(nul := pc.match_substring(column, "\0")).as_py():
            raise NotText(nul.to_pylist().index(True))
        return column
    if is_text(column.type) and pa.types.is_string_view(column.type):
        return pc.cast(column, pa.large_string())
    return pc.cast(column, pa.float32()) if pa.types.is_float16(column.type) else column


def _is_text(cell: bytes | None) -> bool:
    try:
        return "\0" not in (cell or b"").decode()
    except UnicodeDecodeError:
        return False


def columns_of(schema: pa.Schema) -> tuple[list[str], list[int]]:
    """The names of the columns to read and their places, those of the index first."""
    index, all_names = {*index_columns(schema)}, schema.names  # a list that Arrow makes anew each time
    order = sorted(range(len(all_names)), key=lambda place: all_names[place] not in index)
    names, places = [], []
    for place in order:
        name, kind = all_names[place], schema.field(place).type
        if name in index and UNNAMED.fullmatch(name):
            if pa.types.is_integer(kind):
                continue
            name = "" if "date" in all_names else "date"  # as data.time_column has it
        names.append(name)
        places.append(place)
    return names, places


def index_columns(schema: pa.Schema) -> list[str]:
    """The columns that were the index of a DataFrame; none where no DataFrame was, or its metadata are damaged."""
    try:
        stored = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        return [name for name in stored if isinstance(name, str)]  # a range is no column
    except (ValueError, LookupError, TypeError, RecursionError):
        return []


def texts_of(column: pa.Array) -> pa.Array:
    """The cells of a column, null for a missing one; see `unread_type` and `plain` for what has none."""
    column = plain(column)
    if isinstance(column, pa.ExtensionArray):
        if column.type.extension_name == "pandas.period":
            return pa.array([None if pd.isna(period) else str(period) for period in column.to_pandas()], pa.string())
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_temporal(kind):
        return _times(column)
    if is_text(kind):
        return pc.replace_substring_regex(pc.cast(column, pa.large_string()), r"[\r\n]+", " ")
    return pc.cast(pc.cast(column, pa.float64()) if pa.types.is_floating(kind) else column, pa.string())


def _times(column: pa.Array) -> pa.Array:
    """Dates, timestamps and times of day as text; days alone where all are midnight, for a time may stand beside."""
    kind = column.type
    if pa.types.is_time(kind):
        return _shortest(column, [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")])
    days = pc.cast(column, pa.date32())
    if pa.types.is_date(kind) or (kind.tz is None and pc.all(pc.equal(pc.cast(days, kind), column)).as_py()):
        return pc.cast(days, pa.string())
    zone = None if kind.tz is None else "UTC"
    kinds = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns")]
    if kind.tz in (None, "UTC"):
        return _shortest(column, kinds)
    # By its own clock, with the offset from UTC: a midnight there is a day, and forecasts are written alike.
    local = pc.local_timestamp(column)
    since = pc.cast(
        pc.subtract(pc.cast(local, pa.timestamp("s", "UTC"), safe=False), pc.cast(column, kinds[0], safe=False)),
        pa.int64(),
    )
    offsets = pc.dictionary_encode(since)
    seconds = offsets.dictionary.to_pylist()
    if any(second is None or second % 60 for second in seconds):  # of clocks before there were zones
        return _shortest(column, kinds)
    words = [f"{'-' if s < 0 else '+'}{abs(s) // 3600:02}:{abs(s) % 3600 // 60:02}" for s in seconds]
    texts = _shortest(local, [pa.timestamp(known.unit) for known in kinds])
    return pc.binary_join_element_wise(texts, pc.take(pa.array(words, pa.string()), offsets.indices), "")


def _shortest(column: pa.Array, kinds: Sequence[pa.DataType]) -> pa.Array:
    """Times as text, with no more digits of the second than one of them needs."""
    for kind in kinds[:-1]:
        try:
            return pc.cast(pc.cast(column, kind), pa.string())
        except pa.ArrowInvalid:  # it would lose digits
            continue
    return pc.cast(pc.cast(column, kinds[-1]), pa.string())
