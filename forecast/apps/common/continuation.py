"""What a checkpoint forecasts with: the history of each series, its scale, and how the rows are written."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import torch
from pyarrow import types

from forecast.apps.common.future import future_values
from forecast.apps.common.inputs import read_source, rows_of
from forecast.apps.common.intervals import wanted
from forecast.checkpoint.load import Checkpoint
from forecast.config.run_config import Plain
from forecast.data.panel import PanelFrame
from forecast.data.prepare import scaled_facts
from forecast.data.read import panel_files
from forecast.data.reading.content import PARQUET, columnar_kind
from forecast.data.saved_scale import EACH
from forecast.data.sources import CsvSource, Source
from forecast.data.writing import PLAIN, ForecastTable, SeriesForecasts, Writing
from forecast.errors import UserError
from forecast.evaluation.history import report_far, report_filled
from forecast.evaluation.predict import Continuation, column_names
from forecast.models.base import ForecastModel
from forecast.text.terminal import label

log = logging.getLogger(__name__)


def history_source(source: Source, path: Path | str | None, reading: Plain | None = None) -> Source:
    """Where the rows come from that a forecast goes on from: another file is written as `source` but for `reading`."""
    if path is None and not isinstance(source, CsvSource):
        return source
    return read_source(source, path, reading)


def files_of(source: Source) -> list[Path]:
    """The files of a source."""
    return panel_files(source) if isinstance(source, CsvSource) else []


def continuation(
    checkpoint: Checkpoint,
    source: Source,
    path: Path | str | None = None,
    reading: Plain | None = None,
    *,
    device: torch.device,
    future: CsvSource | None = None,
    level: Sequence[float] | None = None,
) -> Continuation:
    """The model and the series that it continues, those of the file `path` or of the data trained on.

    future: the file of what is known in advance. level: whose ends are further columns, in per cent. UserError where no
    series is long enough.
    """
    model = checkpoint.model().to(device)
    frame = rows_of(checkpoint, source, path, reading)
    if frame.id_column is None:
        frame = frame.tail(max(model.window.seq_len, model.look_back))  # of the rest nothing is read or drawn
    ends = continuation_of(checkpoint, model, frame, device=device, level=level)
    if not checkpoint.covariates:
        return ends
    history = history_source(source, path, reading)
    return replace(ends, future=future_values(checkpoint, history, frame, ends.series, future))


def continuation_of(
    checkpoint: Checkpoint,
    model: ForecastModel,
    frame: PanelFrame,
    *,
    device: torch.device,
    level: Sequence[float] | None = None,
) -> Continuation:
    """`continuation` of series that have been read."""
    ends = Continuation(
        model=model,
        frame=frame,
        scales=checkpoint.scales_of,
        targets=tuple(frame.columns.index(name) for name in checkpoint.data["targets"]),
        seq_len=checkpoint.config.seq_len,
        pred_len=checkpoint.config.pred_len,
        encoding=checkpoint.encoding,
        pad=checkpoint.record.series.pad,
        device=device,
        facts=scaled_facts(frame.facts, checkpoint.fact_scale),
        intervals=wanted(checkpoint, how="static", level=level) if level else None,
    )
    if not ends.series.size:
        longest = int(frame.lengths.argmax())
        of = f": the longest of {len(frame)} series, '{label(str(frame.ids[longest]))}'," if frame.id_column else ""
        raise UserError(
            f"{frame.name}{of} has {frame.lengths[longest]} rows; the model reads the last {ends.needed}. Give it a "
            "longer history, or train with data.short=pad or a shorter seq_len."
        )
    return ends


def check_unseen(checkpoint: Checkpoint, frame: PanelFrame, *, refuse: bool) -> int:
    """How many series were not trained on, said in one line; UserError naming the first where they are refused."""
    unseen = checkpoint.scale.places(frame.ids) < 0
    count = int(unseen.sum())
    if count and refuse:
        raise UserError(
            f"{frame.name}: {count} of {len(frame)} series were not in the training, the first is "
            f"'{label(str(frame.ids[int(unseen.argmax())]))}', and unseen=refuse. Leave them out of the file, train "
            "with them, or let them be forecast: unseen=scale"
        )
    if count:
        how = checkpoint.scale.how
        by = "scaled by their own history" if how in EACH else "scaled as those that were"
        log.warning("%d of %d series were not in the training: %s.", count, len(frame), by)
    return count


def report_left_out(ends: Continuation, part: tuple[int, int] | None = None) -> int:
    """How many series are too short, said in one line, as is what was filled in at the end of others.

    part: the first and the end of `series` whose rows are looked at, None: all.
    """
    frame = ends.frame
    short = len(frame) - len(ends.series)
    if short:
        first = int((frame.lengths < ends.needed).argmax())
        log.warning(
            "%d of %d series have fewer than the %d rows that the model reads and are left out, the first is '%s' with "
            "%d. A model trained with data.short=pad takes them.",
            *(short, len(frame), ends.needed, label(str(frame.ids[first])), frame.lengths[first]),
        )
    seq_len = max(ends.seq_len, ends.model.look_back)
    report_filled(frame, ends.series[slice(*part or (None,))], seq_len=seq_len, of=len(ends.series))
    return short


def report_far_series(ends: Continuation, far: Sequence[int]) -> None:
    """Warns of the series, by their numbers, that are forecast from rows of another size than their train rows."""
    if not far:
        return
    frame, rows, first = ends.frame, ends.model.look_back, min(far)
    more = f", as of {len(far) - 1} more of {len(frame)} series" if len(far) > 1 else ""
    where = f"{frame.name}, the last {rows} rows{frame.of_series(first)}{more}"
    report_far(frame.rows(first)[-rows:], frame.columns, ends.scale.mean[first], ends.scale.std[first], where=where)


def forecast_table(
    checkpoint: Checkpoint, source: Source, frame: PanelFrame, levels: Sequence[float], *, safe: bool = False
) -> ForecastTable:
    """How forecasts after a frame are written: as the first file of their history, where that is text.

    levels: whose ends are further columns.
    """
    targets, writing = checkpoint.data["targets"], _writing(source, frame)
    ids = source.id_column if isinstance(source, CsvSource) else None
    whole = []  # ids that stay numbers from one Parquet file to another
    if frame.id_column is not None and columnar_kind(files_of(source)[0]) == PARQUET:
        schema = pq.read_schema(files_of(source)[0])
        whole = [str(column.name) for column in schema if types.is_integer(column.type)]
    return ForecastTable(
        frame=frame,
        targets=column_names(targets, levels),
        pred_len=checkpoint.config.pred_len,
        id_names=() if ids is None or isinstance(ids, str) else tuple(ids),
        whole=whole,
        writing=writing,
        safe=safe,
    )


def _writing(source: Source, frame: PanelFrame) -> Writing:
    if not isinstance(source, CsvSource):
        return PLAIN
    path, layout, time_format = files_of(source)[0], source, frame.time_format
    if frame.id_column is not None and columnar_kind(path) is not None:
        return PLAIN
    if not source.time_columns or frame.without_calendar:
        layout, time_format = replace(source, time_column=None), None
    elif frame.id_column is not None and len(source.time_columns) == 1:  # its usual name, where none was named
        layout = replace(source, time_column=frame.time_column)
    return Writing.of(path, layout, time_format)


def whole_table(table: ForecastTable, forecasts: Iterable[SeriesForecasts]) -> pd.DataFrame:
    """Forecasts with timestamps."""
    whole: pd.DataFrame = pd.concat([table.table(some.series, some.values) for some in forecasts], ignore_index=True)
    return whole
