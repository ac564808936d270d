"""Many trainings as processes of the command train, some side by side, until they are done or the time is up."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from forecast.jobs.trainings import train
from forecast.run_folder import Run
from studies.published.tables import Job


def run_all(
    jobs: Iterable[Job], *, folder: Path, side_by_side: int, seconds: float | None, done: Callable[[Job, Run], None]
) -> bool:
    """Runs the jobs in folder/IDENTITY and hands each that has ended to `done`, one at a time; whether all have run.

    side_by_side: how many at once. seconds: then the running ones are stopped; they write last.ckpt, from which
    the next call goes on exactly. Ctrl-C, SIGTERM and a closed terminal stop in the same way, and raise
    KeyboardInterrupt.
    """
    end = float("inf") if seconds is None else time.monotonic() + seconds
    stop, reporting, threads = threading.Event(), threading.Lock(), max(1, (os.cpu_count() or 1) // side_by_side)

    def stopped() -> bool:
        return stop.is_set() or time.monotonic() >= end

    def work(job: Job) -> bool:
        if stopped():
            return False
        run = train(job.overrides, folder / job.identity, stopped, threads=threads)
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
