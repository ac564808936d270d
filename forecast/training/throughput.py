"""How fast a training is: windows a second, what held it up, and peak memory."""

import contextlib
import ctypes
import gc
import re
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from forecast.data.windows import Batch
from forecast.run_folder.shapes import Block

Moment = float | torch.cuda.Event  # on a GPU one in its queue

WAITING_SHARE = 0.2  # of the time: a training that waits for data longer than that gets a hint


class Throughput(Callback):
    """Measures the training over all its legs, when it is interrupted and continued.

    train_seconds: from the first batch to the end of the fit, validations included. train_samples_per_second: train
    windows of all processes by these seconds less those of validations. train_limit_samples_per_second: the same by
    the seconds inside training steps (forward, backward, optimizer), the rest being that in which this process or its
    GPU stood idle. peak_memory_mb: of the last leg, of the GPU on a GPU, else of the process.

    A GPU works long after the program has queued a step, so its steps lie between events in its own queue, which are
    read when it has passed them; only the end of the training waits for that.
    """

    def __init__(self, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self.memory = PeakMemory()
        self.clock = clock
        self.device = torch.device("cpu")
        self.total = self.validating = self.computing = self.waiting = 0.0  # seconds over all legs
        self.samples = 0
        self.counted_until: float | None = None  # no time is counted outside the fit
        self.step_begin: Moment = 0.0
        self.steps: deque[tuple[Moment, Moment]] = deque()  # begin and end of those that a GPU may not have passed yet
        self.at_epoch = (0.0, 0)  # seconds of training and samples when the epoch began

    @property
    def state_key(self) -> str:
        """The name under which checkpoints keep it since format 1."""
        return "Cost"

    def on_train_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Starts the clock."""
        self.device = trainer.strategy.root_device
        self.counted_until = self.clock()
        self.at_epoch = self._so_far()

    def on_train_epoch_start(self, *_: object) -> None:
        """Starts the rate of an epoch."""
        self.at_epoch = self._so_far()

    def on_train_end(self, *_: object) -> None:
        """Stops the clock."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self._read_steps()
        self.on_exception()

    def on_exception(self, *_: object) -> None:
        """Stops the clock: what follows an interrupted training is not counted."""
        self._count()
        self.counted_until = None

    def on_train_batch_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Ends what lay between two steps."""
        self.waiting += getattr(trainer.train_dataloader, "waited", 0.0)
        self.step_begin = self.moment()

    def on_train_batch_end(
        self, trainer: pl.Trainer, _module: object, _outputs: object, batch: Batch, *_: object
    ) -> None:
        """Counts the windows; those of the processes differ by one at most."""
        self.steps.append((self.step_begin, self.moment()))
        self._read_steps()
        self.samples += len(batch.target) * trainer.world_size

    def on_validation_start(self, *_: object) -> None:
        """The seconds until `on_validation_end` are a validation's."""
        self._count()

    def on_validation_end(self, *_: object) -> None:
        """Counts the seconds of a validation, whose first figures wait for a GPU to finish the steps before it."""
        self.validating += self._count()

    def state_dict(self) -> dict[str, object]:
        """The sums so far."""
        self._count()
        return {
            "seconds": self.total,
            "validation_seconds": self.validating,
            "computing_seconds": self.computing,
            "waiting_seconds": self.waiting,
            "samples": self.samples,
        }

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        """Goes on from the sums of the legs before."""
        self.total, self.validating = state_dict["seconds"], state_dict["validation_seconds"]
        self.computing, self.waiting = state_dict["computing_seconds"], state_dict["waiting_seconds"]
        self.samples = int(state_dict["samples"])

    def metrics(self, trainer: pl.Trainer) -> Block:
        """The block `cost` of metrics.json."""
        training, samples = self._so_far()
        return {
            "train_seconds": self.total,
            "train_samples_per_second": samples / training if training > 0 else None,
            "train_limit_samples_per_second": samples / self.computing if self.computing > 0 else None,
            "peak_memory_mb": self.memory.megabytes(trainer.strategy.root_device),
            "device": trainer.strategy.root_device.type,
            "precision": str(trainer.precision),
        }

    def sentences(self) -> list[str]:
        """How near the training came to the speed of its steps alone, and what to do when data held it up.

        Empty without a step.
        """
        training, samples = self._so_far()
        idle = max(0.0, 1.0 - self.computing / training) if training > 0 else 1.0
        inside = 1.0 - idle
        if not samples or inside <= 0.0:
            return []
        # fetching that overlaps with a GPU's work does not hold it up: it waits at most as long as it is idle
        waiting = min(self.waiting / training, idle)
        rate, used, waited = samples / training, round(100 * inside), round(100 * waiting)
        sentences = [
            f"Speed: {rate:.0f} samples/s, {used} % of what the model alone allows ({rate / inside:.0f}): {waited} % "
            f"waited for data, {max(0, 100 - used - waited)} % in checkpoints, pictures and logging."
        ]
        if waiting > WAITING_SHARE:
            sentences.append(
                "Data, not the model, set the pace: try a larger data.batch_size, and see that the machine's memory, "
                "or a quarter of what the GPU has free, holds the whole series."
            )
        return sentences

    def moment(self) -> Moment:
        """Now, for the device that computes: seconds on a CPU, an event in the queue of a GPU."""
        if self.device.type != "cuda":
            return self.clock()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def _read_steps(self) -> None:
        """Adds the steps that are over."""
        while self.steps:
            begin, end = self.steps[0]
            if isinstance(begin, float) and isinstance(end, float):
                self.computing += end - begin
            elif not isinstance(begin, float) and not isinstance(end, float) and end.query():  # type: ignore[no-untyped-call]
                self.computing += begin.elapsed_time(end) / 1e3
            else:
                break
            self.steps.popleft()

    def _count(self) -> float:
        """Adds the seconds since the last call, and returns them."""
        if self.counted_until is None:
            return 0.0
        now = self.clock()
        seconds, self.counted_until = now - self.counted_until, now
        self.total += seconds
        return seconds

    def _so_far(self) -> tuple[float, int]:
        """Seconds of training, without validations, and samples."""
        self._count()
        return self.total - self.validating, self.samples

    def epoch_rate(self) -> float:
        """Windows a second of this epoch."""
        seconds, samples = self._so_far()
        return (samples - self.at_epoch[1]) / max(seconds - self.at_epoch[0], 1e-9)


class PeakMemory:
    """The most memory held since this object was made: of the GPU on a GPU, else of the process.

    A process knows its own high-water mark, which an earlier run in it may have set; Linux lets it be reset. Elsewhere
    the figure is None.
    """

    def __init__(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        # what earlier runs in this process have freed goes back to the system, where the C library can do that
        gc.collect()
        with contextlib.suppress(OSError, TypeError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
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
        match = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
        return int(match[1]) * 1024 / 1e6 if match else None
