"""Writing checkpoints."""

import math
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Checkpoint, EarlyStopping

MONITOR = "val/mse_scaled"


class CheckpointFiles(Checkpoint):
    """Keeps two files in RUN/checkpoints: best.ckpt, of the lowest validation MSE, and last.ckpt.

    best.ckpt is written after a validation only, and only for a finite, strictly lower MSE. last.ckpt is written every
    `every_n_train_steps` steps, after each validation and at the end. A file is written beside its place and renamed
    into it, so that a run killed while writing leaves the previous one.
    """

    def __init__(self, *, every_n_train_steps: int = 500) -> None:
        if every_n_train_steps < 1:
            raise ValueError(
                f"callbacks.checkpoint.every_n_train_steps is {every_n_train_steps}; it must be at least 1"
            )
        self.every_n_train_steps = every_n_train_steps
        self.best_mse = math.inf
        self.saved_step = 0

    def on_train_start(self, trainer: pl.Trainer, *_: Any) -> None:
        """A run that starts from another run's checkpoint has no best.ckpt of its own yet."""
        self.saved_step = trainer.global_step
        if not checkpoint_path(trainer.default_root_dir, "best").exists():
            self.best_mse = math.inf

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Writes last.ckpt every N steps."""
        step = trainer.global_step
        if step % self.every_n_train_steps == 0 and step != self.saved_step:  # some batches only gather gradients
            self.saved_step = step
            self._save(trainer, "last")

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Writes best.ckpt when the validation MSE is the lowest yet, and last.ckpt."""
        if trainer.sanity_checking:
            return
        mse = float(trainer.callback_metrics.get(MONITOR, math.nan))
        if mse < self.best_mse:  # never true for NaN
            self.best_mse = mse
            module.record["best_step"] = trainer.global_step  # type: ignore[operator,index]
            self._save(trainer, "best")
        self._save(trainer, "last")

    def on_train_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Writes last.ckpt."""
        self._save(trainer, "last")

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of this callback."""
        return {"best_mse": self.best_mse}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on with the best MSE of the run that is continued."""
        self.best_mse = state_dict["best_mse"]

    def _save(self, trainer: pl.Trainer, name: str) -> None:
        path = checkpoint_path(trainer.default_root_dir, name)
        unfinished = path.with_suffix(".part")
        trainer.save_checkpoint(unfinished, weights_only=False)  # weights alone could not be resumed from
        if trainer.is_global_zero:
            unfinished.replace(path)


class EarlyStop(EarlyStopping):
    """Ends the training when `patience` validations in a row did not lower the validation MSE, or it is not finite."""

    def __init__(self, *, patience: int = 3) -> None:
        # not at the end of an epoch: without validations there is nothing to stop on
        super().__init__(MONITOR, patience=patience, check_on_train_epoch_end=False)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on counting, with the patience that is asked for now."""
        super().load_state_dict({**state_dict, "patience": self.patience})


def checkpoint_path(run_dir: str | Path, name: str) -> Path:
    """RUN/checkpoints/best.ckpt or last.ckpt."""
    return Path(run_dir) / "checkpoints" / f"{name}.ckpt"
