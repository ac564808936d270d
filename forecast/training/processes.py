"""Several processes that train one model together."""

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback

from forecast.errors import UserError


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
