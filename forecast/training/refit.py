"""The final model: trained once more, on more rows, for as many steps as validation chose.

The held-out model stays what is judged; scaler, season, categories and baselines stay those of its train rows, so that
both models compute in the same units. Written as RUN/checkpoints/refit.ckpt.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import lightning.pytorch as pl
import numpy as np
from lightning.pytorch.callbacks import Callback, DeviceStatsMonitor, EarlyStopping, LearningRateMonitor
from lightning.pytorch.callbacks import Checkpoint as CheckpointCallback

from forecast.checkpoint.load import Checkpoint
from forecast.checkpoint.model import build_model
from forecast.checkpoint.record import RefitRecord
from forecast.data.prepare import Prepared
from forecast.data.split import TargetRows
from forecast.errors import UserError
from forecast.evaluation.baselines import fitting_rows
from forecast.models.base import FittedModel, FittingRows, ForecastModel, Options
from forecast.run_folder import checkpoint_path
from forecast.training.checkpoint import write_checkpoint
from forecast.training.combined import is_combined, refitted
from forecast.training.fit import Plan, make_batches, make_module
from forecast.training.lightning_errors import errors_for_users, quiet_lightning
from forecast.training.record import trained_until, versions, weights_only_content
from forecast.training.stopping import StopOnNonFinite

# They write, or stop by, what a refit does not have: a validation, checkpoints of its own, a logger.
LEFT_OUT = (CheckpointCallback, EarlyStopping, LearningRateMonitor, DeviceStatsMonitor)


class Refitted(NamedTuple):
    """What a refit leaves: its checkpoint, the splits that it learned from and the seconds that it took."""

    path: Path
    rows: list[str]
    seconds: float


class StopAt(Callback):
    """Ends a training after so many steps. trainer.max_steps would also move the end that a schedule is laid out to."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        """Stops."""
        trainer.should_stop = trainer.should_stop or trainer.global_step >= self.steps


def refit(
    plan: Plan,
    held_out: Checkpoint,
    data: Prepared,
    *,
    rows: Literal["val"] | bool,
    metrics: dict[str, object],
    processes: int = 1,
) -> Refitted:
    """Trains the config's model on more rows, from the same seed and with parts of its own, and writes refit.ckpt.

    A step of it has the learning rate of that step in the first training: an epoch draws as many of the windows as an
    epoch of that had, so that its schedule, by steps or by epochs, is the same.

    held_out: best.ckpt. rows: true for all, val for those of train and val. metrics: of the held-out model, which the
    checkpoint keeps. processes: that trained together; one refits, with batches so many times as large. Raises
    UserError for a checkpoint that no validation has chosen, and as a training does.
    """
    if not held_out.is_best:
        best = held_out.path.with_name("best.ckpt")
        raise UserError(
            f"refit: no validation has chosen for how many steps to train, so there is no {best}. "
            "See that one runs and its error is finite (trainer.limit_val_batches, trainer.check_val_every_n_epoch, "
            "optim.lr), or train with refit=false."
        )
    whole, learnt = with_more_rows(data, rows)
    pl.seed_everything(plan.config.seed, workers=True, verbose=False)
    begin, config = time.perf_counter(), plan.config
    options: Options
    model: ForecastModel
    again: Callable[[FittingRows, FittingRows], Options]
    if is_combined(config.model):
        model = refitted(held_out, learnt)
        options = {key: held_out.config.model.get(key) for key in ("members", "blocks", "by_series")}
    else:
        model = build_model(config, held_out.data)
        if isinstance(model, FittedModel):
            again, steps = partial(model.refit, held_out=dict(held_out.config.model.node)), 0
        else:
            again, steps = model.prepare, held_out.step
        options = fitted_again(again, data, whole, recent=config.data.recent)
        with quiet_lightning(), errors_for_users(plan.folder):
            train_for(steps, plan, model, data, whole, processes=processes)
    entry: RefitRecord = {"rows": learnt, "trained_until": trained_until(whole), "held_out": metrics}
    record = replace(held_out.record, config=config.with_model(options), versions=versions(), refit=entry)
    content = weights_only_content(model.cpu(), record, step=held_out.step, epoch=held_out.epoch)
    path = checkpoint_path(plan.folder, "refit")
    write_checkpoint(path, content)
    return Refitted(path, learnt, time.perf_counter() - begin)


def with_more_rows(data: Prepared, rows: Literal["val"] | bool) -> tuple[Prepared, list[str]]:
    """The data whose train rows are all rows, those after the test included, or those of train and val.

    And the names of the splits whose rows they are. The other splits stay, and share their rows.
    """
    learnt = ["train", "val"] if rows == "val" else list(data.splits)
    end = np.max([data.splits[name].stop for name in learnt], axis=0)
    train = TargetRows(data.splits["train"].first, end)
    return replace(data, splits={**data.splits, "train": train}), learnt


def fitted_again(
    fit: Callable[[FittingRows, FittingRows], Options],
    data: Prepared,
    whole: Prepared,
    *,
    recent: int | None,
) -> Options:
    """Fits to the whole, with what was chosen on the val rows; returns the options as they are then."""
    try:
        return fit(fitting_rows(data, recent=recent), fitting_rows(whole, recent=recent))
    except ValueError as error:
        raise UserError(str(error)) from error


def train_for(
    steps: int,
    plan: Plan,
    model: ForecastModel,
    data: Prepared,
    whole: Prepared,
    *,
    processes: int,
) -> None:
    """Trains a model for so many steps on the train rows of the whole. Raises UserError where it ends before."""
    if not steps:  # the best was the forecast before the first one
        return
    config = plan.config
    an_epoch = make_batches(config, model, data).order.count
    batch_size = config.data.batch_size * processes
    batches = make_batches(config, model, whole, windows_per_epoch=an_epoch, batch_size=batch_size)
    trainer = make_trainer(plan, steps, processes=processes)
    trainer.fit(make_module(plan, model, None), batches, weights_only=True)
    if trainer.global_step != steps:
        raise UserError(
            f"refit: the training on more rows ended after {trainer.global_step} of {steps} steps, since trainer.* is "
            "no longer what best.ckpt was trained with. Go on once more with trainer.max_epochs, trainer.max_steps and "
            "trainer.limit_train_batches as they were then, or with refit=false."
        )


def make_trainer(plan: Plan, steps: int, *, processes: int) -> pl.Trainer:
    """A trainer as that of the training, but in one process, without validation, checkpoints, logger and time limit."""
    changes: dict[str, object] = {
        "default_root_dir": str(plan.folder),
        "enable_checkpointing": False,
        "fast_dev_run": False,
        "limit_val_batches": 0,
        **dict.fromkeys(("min_epochs", "min_steps", "max_time")),
    }
    if processes > 1:
        changes |= {"strategy": "auto", "devices": 1, "num_nodes": 1, "sync_batchnorm": False}
    callbacks = [callback for callback in plan.parts.callbacks if not isinstance(callback, LEFT_OUT)]
    return plan.parts.trainer(**changes, logger=False, callbacks=[StopAt(steps), StopOnNonFinite(), *callbacks])
