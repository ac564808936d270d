"""Several processes that train one model together."""

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies.launchers import _MultiProcessingLauncher, _SubprocessScriptLauncher

from forecast.errors import UserError


def check_processes(trainer: pl.Trainer, *, strategy: object, in_sweep: bool) -> None:
    """Raises UserError when processes would be started by running the command again, and the command is a sweep."""
    if in_sweep and isinstance(trainer.strategy.launcher, _SubprocessScriptLauncher):
        raise UserError(
            f"trainer.strategy={strategy} in a sweep (-m): each of its processes would run the "
            "whole sweep again. Say trainer.strategy=ddp_spawn, or trainer=default trainer.devices=1 for one process "
            "per run, or give each run a command of its own."
        )


def were_spawned(trainer: pl.Trainer) -> bool:
    """Whether the training ran in processes of its own: what its callbacks counted is in its checkpoints alone."""
    return isinstance(trainer.strategy.launcher, _MultiProcessingLauncher)


class SameFolder(Callback):
    """All processes must write to one folder. Raises UserError before the first step when they do not."""

    def on_fit_start(self, trainer: pl.Trainer, *_: Any) -> None:
        """Compares with the first process."""
        here = str(Path(trainer.default_root_dir).absolute())
        first = trainer.strategy.broadcast(here)
        if here != first:
            raise UserError(
                f"process {trainer.global_rank} would write to {here}, the first one to {first}. Say "
                "hydra.run.dir=FOLDER for all of them, or torchrun --rdzv-id=NAME."
            )
