"""Processes that train together: one folder for all, and how long each waits for the others.

Of several machines none knows whether another one is slow, stopped or cut off: there is only the time to wait.
"""

import datetime
from pathlib import Path

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from forecast.errors import UserError


class SameFolder(Callback):
    """All processes must write to one folder. Raises UserError before the first step when they do not."""

    def on_fit_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Compares with the first process."""
        here = str(Path(trainer.default_root_dir).absolute())
        first = trainer.strategy.broadcast(here)
        if here != first:
            raise UserError(
                f"process {trainer.global_rank} would write to {here}, the first one to {first}. Say "
                "hydra.run.dir=FOLDER for all of them, or torchrun --rdzv-id=NAME."
            )


def limit_waiting(trainer: pl.Trainer, seconds: float) -> None:
    """How long a process waits for the others, in the strategies that connect some; Lightning has no key for it."""
    if hasattr(trainer.strategy, "_timeout"):
        trainer.strategy._timeout = datetime.timedelta(seconds=seconds)
