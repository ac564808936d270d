"""The folds of a backtest: whether they fit the data, and what a checkpoint forecasts at their origins."""

from dataclasses import replace
from datetime import tzinfo
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.apps.common.frame_kinds import in_zone
from forecast.apps.common.inputs import evaluated_data
from forecast.apps.common.intervals import wanted
from forecast.apps.common.results import LoadedModel, naive_of
from forecast.apps.common.seen_rows import WHOLE_FILE, train_again
from forecast.checkpoint.load import Checkpoint
from forecast.config.run_config import Plain, RunConfig
from forecast.data.panel import STEP_FREQ, PanelFrame
from forecast.data.prepare import Prepared
from forecast.data.read import source_rows
from forecast.data.rows import nanoseconds
from forecast.data.sources import Source
from forecast.data.split import FoldSplit, TargetRows
from forecast.data.values.cells import IntArray
from forecast.errors import UserError
from forecast.evaluation import leakage
from forecast.evaluation.evaluate import Protocol
from forecast.evaluation.leakage_windows import check_training_outputs
from forecast.evaluation.rolling import error_scales, rolled
from forecast.text.overrides import typed

TEST = "test"


def check_length(config: RunConfig, split: FoldSplit) -> None:
    """UserError where the first fold has no window to learn from in any series."""
    frame, needed = source_rows(config.data.build(Source)), config.seq_len + split.horizon
    begin, end, *_ = replace(split, fold=0).cuts(frame.lengths)  # of the train rows
    if (end - begin).max() < needed:
        raise UserError(
            f"backtest.folds={split.folds}: longer than the data: the forecasts take the last "
            f"{split.horizon + (split.folds - 1) * split.step} of at most {frame.lengths.max()} rows of {frame.name}, "
            f"and before them there must be a window of {config.seq_len} + {split.horizon} rows to train on, and "
            "validation. Set fewer backtest.folds, a smaller backtest.step, or a shorter seq_len or pred_len."
        )


