"""What a run costs: seconds, windows a second, peak memory."""

import re
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback


class Cost(Callback):
    """Measures the training, validations included.

    train_seconds: from the first batch's start to the end of the fit. train_samples_per_second: train windows by the
    seconds spent in training batches alone. peak_memory_mb: of this run, see `PeakMemory`.
    """

    def __init__(self) -> None:
        self.memory = PeakMemory()
        self.started = self.batch_started = 0.0
        self.train_seconds = self.batch_seconds = 0.0
        self.samples = 0

    def on_train_start(self, *_: Any) -> None:
        """Starts the clock."""
        self.started = time.perf_counter()

    def on_train_batch_start(self, *_: Any) -> None:
        """Starts the clock of a batch."""
        self.batch_started = time.perf_counter()

    def on_train_batch_end(
        self, _trainer: pl.Trainer, _module: pl.LightningModule, _outputs: Any, batch: Any, *_: Any
    ) -> None:
        """Stops the clock of a batch."""
        self.batch_seconds += time.perf_counter() - self.batch_started
        self.samples += len(batch.target)

    def on_train_end(self, *_: Any) -> None:
        """Stops the clock."""
        self.train_seconds = time.perf_counter() - self.started

    def figures(self, trainer: pl.Trainer) -> dict[str, Any]:
        """The block `cost` of metrics.json."""
        return {
            "train_seconds": self.train_seconds,
            "train_samples_per_second": self.samples / self.batch_seconds if self.batch_seconds else None,
            "peak_memory_mb": self.memory.megabytes(trainer.strategy.root_device),
            "device": trainer.strategy.root_device.type,
            "precision": str(trainer.precision),
        }


class PeakMemory:
    """The most memory held since this object was made: of the GPU on a GPU, else of the process.

    A process knows its own high-water mark, which an earlier run in it may have set; Linux lets it be reset. Elsewhere
    the figure is None.
    """

    def __init__(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        try:
            Path("/proc/self/clear_refs").write_text("5")  # man 5 proc: resets VmHWM
            self.can_reset = True
        except OSError:
            self.can_reset = False

    def megabytes(self, device: torch.device) -> float | None:
        """Peak in 10^6 bytes."""
        if device.type == "cuda":
            return torch.cuda.max_memory_allocated(device) / 1e6
        if not self.can_reset:
            return None
        found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
        return int(found[1]) * 1024 / 1e6 if found else None
