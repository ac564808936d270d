"""The forecast of an update: its text, what is kept of it, and what validation showed of such ones."""

from dataclasses import replace

import numpy as np

from forecast.apps.common.continuation import (
    continuation_of,
    forecast_table,
    history_source,
    report_far_series,
    report_left_out,
)
from forecast.apps.common.future import future_source, future_values
from forecast.apps.common.intervals import wanted
from forecast.apps.common.loaded import LoadedModel
from forecast.apps.update.continued import Continued
from forecast.apps.update.state import Issued
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.settings import UpdateSettings
from forecast.data.panel import PanelFrame
from forecast.data.prepare import prepare
from forecast.data.sources import Source
from forecast.data.writing import SeriesForecasts, all_far
from forecast.evaluation.predict import split_ends
from forecast.evaluation.watch import Reference, reference

VAL = "val"


def targets_of(checkpoint: Checkpoint, frame: PanelFrame) -> tuple[int, ...]:
    """The numbers of the target columns in a frame."""
    return tuple(frame.columns.index(name) for name in checkpoint.data["targets"])


def first_reference(loaded: LoadedModel, whole: PanelFrame, levels: tuple[float, ...]) -> Reference:
    """What the validation rows have shown; of a refitted model, which has learned from them, of the held-out one."""
    checkpoint, device = loaded.checkpoint, loaded.device
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
    loaded: LoadedModel, source: Source, settings: UpdateSettings, continued: Continued, levels: tuple[float, ...]
) -> tuple[SeriesForecasts, str]:
    """The steps after the last row of each series that is not refused and is long enough, and their text."""
    checkpoint, reading = loaded.checkpoint, settings.data.reading()
    taken = np.flatnonzero(continued.taken)
    frame, file = continued.whole.take(taken), history_source(checkpoint, source, settings.data.path, reading)
    model, device = checkpoint.model().to(loaded.device), loaded.device
    ahead = continuation_of(checkpoint, model, frame, device=device, level=levels)
    if checkpoint.covariates:
        later = future_source(checkpoint, source, settings.future, reading)
        ahead = replace(ahead, future=future_values(checkpoint, file, frame, ahead.series, later))
    report_left_out(ahead)
    blocks, table = list(ahead.blocks(0, len(ahead.series))), forecast_table(checkpoint, file, frame, levels)
    report_far_series(ahead, all_far(some.far for some in blocks))
    series, values = (np.concatenate(parts) for parts in zip(*(block[:2] for block in blocks), strict=True))
    text = table.header_text() + "".join(table.text(block.series, block.values) for block in blocks)
    return SeriesForecasts(taken[series], values), text


def as_issued(
    checkpoint: Checkpoint, whole: PanelFrame, ends: SeriesForecasts, beside: Reference, levels: tuple[float, ...]
) -> Issued:
    """Forecasts as they are kept until their truth has come, with what the baseline says of the same steps."""
    targets, (count, steps, _) = list(targets_of(checkpoint, whole)), ends.values.shape
    by_level = split_ends(ends.values, len(targets), levels)[::-1]
    nothing = np.empty((count, 0, steps, len(targets)))
    lower, upper = (np.stack([level[i] for level in by_level], axis=1) if by_level else nothing for i in (1, 2))
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
