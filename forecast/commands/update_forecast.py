"""The forecast of an update: its table, its text, what is kept of it, and what validation showed of such ones."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.commands.continuation import forecast_table, history_source, panel_of
from forecast.commands.continued import split_places
from forecast.commands.forecaster import Forecaster
from forecast.commands.intervals import wanted
from forecast.commands.update_state import Issued
from forecast.data.frame import SeriesFrame
from forecast.data.prepare import prepare
from forecast.data.scaling import Scales
from forecast.data.sources import Source
from forecast.evaluation.expected import Reference, reference
from forecast.evaluation.interval_columns import split_ends

VAL = "val"


def targets_of(checkpoint: Checkpoint, frame: SeriesFrame) -> list[int]:
    """The numbers of the target columns in a frame."""
    return [frame.columns.index(name) for name in checkpoint.data["targets"]]


def first_reference(forecaster: Forecaster, whole: SeriesFrame, levels: tuple[float, ...]) -> Reference:
    """What the validation rows have shown; of a refitted model, which has learned from them, of the held-out one."""
    checkpoint, device = forecaster.checkpoint, forecaster.torch_device
    held_out = checkpoint
    if checkpoint.refit is not None:
        held_out = load_checkpoint(checkpoint.path.with_name("best.ckpt"))
    splits = split_places(checkpoint, whole)
    assert splits is not None, "first_rows has found them"
    data = prepare(
        whole,
        splits=splits,
        targets=tuple(targets_of(checkpoint, whole)),
        seq_len=checkpoint.config.seq_len,
        pred_len=checkpoint.config.pred_len,
        encoding=checkpoint.encoding,
        scaler=Scales.of(checkpoint.scaler),
        covariates=checkpoint.covariates,
        hidden=checkpoint.hidden,
        pad=checkpoint.record.series.pad,
    )
    data = replace(data, season=checkpoint.data.get("season"))
    intervals = wanted(held_out, how="static", level=levels)
    return reference(held_out.model().to(device), data, split=VAL, device=device, intervals=intervals)


def as_issued(
    checkpoint: Checkpoint, whole: SeriesFrame, table: pd.DataFrame, beside: Reference, levels: tuple[float, ...]
) -> Issued:
    """A forecast as it is kept until its truth has come, with what the baseline says of the same steps."""
    values, targets = table.iloc[:, 1:].to_numpy(dtype=np.float64), targets_of(checkpoint, whole)
    n_targets, steps = len(targets), len(table)
    ends = split_ends(values[None], n_targets, levels)[::-1]
    lows, highs = [low for _, low, _ in ends], [high for _, _, high in ends]
    nothing = np.empty((0, steps, n_targets))
    lower, upper = np.concatenate([nothing, *lows]), np.concatenate([nothing, *highs])
    past = whole.values[-beside.period :][:, targets]
    return Issued(
        cutoff=whole.timestamps[-1],
        values=values[:, :n_targets],
        baseline=past[np.arange(steps) % len(past)],
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
    other = history_source(checkpoint, source, path, reading)
    lines = forecast_table(checkpoint, other, panel_of(frame, source.time_name), levels)
    return lines.header_text() + lines.text(np.array([0]), table.iloc[:, 1:].to_numpy(dtype=np.float64)[None])
