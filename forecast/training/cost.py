"""What a training costs: seconds, windows a second, peak memory, and how far it is from what the model allows."""

import logging
import time
from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from forecast.evaluation.memory import PeakMemory
from forecast.training.idle import Idle

log = logging.getLogger(__name__)

BAR_SECONDS = 1.0  # after which the progress bar gets a new rate
WAITING_SHARE = 0.2  # a training that waits for data longer than that is told so


class Cost(Callback):
    """Measures the training over all its legs, when it is interrupted and continued.

    train_seconds: from the first batch to the end of the fit, validations included. train_samples_per_second: train
    windows of all processes by these seconds less those of validations. train_limit_samples_per_second: the same by
    the seconds inside training steps (forward, backward, optimizer), the rest being that in which this process or its
    GPU stood idle, see `Idle`. peak_memory_mb: of the last leg, see `PeakMemory`.

    While it trains the progress bar shows the rate; without one a line says it once an epoch.
    """

    def __init__(self, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self.memory = PeakMemory()
        self.clock = clock
        self.before = dict.fromkeys(("seconds", "validation_seconds", "idle_seconds", "waiting_seconds"), 0.0)
        self.samples = 0
        self.started = self.stopped = self.validation_started = 0.0
        self.validation_seconds = self.validation_in_gap = 0.0
        self.idle = Idle(torch.device("cpu"), clock=clock)
        self.bar = self.epoch = (0.0, 0)  # seconds of training and samples, when a rate was last told

    def on_train_start(self, trainer: pl.Trainer, *_: Any) -> None:
        """Starts the clock."""
        self.started = self.clock()
        self.idle = Idle(trainer.strategy.root_device, clock=self.clock)
        self.idle.leave()
        self.bar = self.epoch = self._so_far()

    def on_train_end(self, *_: Any) -> None:
        """Stops the clock."""
        self._enter(fetching=0.0)
        self.idle.settle(last=True)
        self.stopped = self.clock()

    def on_exception(self, *_: Any) -> None:
        """Stops the clock: what follows an interrupted training is no part of it."""
        self.stopped = self.stopped or self.clock()

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        """Ends what lay between two steps."""
        self._enter(fetching=getattr(trainer.train_dataloader, "waited", 0.0))

    def on_train_batch_end(
        self, trainer: pl.Trainer, module: pl.LightningModule, _outputs: Any, batch: Any, *_: Any
    ) -> None:
        """Counts the windows; those of the processes differ by one at most."""
        self.samples += len(batch.target) * trainer.world_size
        self.idle.leave()
        if self._so_far()[0] - self.bar[0] >= BAR_SECONDS:
            module.log("samples/s", self._rate(self.bar), prog_bar=True, logger=False, rank_zero_only=True)
            self.bar = self._so_far()

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Says the rate where no bar shows it."""
        if trainer.is_global_zero and trainer.progress_bar_callback is None:
            log.info("Epoch %d: %.0f samples/s", trainer.current_epoch + 1, self._rate(self.epoch))
        self.epoch = self._so_far()

    def on_validation_start(self, *_: Any) -> None:
        """Starts the clock of a validation. Its first figures wait for a GPU to finish the training steps before."""
        self.validation_started = self.clock()

    def on_validation_end(self, *_: Any) -> None:
        """Stops the clock of a validation."""
        seconds = self.clock() - self.validation_started
        self.validation_seconds += seconds
        self.validation_in_gap += seconds

    def state_dict(self) -> dict[str, Any]:
        """The sums so far."""
        return {**self._sums(), "samples": self.samples}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from the sums of the legs before."""
        # checkpoints of earlier releases lack some: their legs count as spent in steps
        self.before = {key: state_dict.get(key, 0.0) for key in self.before}
        self.samples = state_dict["samples"]

    def figures(self, trainer: pl.Trainer) -> dict[str, Any]:
        """The block `cost` of metrics.json."""
        sums = self._sums()
        training = sums["seconds"] - sums["validation_seconds"]
        inside = training - sums["idle_seconds"]
        return {
            "train_seconds": sums["seconds"],
            "train_samples_per_second": self.samples / training if training > 0 else None,
            "train_limit_samples_per_second": self.samples / inside if inside > 0 else None,
            "peak_memory_mb": self.memory.megabytes(trainer.strategy.root_device),
            "device": trainer.strategy.root_device.type,
            "precision": str(trainer.precision),
        }

    def speed(self) -> list[str]:
        """How fast the training was, in plain words; nothing when none was."""
        sums = self._sums()
        training = sums["seconds"] - sums["validation_seconds"]
        if not self.samples or training <= 0:
            return []
        return speed_sentences(
            self.samples / training, idle=sums["idle_seconds"] / training, waiting=sums["waiting_seconds"] / training
        )

    def _enter(self, *, fetching: float) -> None:
        self.idle.enter(fetching=fetching, apart=self.validation_in_gap)
        self.validation_in_gap = 0.0

    def _sums(self) -> dict[str, float]:
        """Seconds over all legs: of the fit, and of these in validations, idle between steps, and waiting for data."""
        leg = {
            "seconds": (self.stopped or self.clock()) - self.started if self.started else 0.0,
            "validation_seconds": self.validation_seconds,
            "idle_seconds": self.idle.seconds,
            "waiting_seconds": self.idle.waiting,
        }
        return {key: self.before[key] + value for key, value in leg.items()}

    def _so_far(self) -> tuple[float, int]:
        """Seconds of training, validations apart, and samples."""
        sums = self._sums()
        return sums["seconds"] - sums["validation_seconds"], self.samples

    def _rate(self, since: tuple[float, int]) -> float:
        """Samples a second since then."""
        seconds, samples = self._so_far()
        return (samples - since[1]) / max(seconds - since[0], 1e-9)


def speed_sentences(samples_per_second: float, *, idle: float, waiting: float) -> list[str]:
    """How near a training came to the speed of its steps alone, and what to do when data held it up.

    idle: the share of the time between steps, in [0, 1). waiting: the share that waited for data, a part of it.
    """
    inside = 1.0 - idle
    if inside <= 0.0:
        return []
    used, waited = round(100 * inside), round(100 * waiting)
    sentences = [
        f"Speed: {samples_per_second:.0f} samples/s, {used} % of what the model alone allows "
        f"({samples_per_second / inside:.0f}): {waited} % waited for data, {max(0, 100 - used - waited)} % in "
        "checkpoints, pictures and logging."
    ]
    if waiting > WAITING_SHARE:
        sentences.append(
            "Data, not the model, set the pace: try a larger data.batch_size, and see that the machine's memory, or a "
            "quarter of what the GPU has free, holds the whole series."
        )
    return sentences
