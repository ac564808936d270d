"""Many trainings as processes of their own, some side by side, until they are done or the time is up."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from forecast.reproduction.tables import Job
from forecast.runs import Run, read_run

PROGRAM = Path(__file__).parents[2] / "train.py"
POLL_SECONDS = 0.2


@dataclass
class Training:
    """A process that trains a job in its folder."""

    job: Job
    folder: Path
    process: subprocess.Popen[bytes]


def run_all(
    waiting: Iterable[Job],
    *,
    folder: Path,
    side_by_side: int,
    seconds: float | None,
    done: Callable[[Job, Run], None],
) -> bool:
    """Runs the jobs in folder/IDENTITY and hands each to `done` when its process has ended; whether all have run.

    side_by_side: how many at once. seconds: then the running ones are told to stop; they write last.ckpt, from which
    the next call goes on exactly. Ctrl-C and SIGTERM stop in the same way, and raise KeyboardInterrupt.
    """
    end = None if seconds is None else time.monotonic() + seconds
    todo: Iterator[Job] = iter(waiting)
    running: list[Training] = []
    exhausted = False
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        while (running or not exhausted) and not (end is not None and time.monotonic() >= end):
            while not exhausted and len(running) < side_by_side:
                job = next(todo, None)
                if job is None:
                    exhausted = True
                else:
                    running.append(start(job, folder / job.identity, side_by_side))
            running = _reap(running, done)
            time.sleep(POLL_SECONDS)
        return exhausted and not running
    finally:
        signal.signal(signal.SIGTERM, before)
        _stop(running, done)


def start(job: Job, folder: Path, side_by_side: int) -> Training:
    """The process of a job: anew, or from last.ckpt when a run was stopped or killed."""
    checkpoint = folder / "checkpoints" / "last.ckpt"
    stopped = read_run(folder).state in ("interrupted", "unfinished") and checkpoint.is_file()
    asked = [f"ckpt_path={checkpoint}"] if stopped else [*job.overrides, f"hydra.run.dir={folder}"]
    folder.mkdir(parents=True, exist_ok=True)
    threads = max(1, (os.cpu_count() or 1) // side_by_side)
    with (folder / "output.txt").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *asked, "trainer.enable_progress_bar=false"],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={"OMP_NUM_THREADS": str(threads), **os.environ},
            start_new_session=True,  # Ctrl-C reaches us alone; we tell them
        )
    return Training(job, folder, process)


def _reap(running: list[Training], done: Callable[[Job, Run], None]) -> list[Training]:
    ended = [training for training in running if training.process.poll() is not None]
    for training in ended:
        done(training.job, read_run(training.folder))
    return [training for training in running if training not in ended]


def _stop(running: list[Training], done: Callable[[Job, Run], None]) -> None:
    for training in running:
        training.process.terminate()
    for training in running:
        training.process.wait()
        done(training.job, read_run(training.folder))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
