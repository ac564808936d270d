"""Parquet and Feather files as the text of a CSV file: typed columns become cells that read back as the same values."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import IO, Any

import pandas as pd

PARQUET, FEATHER = b"PAR1", b"ARROW1"
KINDS = {PARQUET: "a Parquet file", FEATHER: "a Feather file"}
_ROWS = 4096  # written at a time: a small file can say one long text a million times
_LONGEST = 40  # characters of the name of a type
UNNAMED = re.compile(r"__index_level_\d+__")  # of an index, as pandas and pyarrow store it
_LINE_ENDS = r"[\r\n]+"


def csv_of_columns(file: IO[bytes], first_bytes: bytes, largest: int) -> Iterator[bytes]:
    """A header and a line for each row, of a file that can be sought in.

    The index of a DataFrame stands first; one of times without a name is called as the time column is by default, one
    of row numbers is left out. Numbers are exact and have no decimal sign, times are ISO 8601 in UTC where they have a
    zone; of a nested value its type is written. What pyarrow raises for a damaged file, also while it is
    read; ValueError for more cells than `largest` bytes of text can have.
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    batches: Iterator[Any]
    if first_bytes.startswith(PARQUET):
        parquet = pa.parquet.ParquetFile(file)
        schema, rows = parquet.schema_arrow, parquet.metadata.num_rows
        batches = parquet.iter_batches(batch_size=_ROWS, use_threads=False)
    else:
        ipc = pa.ipc.open_file(file)
        schema, rows = ipc.schema, 0
        batches = _checked(ipc)
    names, places = columns_of(schema)
    if rows * len(places) > largest:  # as many separators
        raise ValueError(f"it claims {rows} rows of {len(places)} columns")
    yield _line(names)
    without_header = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
    for batch in batches:
        texts = [texts_of(batch.column(place)) for place in places]
        written = io.BytesIO()
        pa.csv.write_csv(pa.RecordBatch.from_arrays(texts, names=list(map(str, places))), written, without_header)
        yield written.getvalue()


def _checked(ipc: Any) -> Iterator[Any]:
    """The batches of a Feather file, some rows at a time; their offsets are those of a stranger."""
    for number in range(ipc.num_record_batches):
        batch = ipc.get_batch(number)
        batch.validate(full=True)
        for start in range(0, batch.num_rows, _ROWS):
            yield batch.slice(start, _ROWS)


def columns_of(schema: Any) -> tuple[list[str], list[int]]:
    """The names of the columns to read and their places, those of the index first."""
    import pyarrow as pa

    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    index = [name for name in stored if isinstance(name, str)]  # a range is no column
    order = sorted(range(len(schema.names)), key=lambda place: schema.names[place] not in index)
    names, places = [], []
    for place in order:
        name, kind = schema.names[place], schema.types[place]
        if name in index and UNNAMED.fullmatch(name):
            if pa.types.is_integer(kind):
                continue
            name = "" if "date" in schema.names else "date"  # as data.time_column has it
        names.append(name)
        places.append(place)
    return names, places


def _line(names: Sequence[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([re.sub(_LINE_ENDS, " ", name) for name in names])
    return line.getvalue().encode()


def texts_of(column: Any) -> Any:
    """The cells of a column, null for a missing one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column, pa.ExtensionArray):
        if column.type.extension_name == "pandas.period":
            return pa.array([None if pd.isna(period) else str(period) for period in column.to_pandas()], pa.string())
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_temporal(kind) and not (pa.types.is_duration(kind) or pa.types.is_interval(kind)):
        return _times(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pc.replace_substring_regex(pc.cast(column, pa.large_string()), _LINE_ENDS, " ")
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _exact(pc.cast(pc.cast(column, pa.float64()) if pa.types.is_floating(kind) else column, pa.string()))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind):
        return pc.cast(column, pa.string())
    return pc.if_else(pc.is_null(column), pa.scalar(None, pa.string()), str(kind)[:_LONGEST])


def _times(column: Any) -> Any:
    """Dates, timestamps and times of day as text; days alone where all are midnight, for a time may stand beside."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_time(kind):
        return _shortest(column, [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")])
    days = pc.cast(column, pa.date32())
    if pa.types.is_date(kind) or (kind.tz is None and pc.all(pc.equal(pc.cast(days, kind), column)).as_py()):
        return pc.cast(days, pa.string())
    zone = None if kind.tz is None else "UTC"
    return _shortest(column, [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns")])


def _shortest(column: Any, kinds: Sequence[Any]) -> Any:
    """Times as text, with no more digits of the second than one of them needs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for kind in kinds[:-1]:
        try:
            return pc.cast(pc.cast(column, kind), pa.string())
        except pa.ArrowInvalid:  # it would lose digits
            continue
    return pc.cast(pc.cast(column, kinds[-1]), pa.string())


def _exact(texts: Any) -> Any:
    """Numbers without a decimal sign: 1.25 as 125e-2, which says the same whatever sign the file's texts have."""
    import pyarrow as pa
    import pyarrow.compute as pc

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
