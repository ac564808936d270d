"""What `forecast split-table` does: the panel that a checkpoint reads, as Parquet files that each hold whole series."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from forecast.apps.common.continuation import continuation_of, forecast_table, history_source
from forecast.apps.common.inputs import rows_of, trained_source
from forecast.apps.common.scoring import series_of
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.schema import parameters
from forecast.config.settings import typed_settings
from forecast.data.reading.layout import Layout
from forecast.data.roles import HOLIDAY
from forecast.data.sources import CsvSource
from forecast.data.values.cells import FloatArray
from forecast.data.writing import ForecastTable
from forecast.errors import UserError
from forecast.files import together
from forecast.text.overrides import typed
from forecast.text.terminal import say

UNSEEN = "another value"  # in place of words that the training did not see


def main(arguments: argparse.Namespace) -> None:
    """Writes the files, in the order of the panel."""
    checkpoint, folder = load_checkpoint(arguments.checkpoint), arguments.output
    names = (*(key.name for key in fields(Layout)), "path")
    known = {name: parameters(CsvSource)[name].annotation for name in names} | {"root": str}
    reading = typed_settings(arguments.settings, "data", known)
    table, source = panel_of(checkpoint, reading)
    edges = file_edges(checkpoint, table, arguments.files)
    try:
        folder.mkdir(exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"--output {folder}: the folder is not empty. Choose a new one")
        with together(folder) as place:
            for number, (first, stop) in enumerate(pairwise(edges)):
                with place(f"{number:06}.parquet").open("wb") as file:
                    pq.write_table(history(table, source, first, stop), file)
    except OSError as error:
        raise UserError(f"--output {folder}: {error.filename} cannot be written: {error.strerror}") from error
    words = [typed("ckpt_path", str(checkpoint.path)), typed("data.path", str(folder))]
    words += [f"data.{key}=null" for key in ("time_format", "time_zone") if getattr(source, key) is not None]
    count = len(edges) - 1
    say(f"{len(table.frame)} series are in {count} files in {folder}: forecast predict engine=ray {' '.join(words)}")


def panel_of(checkpoint: Checkpoint, settings: Mapping[str, object]) -> tuple[ForecastTable, CsvSource]:
    """A panel and how its columns are named and typed, and where it comes from. UserError where it is no long table.

    settings: where the data lie, and how they differ from those trained on.
    """
    path, root = (None if (place := settings.get(name)) is None else str(place) for name in ("path", "root"))
    reading = {key: value for key, value in settings.items() if key not in ("path", "root")}
    trained = trained_source(checkpoint, root=root)
    source = history_source(checkpoint, trained, path, reading)
    if not isinstance(source, CsvSource) or source.panel_form != "long" or source.static_path is not None:
        lack = "a file of facts" if getattr(source, "static_path", None) else "no column of ids"
        raise UserError(
            f"{checkpoint.path}: split-table takes a table with a row for each series and time, and the model reads "
            f"one with {lack}. Share the series out without it: forecast predict shard=i/n"
        )
    frame = rows_of(checkpoint, trained, path, reading)
    if checkpoint.holidays is not None:  # which the reader adds
        frame = frame.of([name for name in frame.columns if name != HOLIDAY])
    return forecast_table(checkpoint, source, frame, ()), source


def file_edges(checkpoint: Checkpoint, table: ForecastTable, files: int) -> list[int]:
    """Where each file begins among the series, and the last one ends: whole batches of those that are long enough."""
    ends = continuation_of(checkpoint, checkpoint.model(), table.frame, device=torch.device("cpu"))
    shards = [series_of((number, files), len(ends.series)) for number in range(1, files + 1)]
    firsts = [int(ends.series[first]) for first, stop in shards if first < stop]
    return [0, *firsts[1:], len(table.frame)]


def history(table: ForecastTable, source: CsvSource, first: int, stop: int) -> pa.Table:
    """The rows of some series as their reader takes them; cells that were filled in are missing again."""
    frame, schema = table.frame, table.schema()
    rows = np.arange(frame.offsets[first], frame.offsets[stop])
    series = np.repeat(np.arange(first, stop), frame.lengths[first:stop])
    ids = {name: pa.array(cells[series], pa.string()) for name, cells in table.id_columns.items()}
    columns = {name: cells.cast(schema.field(name).type) for name, cells in ids.items()}
    steps = frame.steps[series] + rows - frame.offsets[series]
    columns[frame.time_column] = pa.array(table.stamps[steps], schema.field(frame.time_column).type)
    for place, name in enumerate(frame.columns):
        missing = None if frame.measured is None else ~frame.measured[rows, place]
        columns[name] = cells_of(frame.values[rows, place], frame.categories.get(name), missing)
    if frame.facts is not None:
        for name in frame.facts.columns:
            columns[name] = cells_of(frame.facts.column(name)[series], frame.facts.categories.get(name))
    chosen = {name: pa.array([value] * len(rows)) for name, value in (source.where or {}).items()}
    return pa.table(chosen | columns)


def cells_of(values: FloatArray, words: Sequence[str] | None, missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """A column of numbers, or of the words that they count from 1 on."""
    if words is None:
        return pa.array(values, mask=missing)
    return pa.array(np.array([UNSEEN, *words], dtype=object)[values.astype(int)], pa.string())
