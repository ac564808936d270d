"""Forecasts in files: of some series each or joined, with a small JSON beside that says of which run they are."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.dataset import dataset
from pydantic import BaseModel

from forecast.data.writing import CSV, ForecastTable, SeriesForecasts
from forecast.documents import DocumentError, read_document
from forecast.errors import UserError
from forecast.files import json_text, together
from forecast.text.terminal import listed

GROUP = 2**17  # rows of a row group: those of a joined file do not tell where its parts began
RunOf = dict[str, Any]  # what all parts of a forecast have alike, and the bits depend on


class ForecastPart(BaseModel):
    """The JSON beside a forecast: shard (i, n): the i-th of n parts, and how many rows it has."""

    run: RunOf
    shard: tuple[int, int]
    rows: int


def beside(path: Path) -> Path:
    """Where the JSON of a forecast lies."""
    return path.with_name(f"{path.name}.json")


def read_part(path: Path) -> ForecastPart | None:
    """What is said of a forecast; None where nothing is, or nothing of this kind."""
    try:
        return read_document(beside(path), ForecastPart)
    except DocumentError:
        return None


def write_rows(path: Path, ending: str, table: ForecastTable, blocks: Iterable[SeriesForecasts]) -> None:
    """Writes forecasts to a path from `forecast.files.together`, as files that end so."""
    if ending == CSV:
        with path.open("w", encoding="utf-8", newline="") as file:
            file.write(table.header_text())
            file.writelines(table.text(some.series, some.values) for some in blocks)
    else:
        write_groups(path, table.schema(), (table.columns(some.series, some.values) for some in blocks))


def write_groups(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Writes rows as Parquet in row groups of GROUP rows, whatever tables they come in."""
    held = schema.empty_table()
    with pq.ParquetWriter(path, schema) as writer:
        for table in tables:
            held = pa.concat_tables([held, table]).combine_chunks()
            while len(held) >= GROUP:
                writer.write_table(held.slice(0, GROUP))
                held = held.slice(GROUP)
        if len(held):
            writer.write_table(held)


def write_joined(output: Path, parts: Sequence[tuple[Path, ForecastPart]]) -> ForecastPart:
    """Writes the rows of all parts of a forecast, in its order, into one file with its JSON.

    However they were parted, of the same rows come the same bytes.
    """
    documents = [part for _, part in parts]
    whole = ForecastPart(run=documents[0].run, shard=(1, 1), rows=sum(part.rows for part in documents))
    with together(output.parent) as place:
        sheet, rows = place(beside(output).name), place(output.name)
        sheet.write_text(json_text(whole.model_dump()), encoding="utf-8")
        if output.suffix == CSV:
            with rows.open("wb") as file:
                for number, (path, _) in enumerate(parts):
                    with path.open("rb") as lines:
                        if number:
                            lines.readline()
                        shutil.copyfileobj(lines, file, 1 << 20)
        else:
            stored = dataset([str(path) for path, _ in parts])
            write_groups(rows, stored.schema, (pa.Table.from_batches([some]) for some in stored.to_batches()))
    return whole


def check_parts(parts: Sequence[tuple[Path, ForecastPart]]) -> list[tuple[Path, ForecastPart]]:
    """The parts of a forecast in its order; UserError unless they are all, each once, of one run."""
    first, first_part = parts[0]
    number = first_part.shard[1]
    for path, part in parts:
        others = [key for key, value in first_part.run.items() if part.run.get(key) != value]
        if others:
            raise UserError(
                f"{path} is no part of the same forecast as {first}, for its {listed(others)} differ. Name parts made "
                "from the same checkpoint, data and settings."
            )
    ordered = sorted(parts, key=lambda pair: pair[1].shard)
    if [part.shard for _, part in ordered] != [(i, number) for i in range(1, number + 1)]:
        raise UserError(
            f"These are the parts {listed('{}/{}'.format(*part.shard) for _, part in ordered)}. Name each of "
            f"1/{number} to {number}/{number} once; forecast predict shard=i/{number} makes one that is missing."
        )
    return ordered
