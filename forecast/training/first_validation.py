"""A validation before the first step, of a model that forecasts untrained."""

import lightning.pytorch as pl
from lightning.pytorch.callbacks import Callback


class FirstValidation(Callback):
    """Validates before the first step of a new training: epoch 0 may stay the best one."""

    def __init__(self) -> None:
        self.done = False

    def on_train_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Validates, as Lightning does at the end of an epoch."""
        if self.done or trainer.global_step or not trainer.limit_val_batches:
            return
        self.done = True
        trainer.validating = True
        first = trainer._logger_connector._first_loop_iter
        trainer.fit_loop.epoch_loop.val_loop.run()
        trainer.training = True
        trainer._logger_connector._first_loop_iter = first

    def state_dict(self) -> dict[str, object]:
        """Whether it was done."""
        return {"done": self.done}

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """A run that goes on has done it."""
        self.done = bool(state_dict["done"])
