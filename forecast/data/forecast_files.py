"""Forecasts in files: of some series each or joined, with a small JSON beside that says of which run they are."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from forecast.data.catalog import file_md5
from forecast.data.writing import CSV, FarSeries, ForecastTable, SeriesForecasts, all_far
from forecast.documents import DocumentError, read_document
from forecast.errors import UserError
from forecast.files import json_text, together
from forecast.text.terminal import label, listed

GROUP = 2**17  # rows of a row group: those of a joined file do not tell where its parts began
RunOf = dict[str, Any]  # what all parts of a forecast have alike, and the bits depend on


class ForecastPart(BaseModel):
    """The JSON beside a forecast.

    shard (i, n): the i-th of n. first, stop: of the series that the run forecasts. head: the bytes of the first line of
    a CSV. far: which of them the model has seen nothing like.
    """

    kind: Literal["forecast of a panel"] = "forecast of a panel"
    run: RunOf
    shard: tuple[int, int]
    first: int
    stop: int
    rows: int
    head: int
    far: FarSeries
    md5: str

    @property
    def whole(self) -> bool:
        """Whether it holds all series."""
        return (self.first, self.stop) == (0, self.run["series"])

    def text(self) -> str:
        """The JSON."""
        return json_text(self.model_dump())


def beside(path: Path) -> Path:
    """Where the JSON of a forecast lies."""
    return path.with_name(f"{path.name}.json")


def read_part(path: Path) -> ForecastPart | None:
    """What is said of a forecast; None where nothing is, or nothing of this kind."""
    try:
        return read_document(beside(path), ForecastPart)
    except DocumentError:
        return None


def is_unchanged(path: Path, part: ForecastPart) -> bool:
    """Whether a forecast is still what it was when its JSON was written."""
    return path.is_file() and file_md5(path) == part.md5


def write_rows(path: Path, ending: str, table: ForecastTable, ends: Iterable[SeriesForecasts]) -> FarSeries:
    """Writes forecasts to a path from `forecast.files.together`, as files that end so; returns which are far."""
    far: list[FarSeries] = []

    def noted() -> Iterator[SeriesForecasts]:
        for some in ends:
            far.append(some.far)
            yield some

    if ending == CSV:
        with path.open("w", encoding="utf-8", newline="") as file:
            file.write(table.header_text())
            file.writelines(table.text(some.series, some.values) for some in noted())
    else:
        with path.open("wb") as raw:
            write_groups(raw, table.schema(), (table.columns(some.series, some.values) for some in noted()))
    return all_far(far)


def write_groups(file: IO[bytes], schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Writes rows as Parquet in row groups of GROUP rows, whatever tables they come in."""
    held: list[pa.Table] = []
    with pq.ParquetWriter(file, schema) as writer:
        for table in tables:
            held.append(table)
            while sum(map(len, held)) >= GROUP:
                whole = pa.concat_tables(held).combine_chunks()
                writer.write_table(whole.slice(0, GROUP))
                held = [whole.slice(GROUP)]
        if sum(map(len, held)):
            writer.write_table(pa.concat_tables(held).combine_chunks())


def join(path: Path, ending: str, parts: Sequence[tuple[Path, ForecastPart]]) -> None:
    """Writes the rows of parts, in their order, to a path from `together`: however they were parted, of the same rows
    come the same bytes.
    """
    with path.open("wb") as file:
        if ending != CSV:
            write_groups(file, pq.read_schema(parts[0][0]), tables_of(part_path for part_path, _ in parts))
            return
        for number, (part_path, part) in enumerate(parts):
            with part_path.open("rb") as rows:
                rows.seek(part.head if number else 0)
                shutil.copyfileobj(rows, file, 1 << 20)


def tables_of(paths: Iterable[Path]) -> Iterator[pa.Table]:
    """The rows of Parquet files, one after another."""
    for path in paths:
        with pq.ParquetFile(path) as part:
            for batch in part.iter_batches(batch_size=GROUP):
                yield pa.Table.from_batches([batch])


def write_joined(output: Path, parts: Sequence[tuple[Path, ForecastPart]]) -> ForecastPart:
    """Writes the rows of all parts of a forecast, in its order, into one file with its JSON."""
    with together(output.parent) as place:
        sheet, rows = place(beside(output).name), place(output.name)
        join(rows, output.suffix, parts)
        run = parts[0][1].run
        whole = ForecastPart(
            run=run,
            shard=(1, 1),
            first=0,
            stop=run["series"],
            rows=sum(part.rows for _, part in parts),
            head=parts[0][1].head,
            far=all_far(part.far for _, part in parts),
            md5=file_md5(rows),
        )
        sheet.write_text(whole.text(), encoding="utf-8")
    return whole


def check_parts(parts: Sequence[tuple[Path, ForecastPart]]) -> list[tuple[Path, ForecastPart]]:
    """The parts of a forecast in its order; UserError unless they are all, each once, of one run."""
    first, first_part = parts[0]
    number = first_part.shard[1]
    for path, part in parts:
        for key, expected in first_part.run.items():
            actual = part.run.get(key)
            if expected != actual:
                raise UserError(
                    f"{path} is no part of the same forecast as {first}: its {key} is {label(str(actual))}, there "
                    f"{label(str(expected))}. Name parts made from the same checkpoint, data and settings."
                )
        if not is_unchanged(path, part):
            raise UserError(f"{path} is not what it was when {beside(path).name} was written. Make the part anew.")
    ordered = sorted(parts, key=lambda pair: pair[1].shard)
    if [part.shard for _, part in ordered] != [(i, number) for i in range(1, number + 1)]:
        raise UserError(
            f"These are the parts {listed('{}/{}'.format(*part.shard) for _, part in ordered)}. Name each of "
            f"1/{number} to {number}/{number} once; forecast predict shard=i/{number} makes one that is missing."
        )
    return ordered
