"""What a training costs: seconds, windows a second, peak memory."""

import time
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from forecast.memory import PeakMemory


class Cost(Callback):
    """Measures the training over all its legs, when it is interrupted and continued.

    train_seconds: from the first batch to the end of the fit, validations included. train_samples_per_second: train
    windows by these seconds less those of validations. peak_memory_mb: of the last leg, see `PeakMemory`.
    """

    def __init__(self) -> None:
        self.memory = PeakMemory()
        self.before = {"seconds": 0.0, "validation_seconds": 0.0}
        self.samples = 0
        self.started = self.stopped = self.validation_started = 0.0
        self.validation_seconds = 0.0

    def on_train_start(self, *_: Any) -> None:
        """Starts the clock."""
        self.started = time.perf_counter()

    def on_train_end(self, *_: Any) -> None:
        """Stops the clock."""
        self.stopped = time.perf_counter()

    def on_train_batch_end(self, _trainer: Any, _module: Any, _outputs: Any, batch: Any, *_: Any) -> None:
        """Counts the windows."""
        self.samples += len(batch.target)

    def on_validation_start(self, *_: Any) -> None:
        """Starts the clock of a validation. Its first figures wait for a GPU to finish the training steps before."""
        self.validation_started = time.perf_counter()

    def on_validation_end(self, *_: Any) -> None:
        """Stops the clock of a validation."""
        self.validation_seconds += time.perf_counter() - self.validation_started

    def state_dict(self) -> dict[str, Any]:
        """The sums so far."""
        return {"seconds": self._seconds(), "validation_seconds": self._validation_seconds(), "samples": self.samples}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from the sums of the legs before."""
        self.before = {key: state_dict[key] for key in self.before}
        self.samples = state_dict["samples"]

    def figures(self, trainer: pl.Trainer) -> dict[str, Any]:
        """The block `cost` of metrics.json."""
        training = self._seconds() - self._validation_seconds()
        return {
            "train_seconds": self._seconds(),
            "train_samples_per_second": self.samples / training if training > 0 else None,
            "peak_memory_mb": self.memory.megabytes(trainer.strategy.root_device),
            "device": trainer.strategy.root_device.type,
            "precision": str(trainer.precision),
        }

    def _seconds(self) -> float:
        leg = (self.stopped or time.perf_counter()) - self.started if self.started else 0.0
        return self.before["seconds"] + leg

    def _validation_seconds(self) -> float:
        return self.before["validation_seconds"] + self.validation_seconds
