"""Which epoch each half of the validation windows would choose: the other half has no part in that choice.

best.ckpt is chosen by all validation windows, so its errors there are too small to say how far its next forecasts may
miss. Those of the weights that one half chose, on the windows of the other half, are not.
"""

import math
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import numpy.typing as npt
from lightning.pytorch.callbacks import Callback, WeightAveraging
from torch import Tensor, nn

from forecast.checkpoint.archive import read_plain
from forecast.run_folder import checkpoint_path
from forecast.training.checkpoint import CheckpointFiles, write_checkpoint

HALVES = ("first", "second")


def logged(half: str, error: str) -> str:
    """What the module calls the error of a half of the validation windows. error: mse or mae."""
    return f"val/{error}_of_{half}_half"


def half_means(errors: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The means over the first and the second half of the windows (W,), the one in the middle in the second."""
    middle = len(errors) // 2
    return (float(errors[:middle].mean()) if middle else math.nan), float(errors[middle:].mean())


def half_path(folder: str | Path, half: str) -> Path:
    """Where the weights lie that a half chose: they are no checkpoint."""
    return checkpoint_path(folder, f"chosen_by_{half}_half").with_suffix(".pt")


class CrossFit(Callback):
    """Keeps the weights of the lowest error on each half of the validation windows, beside best.ckpt."""

    def __init__(self) -> None:
        self.best = dict.fromkeys(HALVES, math.inf)
        self.error = "mse"

    def setup(self, trainer: pl.Trainer, *_: object, **__: object) -> None:
        """Takes the error from what writes best.ckpt."""
        for other in trainer.checkpoint_callbacks:
            if isinstance(other, CheckpointFiles):
                self.error = other.monitor.removeprefix("val/").removesuffix("_scaled")

    def on_train_start(self, trainer: pl.Trainer, *_: object) -> None:
        """Forgets the best errors of another run: there are no weights of this one yet."""
        for half in HALVES:
            if not half_path(trainer.default_root_dir, half).exists():
                self.best[half] = math.inf

    def on_validation_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Writes the weights where a half errs less than before."""
        if trainer.sanity_checking:
            return
        for half in HALVES:
            error = float(trainer.callback_metrics.get(logged(half, self.error), math.nan))
            if error < self.best[half]:
                self.best[half] = error
                if trainer.is_global_zero:
                    write_half(trainer.default_root_dir, half, validated_model(trainer, module).state_dict())

    def state_dict(self) -> dict[str, object]:
        """What a checkpoint keeps of this callback."""
        return dict(self.best)

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        """Continues with the best errors of the run that is resumed."""
        self.best = {half: float(state_dict.get(half, math.inf)) for half in HALVES}


def write_half(folder: str | Path, half: str, weights: dict[str, Tensor]) -> None:
    """Writes the weights that a half chose. UserError where they cannot be written."""
    write_checkpoint(half_path(folder, half), {name: weight.detach().cpu() for name, weight in weights.items()})


def validated_model(trainer: pl.Trainer, module: pl.LightningModule) -> nn.Module:
    """The model with the weights that a validation is of: an average of them, where one is kept."""
    callbacks: list[Callback] = trainer.callbacks  # type: ignore[attr-defined]
    averages = [callback._average_model for callback in callbacks if isinstance(callback, WeightAveraging)]
    kept = next((average.module for average in averages if average is not None), module)
    return kept.get_submodule("model")


def chosen_weights(folder: Path) -> dict[str, dict[str, Tensor]]:
    """The weights that each half chose; empty where there are not both."""
    paths = {half: half_path(folder, half) for half in HALVES}
    return {half: read_plain(path) for half, path in paths.items()} if all(p.exists() for p in paths.values()) else {}
