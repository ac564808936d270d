"""What ends a training before its last epoch: early stopping, NaN or inf, Ctrl-C, SIGTERM, SIGHUP."""

import logging
import math
import os
import signal
import threading
from dataclasses import dataclass

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, Checkpoint, EarlyStopping
from torch.optim import Optimizer

from forecast.bounds import FromZero, Positive
from forecast.errors import Terminated, UserError
from forecast.training.checkpoint import best_by, is_between_batches, monitored, resume_hint, save_checkpoint

log = logging.getLogger(__name__)


class EarlyStop(EarlyStopping):
    """Ends the training when `patience` validations in a row did not lower the error that chooses best.ckpt.

    Or when that is not finite. min_delta: what counts as lower, in units of that error.
    """

    def __init__(self, *, patience: Positive = 3, min_delta: FromZero = 0.0) -> None:
        # not at the end of an epoch: without validations there is nothing to stop on
        name = monitored("mse")
        super().__init__(name, patience=patience, min_delta=min_delta, check_on_train_epoch_end=False)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Takes the error from what writes best.ckpt."""
        self.monitor = best_by(trainer)
        super().setup(trainer, pl_module, stage)

    def on_train_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Keeps a run that had stopped from training again."""
        trainer.should_stop = trainer.should_stop or self.wait_count >= self.patience

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Continues counting, with the patience of this command."""
        super().load_state_dict({**state_dict, "patience": self.patience})


@dataclass(frozen=True)
class _Reached:
    """Where the training is before a step of the optimizer. batch: its number in the epoch; None: nobody counts."""

    number: int
    epoch: int
    batch: int | None


class StopOnNonFinite(Callback):
    """Stops before a step whose loss or gradients are NaN or inf: the weights stay those of the step before.

    In float16 the gradients alone may overflow: there the scaler leaves such a step out, which is no fault.

    every: steps after which the check is read, also before a validation, a checkpoint and the end of an epoch. Until
    then the optimizer leaves the step and all that follow it out. None: each step, on a GPU STEPS, since reading waits
    for it; an optimizer that cannot leave a step out is always read.
    """

    STEPS = 50

    def __init__(self, every: int | None = None) -> None:
        self.every = every
        self.steps: list[_Reached] = []  # that were not read yet
        self.names: list[str] = []
        # on the device: the first bad of these, or -1; its loss and flags; how many there are; whether one is bad. A
        # recorded step writes into the same places each time
        self.first = self.loss = self.finite = self.count = self.skip = torch.empty(0)

    def on_before_optimizer_step(self, trainer: pl.Trainer, module: pl.LightningModule, optimizer: Optimizer) -> None:
        """Raises UserError that names the step, the windows and the last good checkpoint."""
        loss = module.loss
        assert isinstance(loss, torch.Tensor)
        self.check_step(trainer, module, optimizer, loss)
        self.count_step(trainer, optimizer)

    def check_step(
        self, trainer: pl.Trainer, module: pl.LightningModule, optimizer: Optimizer, loss: torch.Tensor
    ) -> None:
        """Marks a step that is not finite, without waiting for the device; the optimizer leaves it out."""
        gradients = {name: p.grad for name, p in module.named_parameters()}
        names = [name.removeprefix("model.") for name in gradients]
        if names != self.names or self.first.device != loss.device:
            self.names, device = names, loss.device
            self.first, self.count = (torch.full((), n, device=device) for n in (-1, 0))
            self.loss, self.skip = (torch.zeros((), device=device, dtype=torch.float32) for _ in range(2))
            self.finite = torch.ones(1 + len(names), dtype=torch.bool, device=device)
        held = [] if trainer.precision.startswith("16") else [g for g in gradients.values() if g is not None]
        # the largest elements: Euclidean norms would overflow before the gradients do
        norms = iter(torch._foreach_norm(held, math.inf) if held else [])
        none = loss.new_zeros((), dtype=torch.float32)
        sizes = [next(norms, none).to(loss.device).float() if g is not None else none for g in gradients.values()]
        finite = torch.stack([loss.float(), *sizes]).isfinite()
        bad = (self.first < 0) & ~finite.all()
        self.first.copy_(torch.where(bad, self.count, self.first))
        self.loss.copy_(torch.where(bad, loss, self.loss))
        self.finite.copy_(torch.where(bad, finite, self.finite))
        self.count += 1
        self.skip.copy_(self.first >= 0)
        if self._may_skip(trainer, optimizer) and self._every(loss.device) > 1:
            optimizer.found_inf = self.skip  # type: ignore[attr-defined]

    def count_step(self, trainer: pl.Trainer, optimizer: Optimizer) -> None:
        """Counts a checked step, and reads where so many wait or the optimizer cannot leave one out."""
        batches = getattr(trainer.datamodule, "batches", None)  # type: ignore[attr-defined]
        batch = None if batches is None else batches.position["batches"] - 1
        self.steps.append(_Reached(trainer.global_step, trainer.current_epoch, batch))
        if len(self.steps) >= self._every(self.first.device) or not self._may_skip(trainer, optimizer):
            self.read(trainer)

    def _every(self, device: torch.device) -> int:
        return self.every or (self.STEPS if device.type == "cuda" else 1)

    def _may_skip(self, trainer: pl.Trainer, optimizer: Optimizer) -> bool:
        return getattr(optimizer, "_step_supports_amp_scaling", False) and not trainer.precision.startswith("16")

    def on_validation_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Reads: a validation waits for the GPU anyway, and chooses best.ckpt."""
        self.read(trainer)

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: object) -> None:
        """Reads: the next epoch has another order of windows."""
        self.read(trainer)

    def on_save_checkpoint(self, trainer: pl.Trainer, *_: object) -> None:
        """Reads: a checkpoint of a training that has diverged is none."""
        self.read(trainer)

    def read(self, trainer: pl.Trainer) -> None:
        """Raises UserError for the first step since the last reading that was not finite."""
        steps, self.steps = self.steps, []
        if not steps:
            return
        self.count.zero_()
        if (place := int(self.first)) < 0:
            return
        step, names = steps[place], ["", *self.names]
        name = names[int(self.finite.int().argmin())]
        problem = f"the gradient of {name} is not finite" if name else f"the loss is {self.loss.item()}"
        origins = trainer.datamodule.origins_of_step(step.batch)  # type: ignore[attr-defined]
        if origins is None:
            windows = "on the windows that trainer.overfit_batches chose"
        else:
            log.info("The windows of the step, by their last known timestamps: %s", ", ".join(map(str, origins)))
            windows = (
                f"on {len(origins)} windows whose last known timestamps lie between {origins[0]} and {origins[-1]}"
            )
        raise UserError(
            f"step {step.number + 1} (epoch {step.epoch + 1}): {problem}, {windows}. "
            "The training has diverged: try a lower optim.lr or trainer.gradient_clip_val=1.0 in a new run. "
            + resume_hint(trainer.default_root_dir, "If the cause was temporary (a GPU, an override)")
        )


