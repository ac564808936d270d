"""What a checkpoint of a panel forecasts with: the history of a panel, its scale, and how the rows are written."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import torch
from pyarrow import types

from forecast.checkpoint.load import Checkpoint
from forecast.commands.future import panel_future
from forecast.commands.inputs import read_source
from forecast.commands.intervals import forecast_intervals
from forecast.commands.panels import panel_history, trained_columns
from forecast.data.panel.fact_scale import scaled_facts
from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.read import panel_files
from forecast.data.panel.saved_scale import EACH, ScaleInParts
from forecast.data.panel.writing import LongTable
from forecast.data.reading.columnar import PARQUET, columnar_kind
from forecast.data.sources import CsvSource, Source
from forecast.data.writing import PLAIN, Writing
from forecast.errors import UserError
from forecast.evaluation.interval_columns import column_names
from forecast.evaluation.predict_panel import PanelForecaster
from forecast.text.terminal import label

log = logging.getLogger(__name__)


def history_source(
    checkpoint: Checkpoint, source: Source, path: Path | str | None, reading: dict[str, object] | None = None
) -> CsvSource:
    """The panel that a forecast goes on from: another file, written as that of the training but for `reading`."""
    other = read_source(source, path, reading)
    assert isinstance(other, CsvSource)
    return trained_columns(checkpoint, other)


def panel_forecaster(
    checkpoint: Checkpoint,
    source: CsvSource,
    *,
    device: torch.device,
    future: CsvSource | None = None,
    level: Sequence[float] | None = None,
) -> PanelForecaster:
    """The model and the series that it continues. UserError where none is long enough.

    future: what is known in advance, see `panel_future`. level: whose ends are further columns, in per cent.
    """
    intervals = forecast_intervals(checkpoint, level)
    frame = panel_history(checkpoint, source)
    scale = ScaleInParts(frame, partial(checkpoint.panel_scale.scaler, together=len(checkpoint.covariates)))
    assert checkpoint.panel is not None
    forecaster = PanelForecaster(
        model=checkpoint.model().to(device),
        frame=frame,
        mean=scale.mean,
        std=scale.std,
        need=scale.need,
        targets=tuple(frame.columns.index(name) for name in checkpoint.data["targets"]),
        seq_len=checkpoint.config.seq_len,
        pred_len=checkpoint.config.pred_len,
        encoding=checkpoint.encoding,
        pad=checkpoint.panel.get("pad", False),
        device=device,
        facts=scaled_facts(frame.facts, checkpoint.fact_scale),
        intervals=intervals,
    )
    if not forecaster.series.size:
        longest = int(frame.lengths.argmax())
        raise UserError(
            f"{frame.name}: none of {len(frame)} series has the {forecaster.needed} rows that the model reads; the "
            f"longest, '{label(str(frame.ids[longest]))}', has {frame.lengths[longest]}. Give longer ones, or train "
            "with data.short=pad or a shorter seq_len."
        )
    if not checkpoint.covariates:
        return forecaster
    return replace(forecaster, future=panel_future(checkpoint, source, frame, forecaster.series, future))


def check_unseen(checkpoint: Checkpoint, frame: PanelFrame, *, refuse: bool) -> int:
    """How many series were not trained on, said in one line; UserError naming the first where they are refused."""
    unseen = checkpoint.panel_scale.unseen(frame.ids)
    count = int(unseen.sum())
    if count and refuse:
        raise UserError(
            f"{frame.name}: {count} of {len(frame)} series were not in the training, the first is "
            f"'{label(str(frame.ids[int(unseen.argmax())]))}', and unseen=refuse. Leave them out of the file, train "
            "with them, or let them be forecast: unseen=scale"
        )
    if count:
        how = checkpoint.panel_scale.how
        by = "scaled by their own history" if how in EACH else "scaled as those that were"
        log.warning("%d of %d series were not in the training: %s.", count, len(frame), by)
    return count


def report_left_out(forecaster: PanelForecaster, part: tuple[int, int] | None = None) -> int:
    """How many series are too short, said in one line, as are those that end in made-up rows.

    part: the first and the end of `series` whose rows are looked at, None: all.
    """
    frame = forecaster.frame
    short = len(frame) - len(forecaster.series)
    if short:
        first = int((frame.lengths < forecaster.needed).argmax())
        log.warning(
            "%d of %d series have fewer than the %d rows that the model reads and are left out, the first is '%s' with "
            "%d. A model trained with data.short=pad takes them.",
            *(short, len(frame), forecaster.needed, label(str(frame.ids[first])), frame.lengths[first]),
        )
    begin, stop = part or (0, len(forecaster.series))
    made_up = forecaster.made_up(begin, stop)
    if made_up.size:
        log.warning(
            "%d of %d series have more made-up than measured values in the last %d rows, the first is '%s': their "
            "forecasts are guesses.",
            *(len(made_up), stop - begin, forecaster.seq_len, label(str(frame.ids[made_up[0]]))),
        )
    return short


def long_table(checkpoint: Checkpoint, source: CsvSource, ends: PanelForecaster, *, safe: bool = False) -> LongTable:
    """How the forecasts of a panel are written: as its first file, where that is text."""
    names, frame = source.id_column, ends.frame
    return LongTable(
        frame=frame,
        targets=column_names(checkpoint.data["targets"], () if ends.intervals is None else ends.intervals.asked),
        pred_len=ends.pred_len,
        id_names=() if names is None or isinstance(names, str) else tuple(names),
        whole=_whole_numbers(panel_files(source)[0]),
        writing=_writing(source, frame),
        safe=safe,
    )


def _whole_numbers(path: Path) -> list[str]:
    """The columns of a Parquet file that hold whole numbers: as ids they stay numbers in another one."""
    if columnar_kind(path) != PARQUET:
        return []

    return [str(field.name) for field in pq.read_schema(path) if types.is_integer(field.type)]


def _writing(source: CsvSource, frame: PanelFrame) -> Writing:
    path = panel_files(source)[0]
    if columnar_kind(path) is not None:
        return PLAIN
    if source.panel_form == "rows" or frame.without_calendar:
        return Writing.of(path, replace(source, time_column=None), None)
    found = len(source.time_columns) == 1  # under its usual name, where another was not named
    return Writing.of(path, replace(source, time_column=frame.time_column) if found else source, frame.time_format)


def whole_table(forecaster: PanelForecaster, table: LongTable) -> pd.DataFrame:
    """All forecasts, with timestamps."""
    ends = forecaster.blocks(0, len(forecaster.series))
    whole: pd.DataFrame = pd.concat([table.table(*some) for some in ends], ignore_index=True)
    return whole


def panel_continued(
    checkpoint: Checkpoint,
    source: CsvSource,
    *,
    device: torch.device,
    future: CsvSource | None,
    level: Sequence[float] | None,
) -> pd.DataFrame:
    """The steps after the end of every series of a panel as one table; unseen and short series are said."""
    ends = panel_forecaster(checkpoint, source, device=device, future=future, level=level)
    check_unseen(checkpoint, ends.frame, refuse=False)
    report_left_out(ends)
    return whole_table(ends, long_table(checkpoint, source, ends))
