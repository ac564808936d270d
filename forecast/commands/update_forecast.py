"""The forecast of an update: its text, what is kept of it, and what validation showed of such ones."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.commands.continued import Continued
from forecast.commands.forecaster import Forecaster
from forecast.commands.future import future_source, panel_future
from forecast.commands.inputs import read_source
from forecast.commands.intervals import forecast_intervals, wanted
from forecast.commands.panel_ends import history_source, long_table
from forecast.commands.update_state import Issued
from forecast.config.settings import UpdateSettings
from forecast.data.frame import SeriesFrame
from forecast.data.panel.fact_scale import scaled_facts
from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.writing import Ends
from forecast.data.prepare import prepare
from forecast.data.sources import FileSource, Source
from forecast.data.writing import PLAIN, Writing
from forecast.evaluation.expected import Reference, reference
from forecast.evaluation.interval_columns import column_names, of_each, split_ends
from forecast.evaluation.predict_panel import PanelForecaster

VAL = "val"


def targets_of(checkpoint: Checkpoint, frame: PanelFrame) -> tuple[int, ...]:
    """The numbers of the target columns in a frame."""
    return tuple(frame.columns.index(name) for name in checkpoint.data["targets"])


def first_reference(forecaster: Forecaster, whole: PanelFrame, levels: tuple[float, ...]) -> Reference:
    """What the validation rows have shown; of a refitted model, which has learned from them, of the held-out one."""
    checkpoint, device = forecaster.checkpoint, forecaster.torch_device
    held_out = checkpoint
    if checkpoint.refit is not None:
        held_out = load_checkpoint(checkpoint.path.with_name("best.ckpt"))
    rows = checkpoint.record.series.rows.placed(whole, checkpoint.scale.places(whole.ids))
    data = prepare(
        whole,
        splits={name: rows[name] for name in ("train", VAL)},
        targets=targets_of(checkpoint, whole),
        seq_len=checkpoint.config.seq_len,
        pred_len=checkpoint.config.pred_len,
        encoding=checkpoint.encoding,
        scaler=checkpoint.scales_of(whole),
        season=checkpoint.data.get("season"),
        covariates=checkpoint.covariates,
        hidden=checkpoint.hidden,
        fact_scale=checkpoint.fact_scale,
        pad=checkpoint.record.series.pad,
    )
    intervals = wanted(held_out, how="static", level=levels)
    return reference(held_out.model().to(device), data, split=VAL, device=device, intervals=intervals)


def forecast(
    forecaster: Forecaster, source: Source, settings: UpdateSettings, found: Continued, levels: tuple[float, ...]
) -> tuple[Ends, str]:
    """The steps after the last row of each series that is not refused and is long enough, and their text."""
    taken = np.flatnonzero(found.taken)
    whole = found.whole.cut(taken, found.whole.offsets[:-1][taken], found.whole.offsets[1:][taken])
    checkpoint, path, reading = forecaster.checkpoint, settings.data.path, settings.data.reading()
    if whole.id_column is None:
        frame = SeriesFrame(
            whole.values,
            whole.timestamps(0),
            whole.columns,
            whole.freq,
            whole.name,
            missing=None if whole.measured is None else ~whole.measured,
            repair=whole.repair,
            time_format=whole.time_format,
            time_zone=whole.time_zone,
            categories=whole.categories,
        )
        known = forecaster.known_after(source, frame, settings.future, reading)
        table = forecaster.continued(frame, time_column=source.time_name, future=known, level=levels)
        ends = Ends(np.array([0]), table.iloc[:, 1:].to_numpy(dtype=np.float64)[None])
        return ends, forecast_text(checkpoint, source, frame, table, levels, path=path, reading=reading)
    file = history_source(checkpoint, source, path, dict(reading))
    scale = checkpoint.scales_of(whole)
    ahead = PanelForecaster(
        model=checkpoint.model().to(forecaster.torch_device),
        frame=whole,
        mean=scale.mean,
        std=scale.std,
        targets=targets_of(checkpoint, whole),
        seq_len=checkpoint.config.seq_len,
        pred_len=checkpoint.config.pred_len,
        encoding=checkpoint.encoding,
        pad=checkpoint.record.series.pad,
        device=forecaster.torch_device,
        facts=scaled_facts(whole.facts, checkpoint.fact_scale),
        intervals=forecast_intervals(checkpoint, levels),
    )
    if checkpoint.covariates:
        told = future_source(checkpoint, source, settings.future, reading)
        ahead = replace(ahead, future=panel_future(checkpoint, file, whole, ahead.series, told))
    blocks, written = list(ahead.blocks(0, len(ahead.series))), long_table(checkpoint, file, ahead)
    text = written.header_text() + "".join(written.text(*block) for block in blocks)
    series, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return Ends(taken[series], values), text


def as_issued(
    checkpoint: Checkpoint, whole: PanelFrame, ends: Ends, beside: Reference, levels: tuple[float, ...]
) -> Issued:
    """Forecasts as they are kept until their truth has come, with what the baseline says of the same steps."""
    targets, (count, steps, _) = list(targets_of(checkpoint, whole)), ends.values.shape
    by_level = split_ends(ends.values, len(targets), levels)[::-1]
    nothing = np.empty((count, 0, steps, len(targets)))
    lower, upper = (np.stack([one[i] for one in by_level], axis=1) if by_level else nothing for i in (1, 2))
    end, lengths = whole.offsets[1:][ends.series], whole.lengths[ends.series]
    period = np.minimum(beside.period, lengths)[:, None]
    past = (end[:, None] - period) + np.arange(steps) % period
    return Issued(
        series=ends.series,
        cutoff=whole.times()[(whole.steps + whole.lengths)[ends.series] - 1],
        watched=np.zeros(count, dtype=bool),
        values=ends.values[..., : len(targets)],
        baseline=whole.values[past][..., targets],
        lower=lower,
        upper=upper,
    )


def forecast_text(
    checkpoint: Checkpoint,
    source: Source,
    frame: SeriesFrame,
    table: pd.DataFrame,
    levels: tuple[float, ...],
    *,
    path: str | None,
    reading: Mapping[str, object],
) -> str:
    """A forecast as a file that is written as the history `frame` is, which was read from `path`."""
    file = read_source(source, path, reading) if path or isinstance(source, FileSource) else None
    writing = PLAIN if file is None else Writing.of(file.path_used(), file, frame.time_format)
    names = column_names(checkpoint.data["targets"], levels)
    of_names = dict(zip(names, of_each(checkpoint.data["targets"], levels), strict=True))
    decimals = {name: writing.decimals[of] for name, of in of_names.items() if of in writing.decimals}
    writing = replace(writing, decimals=decimals)
    targets = [frame.columns.index(name) for name in checkpoint.data["targets"]]
    std = checkpoint.scaler.std[of_each(targets, levels)]
    time_name = source.time_name if file is None else file.time_name
    return writing.text(writing.header(time_name, names), writing.cells(table, std))
