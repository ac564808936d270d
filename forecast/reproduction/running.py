"""Many trainings as processes of their own, some side by side, until they are done or the time is up."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from forecast.reproduction.locks import take
from forecast.reproduction.tables import Job
from forecast.run_folder import Run, read_run

PROGRAM = Path(__file__).parents[2] / "train.py"
POLL_SECONDS = 0.2
OUTPUT = "output.txt"


@dataclass
class Training:
    """A process that trains a job in its folder. resumed: from a last.ckpt that was there."""

    job: Job
    folder: Path
    process: subprocess.Popen[bytes]
    resumed: bool


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
    the next call goes on exactly. Ctrl-C, SIGTERM and a closed terminal stop in the same way, and raise
    KeyboardInterrupt.
    """
    end = None if seconds is None else time.monotonic() + seconds
    todo: Iterator[Job] = iter(waiting)
    running: list[Training] = []
    exhausted, elsewhere = False, False
    signals = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, _interrupt) for number in signals}
    try:
        while (running or not exhausted) and not (end is not None and time.monotonic() >= end):
            while not exhausted and len(running) < side_by_side:
                job = next(todo, None)
                if job is None:
                    exhausted = True
                elif training := start(job, folder / job.identity, side_by_side):
                    running.append(training)
                else:
                    elsewhere = True
                    done(job, Run(path=folder / job.identity, state="unfinished", reason="another process trains it"))
            running = _reap(running, done)
            time.sleep(POLL_SECONDS)
        return exhausted and not running and not elsewhere
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _stop(running, done)


def start(job: Job, folder: Path, side_by_side: int) -> Training | None:
    """The process of a job: anew, or from last.ckpt when a run was stopped or killed.

    None when another process is at work in the folder: a training outlives the one that has started it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = take(folder / "lock")
    if lock is None:
        return None
    checkpoint = folder / "checkpoints" / "last.ckpt"
    resumed = read_run(folder).state in ("interrupted", "unfinished") and checkpoint.is_file()
    asked = [f"ckpt_path={checkpoint}"] if resumed else [*job.overrides, f"hydra.run.dir={folder}"]
    threads = max(1, (os.cpu_count() or 1) // side_by_side)
    with lock, (folder / OUTPUT).open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *asked, "trainer.enable_progress_bar=false"],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={"OMP_NUM_THREADS": str(threads), **os.environ},
            start_new_session=True,  # Ctrl-C reaches us alone; we tell them
            pass_fds=[lock.fileno()] if os.name == "posix" else [],
        )
    return Training(job, folder, process, resumed)


def outcome(training: Training, *, stopped: bool = False) -> Run:
    """What has become of a training whose process has ended. stopped: by us.

    What ended by itself without results has failed, whatever its files say; from its last.ckpt it would fail again.
    """
    run = read_run(training.folder)
    if run.state == "finished" or stopped:
        return run
    if training.resumed:
        checkpoint = training.folder / "checkpoints" / "last.ckpt"
        checkpoint.replace(checkpoint.with_name("last.failed.ckpt"))
    lines = (training.folder / OUTPUT).read_text(errors="replace").splitlines()
    reason = run.reason if run.state == "failed" else next((line for line in reversed(lines) if line.strip()), "")
    return dataclasses.replace(run, state="failed", reason=reason or f"exit status {training.process.returncode}")


def _reap(running: list[Training], done: Callable[[Job, Run], None]) -> list[Training]:
    ended = [training for training in running if training.process.poll() is not None]
    for training in ended:
        done(training.job, outcome(training))
    return [training for training in running if training not in ended]


def _stop(running: list[Training], done: Callable[[Job, Run], None]) -> None:
    for training in running:
        training.process.terminate()
    for training in running:
        training.process.wait()
        done(training.job, outcome(training, stopped=True))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
