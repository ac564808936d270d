"""A trial of `forecast tune`: a training for its validation error alone, that ends early when it is poor or time is up.

No checkpoint, no baseline, no picture, and no window of test.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import lightning.pytorch as pl
from lightning.pytorch.trainer.states import TrainerFn

from forecast.checkpoint.model import build_model
from forecast.checkpoint.record import Record
from forecast.config.run_config import RunConfig
from forecast.data.prepare import Prepared
from forecast.errors import UserError
from forecast.evaluation.baselines import fitting_rows
from forecast.evaluation.evaluate import counted_windows
from forecast.models.base import FittedModel
from forecast.training.checkpoint import CheckpointFiles, Monitor
from forecast.training.fit import (
    Plan,
    begin_model,
    make_batches,
    make_module,
    make_trainer,
)
from forecast.training.lightning_errors import errors_for_users, quiet_lightning
from forecast.training.record import make_record
from forecast.training.shared_data import MOST_BYTES, DataCache, Reader
from forecast.training.throughput import Throughput

Ended = Literal["finished", "pruned", "cut"]
Report = Callable[[int, float], bool]
Clock = Callable[[], float]
# What a training has and a trial does without.
NO_CALLBACKS = ("checkpoint", "figures", "progress")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a trial came to. error: the lowest of its validations, None without one. epochs: validated."""

    error: float | None
    epochs: int
    ended: Ended


class TrialOver(Exception):
    """Ends the training of a trial at once."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended)
        self.ended = ended


class Watched(CheckpointFiles):
    """In the place of what writes checkpoints: keeps the lowest error, and ends a trial that is poor or out of time.

    report: is told the epoch and its error, and answers whether to go on. deadline: by `clock`.
    """

    def __init__(self, *, monitor: Monitor, report: Report, deadline: float, clock: Clock = time.monotonic) -> None:
        super().__init__(monitor=monitor)
        self.report, self.deadline, self.clock = report, deadline, clock
        self.error: float | None = None
        self.epochs = 0

    def on_train_batch_end(self, *_: object) -> None:
        """Ends the trial when its time is up."""
        self._check_time()

    def on_validation_batch_end(self, *_: object, **__: object) -> None:
        """As after a batch of train."""
        self._check_time()

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Keeps the error and reports it."""
        if trainer.sanity_checking:
            return
        error = float(trainer.callback_metrics.get(self.monitor, math.nan))
        self.epochs += 1
        if math.isfinite(error) and (self.error is None or error < self.error):
            self.error = error
        if not self.report(self.epochs - 1, error) and trainer.state.fn == TrainerFn.FITTING:
            raise TrialOver("pruned")

    def on_train_end(self, *_: object) -> None:
        """Writes nothing."""

    def _check_time(self) -> None:
        if self.clock() >= self.deadline:
            raise TrialOver("cut")


class Trials:
    """Runs trials in this process, one after another, which share their data. read: gives those of a source."""

    def __init__(self, read: Reader) -> None:
        self.read = read
        self.cache = DataCache(MOST_BYTES)
        self.has_begun = False

    def run(
        self, plan: Plan, *, monitor: Monitor, report: Report, deadline: float, clock: Clock = time.monotonic
    ) -> Outcome:
        """Trains by a plan of `without_extras`, as `forecast train` would, until `report` or the deadline ends it.

        monitor: the validation error by which the trial is judged. Raises UserError for whatever the user can mend;
        Ctrl-C and SIGTERM end it as they end a training.
        """
        watched = Watched(monitor=monitor, report=report, deadline=deadline, clock=clock)
        with quieter(logging.ERROR if self.has_begun else logging.WARNING):
            self.has_begun = True
            pl.seed_everything(plan.config.seed, workers=True, verbose=False)
            data = self.cache.find(plan.source, plan.config, self.read).data
            counted_windows(data.windows("val"), "val", plan.parts.protocol)
            record = make_record(plan.config, plan.choices, plan.source, data, {})
            ended = self._train(plan, data, record, watched)
        return Outcome(error=watched.error, epochs=watched.epochs, ended=ended)

    def _train(self, plan: Plan, data: Prepared, record: Record, watched: Watched) -> Ended:
        model = build_model(plan.config, record.data)
        at_once = isinstance(model, FittedModel)
        if isinstance(model, FittedModel):
            try:
                model.fit(fitting_rows(data, recent=plan.config.data.recent))
            except ValueError as error:
                raise UserError(str(error)) from error
        else:
            begin_model(plan, model, data, record)
        module, batches = make_module(plan, model, None), make_batches(plan.config, model, data)
        with quiet_lightning(), errors_for_users(plan.folder):
            trainer = make_trainer(plan, Throughput(), model, last=watched)
            if trainer.world_size > 1:
                raise UserError(
                    f"trainer: a trial trains in one process, not in {trainer.world_size}. Say trainer=default, and "
                    "start the same forecast tune command once for each device"
                )
            try:
                if at_once:
                    trainer.validate(module, batches, verbose=False)
                else:
                    trainer.fit(module, batches, weights_only=True)
            except TrialOver as over:
                return over.ended
        return "finished"


def without_extras(config: RunConfig) -> RunConfig:
    """The config of a training without what does not change its validation errors."""
    callbacks = {name: recipe.node for name, recipe in config.callbacks.items() if name not in NO_CALLBACKS}
    trainer = config.trainer.with_(enable_progress_bar=False, enable_model_summary=False).node
    return config.with_(
        callbacks=callbacks, trainer=trainer, logger=None, calibration="none", checks={"leakage": False}
    )


@contextmanager
def quieter(level: int) -> Iterator[None]:
    """What trainings say of themselves is not repeated for each trial."""
    names = ("forecast.training", "forecast.apps.common.training_data", "forecast.data", "forecast.evaluation")
    loggers = [logging.getLogger(name) for name in (*names, "lightning.pytorch", "lightning.fabric")]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(level)
        yield
    finally:
        for logger, former in zip(loggers, before, strict=True):
            logger.setLevel(former)
