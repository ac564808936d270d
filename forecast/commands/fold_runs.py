"""The trainings of a backtest, as a sweep over its folds: what has finished stays, what was killed goes on."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from forecast.commands.trainings import train
from forecast.config.trust import OPTION, trusted
from forecast.data.guessing.train_command import hydra_value
from forecast.errors import UserError
from forecast.run_folder import OUTPUT, checkpoint_path, read_run
from forecast.run_folder.lock import in_use

RUNS = "folds"
WAIT = 0.2  # seconds between two looks
MOST_THREADS = 1024
Fold = int | None  # None: one training for all folds


def run_of_fold(folder: Path, fold: Fold) -> Path:
    """The run folder of a fold's training."""
    return folder / RUNS / f"fold-{'all' if fold is None else fold}"


def best_of(folder: Path, fold: Fold) -> Path:
    """The checkpoint that a fold's training chose."""
    best, last = (checkpoint_path(run_of_fold(folder, fold).absolute(), name) for name in ("best", "last"))
    return best if best.exists() else last


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

    def collect() -> None:
        for fold in list(left):
            if read_run(run_of_fold(folder, fold)).state == "finished":
                done(fold)
                left.remove(fold)

    collect()
    for fold in left:
        go_on(run_of_fold(folder, fold))
    collect()
    while left:
        before, process = len(left), start_sweep(folder, left, words)
        try:
            while process.poll() is None:
                time.sleep(WAIT)
                collect()
        finally:
            if process.poll() is None:
                process.terminate()  # it writes last.ckpt, from which the same command goes on
                process.wait()
        elsewhere = any(in_use(run_of_fold(folder, fold)) for fold in left)
        collect()
        if left and not elsewhere and (process.returncode or len(left) == before):
            raise failed(folder, left[0], count)
        while any(in_use(run_of_fold(folder, fold)) for fold in left):
            time.sleep(WAIT)
        collect()


def go_on(run: Path) -> None:
    """Resumes a training that was killed or interrupted, where it has a checkpoint to go on from."""
    if not checkpoint_path(run, "last").is_file() or in_use(run):
        return
    before = read_run(run)
    if before.state in ("interrupted", "unfinished"):
        # as many threads as a launcher gave it: the last digits depend on them
        said = str(before.run_info.get("versions", {}).get("threads"))
        begun_with = int(said) if said.isdecimal() and 0 < int(said) <= MOST_THREADS else torch.get_num_threads()
        environment = {"OMP_NUM_THREADS": str(begun_with)}
        train((), run, lambda: False, threads=begun_with, environment=environment)


def start_sweep(folder: Path, folds: Sequence[Fold], words: Sequence[str]) -> "subprocess.Popen[bytes]":
    """`forecast train -m` over these folds; what it says goes to output.txt."""
    numbers = ",".join("null" if fold is None else str(fold) for fold in folds)
    subdir = "fold-all" if None in folds else "fold-${data.split.fold}"
    overrides = [
        *words,
        f"data.split.fold={numbers}",
        f"hydra.sweep.dir={hydra_value(str(folder.absolute() / RUNS))}",
        f"hydra.sweep.subdir={subdir}",
        "trainer.enable_progress_bar=false",
    ]
    options = [f"{OPTION}={module}" for module in sorted(trusted())]
    with (folder / OUTPUT).open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "forecast", "train", *options, "-m", *overrides],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ},
            start_new_session=True,  # Ctrl-C reaches this process alone, which then stops the sweep
        )


def failed(folder: Path, fold: Fold, count: int) -> UserError:
    """What to say of a fold that has ended without results."""
    run = read_run(run_of_fold(folder, fold))
    lines = [line for line in (folder / OUTPUT).read_text(errors="replace").splitlines() if line.strip()]
    reason = run.run_info.get("error") if run.state == "failed" else None
    reason = str(reason or "".join(lines[-1:]) or "nothing was said")  # of a bug the last line of its traceback
    what = "the training" if fold is None else f"fold {fold + 1} of {count}"
    return UserError(
        f"{what} has failed: {reason.rstrip('.')}. What has finished is kept, and the same command runs the rest; "
        f"{folder / OUTPUT} has all that was said."
    )
