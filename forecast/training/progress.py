"""How far a training has come: a line of the log an epoch, and on a terminal one that moves."""

import logging
import math
import time

import lightning.pytorch as pl
from lightning.pytorch.callbacks import ProgressBar

from forecast.text.terminal import MOVE_SECONDS, duration, is_watched, redraw_line
from forecast.training.checkpoint import best_by
from forecast.training.throughput import Throughput

log = logging.getLogger(__name__)


class Progress(ProgressBar):
    """`epoch 2/6  train 0.352  val 0.922 (best)  159 windows/s  41 s, 2 min 40 s left`.

    train: the loss of the last batch shown; val: the error that chooses best.ckpt, both scaled. The time left is that
    of all epochs, which early stopping may cut short.
    """

    def __init__(self) -> None:
        super().__init__()
        self.begun = self.epoch_begun = self.drawn = 0.0
        self.first_step = 0

    def disable(self) -> None:
        """Called by Lightning in all processes but the first one, which alone shows anything here."""

    def on_train_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Starts the clock."""
        self.begun, self.first_step = time.monotonic(), trainer.global_step

    def on_train_epoch_start(self, *_: object) -> None:
        """Starts that of the epoch."""
        self.epoch_begun = time.monotonic()

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        """Moves the line of a terminal on."""
        if trainer.is_global_zero and is_watched() and time.monotonic() - self.drawn > MOVE_SECONDS:
            self.drawn = time.monotonic()
            redraw_line(self.line(trainer))

    def on_train_epoch_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Logs the line of the epoch."""
        mark = " (best)" if module.best_step == trainer.global_step else ""  # best.ckpt has been written
        if trainer.is_global_zero:
            if is_watched():
                redraw_line("")
            log.info("%s", self.line(trainer, mark=mark))

    def line(self, trainer: pl.Trainer, *, mark: str = "") -> str:
        """All that is known now. mark: behind the validation error."""
        metrics, now = trainer.callback_metrics, time.monotonic()
        shown = {"train": next((metrics[key] for key in metrics if key.startswith("train/")), None)}
        shown["val"] = metrics.get(best_by(trainer))
        parts = [
            f"epoch {trainer.current_epoch + 1}" + (f"/{trainer.max_epochs}" if (trainer.max_epochs or 0) > 0 else "")
        ]
        parts += [f"{name} {float(value):.3f}" for name, value in shown.items() if value is not None]
        parts[-1] += mark
        callbacks = trainer.callbacks  # type: ignore[attr-defined]
        rates = [callback.epoch_rate() for callback in callbacks if isinstance(callback, Throughput)]
        parts += [f"{rate:.0f} windows/s" for rate in rates if rate > 0]
        done, all_steps = trainer.global_step - self.first_step, trainer.estimated_stepping_batches - self.first_step
        left = (now - self.begun) / done * (all_steps - done) if done else math.inf
        parts.append(duration(now - self.epoch_begun) + (f", {duration(left)} left" if 0 < left < math.inf else ""))
        return "  ".join(parts)
