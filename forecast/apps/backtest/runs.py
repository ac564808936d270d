"""The trainings of a backtest, as a sweep over its folds: what has finished stays, what was killed goes on."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from forecast.apps.common.backtest_files import RUNS, Fold, run_of_fold
from forecast.errors import UserError
from forecast.jobs.trainings import LOOK, reason_of, resumable, run_train, train
from forecast.run_folder import OUTPUT, read_run
from forecast.run_folder.lock import in_use
from forecast.text.overrides import hydra_value


def train_folds(
    folder: Path, folds: Sequence[Fold], words: Sequence[str], *, count: int, done: Callable[[Fold], None]
) -> None:
    """Trains each fold by `forecast train` with these overrides and hands it to `done` as soon as it has finished.

    They are the jobs of a sweep in a process of its own, by whichever hydra/launcher the words name. Where one was
    killed and has a checkpoint it goes on first. A fold that another process trains is waited for: a backtest
    that was killed may have left its sweep at work. count: of the folds of the backtest. UserError for one that fails,
    after the others.
    """
    left = list(folds)

    def collect() -> bool:
        for fold in list(left):
            if read_run(run_of_fold(folder, fold)).state == "finished":
                done(fold)
                left.remove(fold)
        return False  # a sweep at work is not stopped

    collect()
    for run in [run_of_fold(folder, fold) for fold in left]:
        if resumable(run):
            train((), run, lambda: False, threads=torch.get_num_threads())
    collect()
    while left:
        before = len(left)
        sweep = [
            *("-m", *words),
            f"data.split.fold={','.join('null' if fold is None else str(fold) for fold in left)}",
            f"hydra.sweep.dir={hydra_value(str(folder.absolute() / RUNS))}",
            f"hydra.sweep.subdir={'fold-all' if None in left else 'fold-${data.split.fold}'}",
        ]
        status = run_train(sweep, folder / OUTPUT, environment=os.environ, stopped=collect)
        elsewhere = any(in_use(run_of_fold(folder, fold)) for fold in left)
        collect()
        if left and not elsewhere and (status or len(left) == before):
            raise failed(folder, left[0], count)
        while any(in_use(run_of_fold(folder, fold)) for fold in left):
            time.sleep(LOOK)
        collect()


def failed(folder: Path, fold: Fold, count: int) -> UserError:
    """What to say of a fold that has ended without results."""
    run = read_run(run_of_fold(folder, fold))
    reason = reason_of(run, folder / OUTPUT) or "nothing was said"
    subject = "the training" if fold is None else f"fold {fold + 1} of {count}"
    return UserError(
        f"{subject} has failed: {reason.rstrip('.')}. What has finished is kept, and the same command runs the rest; "
        f"{folder / OUTPUT} has all that was said."
    )
