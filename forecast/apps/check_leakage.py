"""Shows that a checkpoint's forecasts owe nothing to the future.

The checks of `forecast.evaluation.leakage`, on the data that the checkpoint was trained on; train runs them before a
training (checks.leakage=true).
"""

import argparse
from collections.abc import Callable
from functools import partial

import torch

from forecast.apps.common.inputs import evaluated_data, find_device, trained_source
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.data.prepare import Prepared
from forecast.errors import UserError
from forecast.evaluation import leakage
from forecast.evaluation.leakage import check_borders
from forecast.evaluation.leakage_windows import CHECKED_WINDOWS, NothingShown, check_training_outputs
from forecast.models.base import ForecastModel
from forecast.text.terminal import say


def main(arguments: argparse.Namespace) -> None:
    """Runs every check, a line each. Raises UserError with what leaks."""
    checkpoint = load_checkpoint(arguments.checkpoint)
    data = evaluated_data(checkpoint, trained_source(checkpoint, root=arguments.root), None, split=arguments.split)
    if checkpoint.refit is not None:
        say(
            f"{checkpoint.path} has learned from the rows up to {checkpoint.trained_until}, so no split of them is "
            "held out: what is checked is the scaler, which is that of the train rows of best.ckpt, and that no "
            "forecast reads what follows its origin; whether the stored figures are those of best.ckpt is not."
        )
    leaks = run_checks(checkpoint, data, split=arguments.split)
    if leaks:
        raise UserError("\n".join(leaks))


def claims(
    model: ForecastModel, data: Prepared, windows: str, *, split: str, device: torch.device
) -> list[tuple[str, Callable[[], None]]]:
    """What is claimed, and the check that shows it. windows: how many of which split."""
    train = data.splits["train"]
    return [
        (
            f"scaler: computed from the {int((train.stop - train.first).sum())} train rows",
            partial(leakage.check_scaler, data),
        ),
        (f"splits: no row is forecast in two of {', '.join(data.splits)}", partial(leakage.check_splits, data)),
        (
            "borders: filled, scaled and fitted bitwise the same with noise after each split",
            partial(check_borders, data),
        ),
        (
            f"forecasts: of {windows}, bitwise the same with noise after their origins, in all series",
            partial(leakage.check_forecasts, model, data, split=split, device=device),
        ),
    ]


def run_checks(checkpoint: Checkpoint, data: Prepared, *, split: str) -> list[str]:
    """Prints a line for each check, and returns what leaks."""
    device = find_device("auto")
    model = checkpoint.model().to(device)
    assert isinstance(model, ForecastModel)
    windows = f"{min(CHECKED_WINDOWS, len(data.windows(split)))} {split} windows"
    checks = claims(model, data, windows, split=split, device=device)
    claim = f"training: on {windows}, no prediction of a step depends on that step or a later one"
    checks.append((claim, partial(check_training_outputs, model, data, split=split, device=device)))
    leaks = []
    for claim, check in checks:
        try:
            check()
        except UserError as error:
            leaks.append(str(error))
            say("unknown" if isinstance(error, NothingShown) else "LEAK ", claim.split(":")[0], flush=True)
        else:
            say("ok   ", claim, flush=True)
    return leaks
