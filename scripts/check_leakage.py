"""Shows that a checkpoint's forecasts owe nothing to the future. Usage: python scripts/check_leakage.py CKPT [--help]

The checks of `forecast.evaluation.leakage`, on the data that the checkpoint was trained on; train.py runs them before
a training (checks.leakage=true). Exit status 1 when something leaks, or when a file is missing or has changed.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forecast.checkpoint.load import Checkpoint
    from forecast.data.prepare import PreparedData


def main() -> None:
    """Runs every check, a line each; what leaks goes to stderr."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0].split(" Usage")[0])
    parser.add_argument("checkpoint", metavar="CKPT", type=Path, help="RUN/checkpoints/best.ckpt")
    parser.add_argument("--root", metavar="DIR", help="where the data's file lies now; default: where it lay")
    parser.add_argument("--split", default="test", help="whose windows are tried: train, val or test (default)")
    arguments = parser.parse_args()

    from forecast.checkpoint.load import load_checkpoint
    from forecast.errors import UserError

    try:
        checkpoint = load_checkpoint(arguments.checkpoint)
        leaks = run_checks(checkpoint, prepared(checkpoint, arguments), split=arguments.split)
    except UserError as error:
        sys.exit(str(error))
    if leaks:
        sys.exit("\n".join(leaks))


def prepared(checkpoint: "Checkpoint", arguments: argparse.Namespace) -> "PreparedData":
    """The checkpoint's own data. Raises UserError when they have changed or have no such split."""
    from forecast.commands.evaluate import evaluated_data
    from forecast.commands.inputs import trained_source
    from forecast.config.settings import EvaluateSettings, OtherData

    settings = EvaluateSettings(
        ckpt_path=str(checkpoint.path),
        split=arguments.split,
        device="auto",
        data=OtherData(path=None, root=arguments.root, batch_size=None),
    )
    return evaluated_data(checkpoint, trained_source(checkpoint, root=arguments.root), settings)


def run_checks(checkpoint: "Checkpoint", data: "PreparedData", *, split: str) -> list[str]:
    """Prints a line for each check, and returns what leaks."""
    from forecast.commands.inputs import find_device
    from forecast.errors import UserError
    from forecast.evaluation import leakage
    from forecast.models.base import ForecastModel

    device = find_device("auto")
    model = checkpoint.model().to(device)
    assert isinstance(model, ForecastModel)
    windows = f"{min(leakage.CHECKED_WINDOWS, len(data.windows(split)))} {split} windows"
    checks: list[tuple[str, Callable[[], None]]] = [
        (f"scaler: computed from the {len(data.splits['train'])} train rows", partial(leakage.check_scaler, data)),
        (f"splits: no row is forecast in two of {', '.join(data.splits)}", partial(leakage.check_splits, data)),
        (
            f"forecasts: of {windows}, bitwise the same with noise after their origins",
            partial(leakage.check_forecasts, model, data, device=device, split=split),
        ),
        (
            f"training: on {windows}, no prediction of a step depends on that step or a later one",
            partial(leakage.check_training_outputs, model, data, device=device, split=split),
        ),
    ]
    leaks = []
    for claim, check in checks:
        try:
            check()
        except UserError as error:
            leaks.append(str(error))
            print("LEAK ", claim.split(":")[0], flush=True)
        else:
            print("ok   ", claim, flush=True)
    return leaks


if __name__ == "__main__":
    main()
