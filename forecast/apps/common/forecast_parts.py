"""A forecast in parts, of some series each, and joined: a small JSON beside each file says of which run it is."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.dataset import dataset
from pydantic import BaseModel

from forecast.data.writing import CSV, write_groups
from forecast.documents import read_document
from forecast.errors import UserError
from forecast.files import json_text, together
from forecast.text.terminal import listed

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
    """What is said of a forecast; None where nothing is."""
    return read_document(beside(path), ForecastPart)


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
                        file.writelines(islice(lines, int(number > 0), None))
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
