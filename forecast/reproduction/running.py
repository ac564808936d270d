"""Many trainings as processes of the command train, some side by side, until they are done or the time is up."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from forecast.data.guessing.train_command import hydra_value
from forecast.reproduction.tables import Job
from forecast.run_folder import OUTPUT, Run, checkpoint_path, read_run
from forecast.run_folder.lock import in_use

NOTHING: Mapping[str, str] = {}


def run_all(
    jobs: Iterable[Job], *, folder: Path, side_by_side: int, seconds: float | None, done: Callable[[Job, Run], None]
) -> bool:
    """Runs the jobs in folder/IDENTITY and hands each that has ended to `done`, one at a time; whether all have run.

    side_by_side: how many at once. seconds: then the running ones are stopped; they write last.ckpt, from which
    the next call goes on exactly. Ctrl-C, SIGTERM and a closed terminal stop in the same way, and raise
    KeyboardInterrupt.
    """
    end = float("inf") if seconds is None else time.monotonic() + seconds
    stop, reporting = threading.Event(), threading.Lock()

    def stopped() -> bool:
        return stop.is_set() or time.monotonic() >= end

    def work(job: Job) -> bool:
        if stopped():
            return False
        run = train(job, folder / job.identity, stopped, threads=max(1, (os.cpu_count() or 1) // side_by_side))
        with reporting:
            done(job, run)
        return run.state in ("finished", "failed")

    pool, started, complete = ThreadPoolExecutor(side_by_side), [], True
    with _signals_interrupt():
        try:
            for job in jobs:  # composed one by one: the first train meanwhile
                complete = not stopped()
                if not complete:
                    break
                started.append(pool.submit(work, job))
            ended = [future.result() for future in as_completed(started)]
            return complete and all(ended)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _signals_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def train(
    job: Job, folder: Path, stopped: Callable[[], bool], *, threads: int, environment: Mapping[str, str] = NOTHING
) -> Run:
    """Runs a job's process to its end, from last.ckpt where a run was stopped or killed; returns the run it leaves.

    A training outlives the command that started it: while one still works in the folder, no second one is started.
    environment: of the process, where it is not this one's; threads: where neither has OMP_NUM_THREADS.
    What ended by itself without results has failed, whatever its files say; from its last.ckpt it would fail again.
    """
    elsewhere = Run(path=folder, state="unfinished", reason="another process trains it")
    folder.mkdir(parents=True, exist_ok=True)
    if in_use(folder):
        return elsewhere
    checkpoint = checkpoint_path(folder, "last")
    resumed = read_run(folder).state in ("interrupted", "unfinished") and checkpoint.is_file()
    place = {"ckpt_path": checkpoint} if resumed else {"hydra.run.dir": folder}
    overrides = [*(() if resumed else job.overrides), *(f"{key}={hydra_value(str(p))}" for key, p in place.items())]
    with (folder / OUTPUT).open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "forecast", "train", *overrides, "trainer.enable_progress_bar=false"],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={"OMP_NUM_THREADS": str(threads), **os.environ, **environment},
            start_new_session=True,  # Ctrl-C reaches this process alone, which then stops the trainings
        )
    while process.poll() is None and not stopped():
        time.sleep(0.2)
    terminated = process.poll() is None
    if terminated:
        process.terminate()
        process.wait()
    run = read_run(folder)
    if run.state == "finished" or terminated:
        return run
    if in_use(folder):  # another command started one first
        return elsewhere
    if resumed:
        checkpoint.replace(checkpoint.with_name("last.failed.ckpt"))
    lines = [line for line in (folder / OUTPUT).read_text(errors="replace").splitlines() if line.strip()]
    reason = run.reason if run.state == "failed" else "".join(lines[-1:])
    return dataclasses.replace(run, state="failed", reason=reason or f"exit status {process.returncode}")