def checkpoint_folds(
    loaded: LoadedModel, path: Path | str | None, split: FoldSplit, reading: Plain | None = None
) -> Prepared:
    """The data of a checkpoint, whose split `test` holds the folds alone. path: another file, None: that trained on.

    reading: as `history` takes it. Those folds of a series are left out that begin before the end of its training rows,
    where another one has them all. UserError where the folds overlap the rows that the model was trained on, train or
    val, or reach before the first row.
    """
    checkpoint = loaded.checkpoint
    source = loaded.source()
    if checkpoint.refit is not None and (path is not None or TEST in checkpoint.refit["rows"]):
        held_out = typed("ckpt_path", str(checkpoint.path.with_name("best.ckpt")))
        raise UserError(
            f"ckpt_path={checkpoint.path} has learned from the rows up to {checkpoint.trained_until}, which would "
            f"flatter it. Look back with the held-out model: {held_out}"
        )
    data = evaluated_data(checkpoint, source, path, split=TEST if path is None else WHOLE_FILE, reading=reading)
    frame, begin = data.frame, data.frame.offsets[:-1]
    seen = begin + learned_rows(checkpoint, frame)
    longest = int(np.argmax(frame.offsets[1:] - seen))
    rows, learned = int(frame.lengths[longest]), int((seen - begin)[longest])
    room = rows - max(learned, checkpoint.config.seq_len) - split.horizon
    if (most := 0 if room < 0 else room // split.step + 1) < split.folds:
        fix = (
            f"At most {most} do not: backtest.folds={most}"
            if most
            else f"No forecast fits behind them. To train for the backtest: {refitting(checkpoint, 'never')}"
        )
        if learned:
            raise UserError(
                f"backtest.folds={split.folds}: folds that overlap the training rows of {checkpoint.path}, which end "
                f"at {frame.timestamps(longest)[learned - 1]}, would flatter it. {fix}"
            )
        raise UserError(
            f"backtest.folds={split.folds}: longer than the data, which have {rows} rows, and the model looks back on "
            f"{checkpoint.config.seq_len}. {fix.replace('do not', 'fit')}"
        )
    learned_from = {name: part for name, part in data.splits.items() if name in ("train", "val")}
    first = np.maximum(split.cuts(frame.lengths)[2] + begin, seen)
    return replace(data, splits={**learned_from, TEST: TargetRows(first, np.maximum(first, frame.offsets[1:]))})


def learned_rows(checkpoint: Checkpoint, frame: PanelFrame) -> IntArray:
    """How many rows (S,) of each series are not later than the last that its training saw, of train or val."""
    recorded, places = checkpoint.record.series.rows, checkpoint.scale.places(frame.ids)
    first, rows = recorded.first, np.maximum(recorded.splits["val"][:, 1], 1)
    until = first + frame.numbers[1] * (rows - 1)
    for start in np.unique(first).tolist() if frame.freq != STEP_FREQ else ():
        own = first == start
        dates = pd.date_range(pd.Timestamp(start), periods=int(rows[own].max()), freq=frame.freq)
        until[own] = nanoseconds(dates)[rows[own] - 1]
    learned = np.searchsorted(frame.times(), until[places], side="right") - frame.steps
    return np.where(places < 0, 0, np.clip(learned, 0, frame.lengths))


def refitting(checkpoint: Checkpoint, refit: str) -> str:
    """The command that trains anew for each fold of a backtest, or once before the first."""
    command = train_again(checkpoint, without=("data/split", "data.split", "protocol", "initial_weights"))
    return f"{command.replace('train', 'backtest', 1)} backtest.refit={refit}"


def fold_forecasts(
    loaded: LoadedModel, data: Prepared, *, folds: int, step: int, first: int = 0, zone: tzinfo | None = None
) -> pd.DataFrame:
    """What a checkpoint forecasts at the last `folds` origins of the split `test`, numbered from `first` on.

    zone: of its times; None: they have none.
    """
    checkpoint, config = loaded.checkpoint, loaded.checkpoint.config
    device = loaded.device
    table = rolled(
        checkpoint.model().to(device),
        data,
        split=TEST,
        folds=folds,
        step=step,
        fitted=checkpoint.record.fits,
        batch_size=config.data.batch_size,
        device=device,
        intervals=wanted(checkpoint),
    )
    table["fold"] += first
    for name in ("cutoff", "time"):
        times = data.frame.shown(pd.DatetimeIndex(table[name]))
        table[name] = times if zone is None else in_zone(table[name], data.frame.clock, zone)
    return table


def backtest_table(
    loaded: LoadedModel,
    path: Path | str | None,
    reading: Plain | None,
    *,
    folds: int,
    step: int | None,
    zone: tzinfo | None = None,
) -> pd.DataFrame:
    """What `Forecaster.backtest` gives, of another file or, path None, of the data trained on. zone: of its times."""
    pred_len = loaded.checkpoint.config.pred_len
    for name, number in (("folds", folds), ("step", step)):
        if number is not None and number < 1:
            raise UserError(f"{name}={number}: must be at least 1.")
    split = FoldSplit(folds=folds, step=step or pred_len, horizon=pred_len)
    data = checkpoint_folds(loaded, path, split, reading)
    table: pd.DataFrame = fold_forecasts(loaded, data, folds=folds, step=split.step, zone=zone)
    return table


def scales_of(checkpoint: Checkpoint, data: Prepared) -> dict[str, np.ndarray]:
    """By what the errors of a backtest are scaled that begins with this checkpoint."""
    protocol = checkpoint.config.protocol.build(Protocol)
    return error_scales(data, naive_of(checkpoint, data, TEST, protocol.mase_scale))


def check_folds(loaded: LoadedModel, data: Prepared) -> None:
    """The leakage guard on the windows of a checkpoint's folds; a training has it on its own. UserError for a leak."""
    device = loaded.device
    model = loaded.checkpoint.model().to(device)
    if "train" in data.splits:
        leakage.check_leakage(model, data, device=device, split=TEST)
    else:  # of another file: no row of it was fitted
        leakage.check_forecasts(model, data, device=device, split=TEST)
        check_training_outputs(model, data, device=device, split=TEST)
