"""The calibration of a trained model, added to its checkpoint, by weights that each half of val has chosen.

best.ckpt is chosen by all validation windows, so its errors there are too small to say how far its next forecasts may
miss. Those of the weights that one half chose, on the windows of the other half, are not.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import numpy.typing as npt
import torch
from lightning.pytorch.callbacks import Callback, WeightAveraging
from torch import Tensor, nn

from forecast.checkpoint.load import load_checkpoint, read_plain
from forecast.checkpoint.model import build_model
from forecast.checkpoint.record import RECORD
from forecast.data.prepare import Prepared
from forecast.data.split import Split
from forecast.data.values.cells import IntArray
from forecast.errors import UserError
from forecast.evaluation.calibrate import ValPart, block_count, calibrate
from forecast.evaluation.conformal import CALIBRATION, blocks_needed
from forecast.evaluation.scored_intervals import name_of, windows_needed
from forecast.run_folder import checkpoint_path
from forecast.training.checkpoint import CheckpointFiles, write_checkpoint

log = logging.getLogger(__name__)
NO_SPLIT = "Take a shorter pred_len."


def check_levels(levels: Sequence[float], data: Prepared, split: Split, *, typed: bool) -> bool:
    """Says which levels the validation windows are too few for; UserError where they were asked for by name.

    Where no split gives enough for any, returns True: the errors of all steps together are to do.
    """
    windows = data.windows("val")
    blocks = block_count(windows, data.pred_len)
    few = too_few(levels, blocks, split, data.frame.lengths, seq_len=data.seq_len, pred_len=data.pred_len)
    if not few:
        return False
    if few.endswith(NO_SPLIT) and len(windows) and blocks < blocks_needed(min(levels)):
        log.warning("Intervals are of the errors of all steps together, and may well be too narrow: for %s", few)
        return True
    if typed:
        kept = ",".join(name_of(level) for level in levels if blocks_needed(level) <= blocks)
        raise UserError(f"level: no intervals of {few} Or ask for level=[{kept}].")
    log.warning("No intervals of %s", few)
    return False


def too_few(
    levels: Sequence[float],
    blocks: int,
    split: Split,
    lengths: IntArray,
    *,
    seq_len: int,
    pred_len: int,
) -> str:
    """Which levels so many validation windows are too few for, and words that give the first; "" where they serve all.

    split, lengths (S,): of the data.
    """
    if not (beyond := [level for level in levels if blocks_needed(level) > blocks]):
        return ""
    needed, first = blocks_needed(min(beyond)), name_of(min(beyond))
    words = split.for_intervals(needed, lengths, least=seq_len + pred_len, pred_len=pred_len)
    fix = f"For those of {first} %: {words}" if words else NO_SPLIT[:-1]
    names = ", ".join(map(name_of, beyond))
    return f"{names} %: validation holds {blocks} windows that do not overlap, and {windows_needed(beyond)}. {fix}."


def add_calibration(
    path: Path, folder: Path, data: Prepared, *, levels: Sequence[float], device: torch.device, together: bool = False
) -> None:
    """Calibrates the intervals of a checkpoint on the validation windows, and writes them into it.

    folder: of the run. together: whether the errors of all steps count as those of one. Where the halves of these
    windows have chosen weights of their own, each half is forecast with the choice of the other.
    """
    checkpoint = load_checkpoint(path)
    count = len(data.windows("val"))
    parts = [ValPart(model=checkpoint.model().to(device), windows=range(count))]
    if chosen := chosen_weights(folder):
        first, second = (checkpoint.model().to(device) for _ in HALVES)
        for model, half in zip((first, second), HALVES, strict=True):
            model.load_state_dict(chosen[half])
        middle = count // 2
        parts = [ValPart(model=second, windows=range(middle)), ValPart(model=first, windows=range(middle, count))]
    calibration = calibrate(
        parts,
        data,
        levels=levels,
        batch_size=checkpoint.config.data.batch_size,
        device=device,
        crossed=bool(chosen),
        together=together,
    )
    if calibration is not None:
        write_entry(path, CALIBRATION, {**calibration.state(), "targets": list(data.target_names)})


def add_own_calibration(path: Path, data: Prepared, *, levels: Sequence[float]) -> bool:
    """Calibrates a fitted model without weights by what it errs on the rows that it learned from, all steps together.

    Of a horizon that these rows do not hold after their first half, so many steps as that has are judged. Returns
    whether there is an interval: one row alone has no error.
    """
    checkpoint = load_checkpoint(path)
    learned = data.splits["train"]
    pred_len = min(data.pred_len, max(1, int((learned.stop - learned.first).max()) // 2))
    config = replace(checkpoint.config, pred_len=pred_len)
    model = build_model(config, checkpoint.record.data).eval()
    data = replace(data, pred_len=pred_len, splits={**data.splits, "val": learned})
    parts = [ValPart(model=model, windows=range(len(data.windows("val"))))]
    own = calibrate(
        parts, data, levels=levels, batch_size=config.data.batch_size, device=torch.device("cpu"), together=True
    )
    if own is not None:
        own = replace(own, margins=own.margins[:, :1].expand(-1, checkpoint.config.pred_len, -1))
        write_entry(path, CALIBRATION, {**own.state(), "targets": list(data.target_names)})
    return own is not None


def write_entry(path: Path, key: str, value: object) -> None:
    """Adds an entry to the record of a checkpoint. UserError where it cannot be written."""
    content = read_plain(path)
    content[RECORD][key] = value
    write_checkpoint(path, content)


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
