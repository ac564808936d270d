"""Parquet and Feather files as the text of a CSV file: typed columns become cells that read back as the same values."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import IO

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from pyarrow import types

from forecast.errors import UserError
from forecast.text.terminal import label

PARQUET, FEATHER = b"PAR1", b"ARROW1"
KINDS = {PARQUET: "a Parquet file", FEATHER: "a Feather file"}
_ROWS = 4096  # written at a time: a small file can say one long text a million times
_LONGEST = 40  # characters of the name of a type
UNNAMED = re.compile(r"__index_level_\d+__")  # of an index, as pandas and pyarrow store it
_LINE_ENDS = r"[\r\n]+"


class ColumnarText:
    """A file of typed columns that can be sought in, as CSV.

    unread: of columns that hold neither numbers, text nor times what a message says of them, by their names; these are
    left out of the text. left_out: a line that says so, "" without any. What pyarrow raises for a damaged file.
    """

    def __init__(self, file: IO[bytes], first_bytes: bytes) -> None:

        self._file: pa.parquet.ParquetFile | pa.RecordBatchFileReader
        if first_bytes.startswith(PARQUET):
            self._file = pa.parquet.ParquetFile(file)
            schema, self._rows = self._file.schema_arrow, self._file.metadata.num_rows
        else:
            self._file = pa.ipc.open_file(file)
            schema, self._rows = self._file.schema, 0
        self._names, self._places = columns_of(schema)
        kinds = [schema.field(place).type for place in self._places]
        columns = list(zip(self._names, self._places, kinds, strict=True))
        self.unread = {name: what for name, _, kind in columns if (what := unread_type(kind))}
        of_bytes = {place: name for name, place, kind in columns if name not in self.unread and holds_bytes(kind)}
        self.unread |= self._not_text(of_bytes)
        types = ", ".join(f"{label(name)} ({type_name(kind)})" for name, _, kind in columns if name in self.unread)
        self.left_out = f"Left out, as they hold neither numbers, text nor times: {types}." if types else ""

    def _not_text(self, names: dict[int, str]) -> dict[str, str]:
        """Those of some columns of bytes that hold other bytes than text. names: by place."""
        found: dict[str, str] = {}
        row = 0
        for batch in self._batches() if names else ():
            for place, name in names.items():
                try:
                    plain(batch.column(place))
                except NotText as error:
                    found.setdefault(name, not_text(batch.column(place).type, row + error.cell))
            row += batch.num_rows
        return found

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if hasattr(self._file, "iter_batches"):
            return iter(self._file.iter_batches(batch_size=_ROWS, use_threads=False))
        return _checked(self._file)

    def csv(self, largest: int) -> Iterator[bytes]:
        """A header and a line for each row.

        The index of a DataFrame stands first; one of times without a name is called as the time column is by default,
        one of row numbers is left out. Numbers are exact and have no decimal sign, times are ISO 8601 in UTC where they
        have a zone. What pyarrow raises for a damaged file, also while it is read; ValueError for more cells than
        `largest` bytes of text can have.
        """
        read = [(n, place) for n, place in zip(self._names, self._places, strict=True) if n not in self.unread]
        names, places = [name for name, _ in read], [place for _, place in read]
        if self._rows * len(places) > largest:  # as many separators
            raise ValueError(f"it claims {self._rows} rows of {len(places)} columns")
        yield _line(names)
        without_header = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
        for batch in self._batches():
            texts = [texts_of(batch.column(place)) for place in places]
            written = io.BytesIO()
            pa.csv.write_csv(pa.RecordBatch.from_arrays(texts, names=list(map(str, places))), written, without_header)
            yield written.getvalue()


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


def _checked(ipc: pa.RecordBatchFileReader) -> Iterator[pa.RecordBatch]:
    """The batches of a Feather file, some rows at a time; their offsets are those of a stranger."""
    for number in range(ipc.num_record_batches):
        batch = ipc.get_batch(number)
        batch.validate(full=True)
        for start in range(0, batch.num_rows, _ROWS):
            yield batch.slice(start, _ROWS)


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


def _line(names: Sequence[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([re.sub(_LINE_ENDS, " ", name) for name in names])
    return line.getvalue().encode()


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
        return pc.replace_substring_regex(pc.cast(column, pa.large_string()), _LINE_ENDS, " ")
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _exact(pc.cast(pc.cast(column, pa.float64()) if pa.types.is_floating(kind) else column, pa.string()))
    return pc.cast(column, pa.string())


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


def _exact(texts: pa.Array) -> pa.Array:
    """Numbers without a decimal sign: 1.25 as 125e-2, which says the same whatever sign the file's texts have."""
    point = pc.find_substring(texts, ".")
    decimals = pc.subtract(pc.subtract(pc.utf8_length(texts), point), 1)
    digits = pc.replace_substring(texts, ".", "")
    plain = pc.binary_join_element_wise(digits, pc.cast(decimals, pa.string()), "e-")
    moved = pc.if_else(pc.less(point, 0), texts, plain)
    powers = pc.and_(pc.greater_equal(point, 0), pc.match_substring_regex(texts, "[eE]"))
    if not pc.any(powers).as_py():
        return moved
    rare = [without_sign(text) for text in pc.filter(texts, powers).to_pylist()]
    return pc.replace_with_mask(moved, pc.fill_null(powers, False), pa.array(rare, pa.string()))


def without_sign(number: str) -> str:
    """A decimal number without a sign before its decimals: 1.5e-7 as 15e-8."""
    mantissa, _, power = number.lower().partition("e")
    whole, point, decimals = mantissa.partition(".")
    return f"{whole}{decimals}e{int(power or 0) - len(decimals)}" if point else number
