"""What a Parquet or Feather file says of itself: its kind, its columns."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from forecast.data.reading.columnar import FEATHER, PARQUET, UNNAMED, columns_of


def columnar_kind(path: Path) -> bytes | None:
    """The first bytes of a Parquet or Feather file; None for others, and for what cannot be read."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            beginning = file.read(8)
    except OSError:
        return None
    return next((kind for kind in (PARQUET, FEATHER) if beginning.startswith(kind)), None)


def schema_of(path: Path, kind: bytes) -> pa.Schema:
    """Of pyarrow; what it raises for a damaged file."""
    if kind == PARQUET:
        with pa.parquet.ParquetFile(path) as parquet:
            return parquet.schema_arrow
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).schema


def known_columns(schema: pa.Schema) -> tuple[list[str], list[int]]:
    """The names of the columns and their places in the schema, less a stored index without a name that is no time."""
    header, places = columns_of(schema)
    kept = [
        number
        for number, place in enumerate(places)
        if not UNNAMED.fullmatch(schema.field(place).name) or pa.types.is_timestamp(schema.field(place).type)
    ]
    return [header[number] for number in kept], [places[number] for number in kept]