class StopOnSignal(Checkpoint):
    """The first Ctrl-C ends the training after the running step, when last.ckpt is exact; the second ends it at once.

    SIGTERM, by which schedulers end a job, and SIGHUP, of a terminal that is closed, do as the first one does. A
    Checkpoint to Lightning, so that it is called after `CheckpointFiles`. Several processes would stop at different
    steps: they end at once.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.terminals: list[int] = []

    def on_train_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Takes over Ctrl-C and SIGHUP where they are not ignored, as in the background of a shell or under nohup.

        Lightning restores the handlers of before the training, however it ends.
        """
        if trainer.world_size > 1 or threading.current_thread() is not threading.main_thread():
            return
        self.terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
        for number in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)):  # Windows has no SIGHUP
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._on_signal)

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        """Stops, unless a validation follows: then after it."""
        terminated = trainer.received_sigterm and trainer.world_size == 1
        if (self.received or terminated) and is_between_batches(trainer) and not trainer.fit_loop._should_accumulate():
            save_checkpoint(trainer, "last")
            self._stop(trainer)  # after SIGTERM Lightning itself ends the training now

    def on_validation_end(self, trainer: pl.Trainer, *_: object) -> None:
        """Stops."""
        if not trainer.sanity_checking:
            self._stop(trainer)

    def _stop(self, trainer: pl.Trainer) -> None:
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        if self.received:
            first = "SIGHUP ended the training: its terminal was closed. Start it with nohup or in tmux"
            raise Terminated(resume_hint(trainer.default_root_dir, first), self.received)

    def _on_signal(self, number: int, *_: object) -> None:
        if number == signal.SIGINT and self.received:
            raise KeyboardInterrupt
        self.received = number
        for descriptor in self.terminals:  # a closed one refuses what is written; the progress bar would end the run
            if not os.isatty(descriptor):
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        if number == signal.SIGINT:
            log.warning("Interrupted: the training ends after this step. Ctrl-C again ends it at once.")
