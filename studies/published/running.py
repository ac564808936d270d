"""Many trainings one after another, until they are done or the time is up, and how long they will take."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from forecast.apps.auto.steps import measure, within
from forecast.apps.common.command import command
from forecast.apps.common.inputs import find_device
from forecast.apps.common.training_data import make_plan
from forecast.checkpoint.model import is_fitted_at_once
from forecast.errors import Terminated, UserError
from forecast.jobs.trainings import train
from forecast.run_folder import OUTPUT, Run, read_run
from forecast.text.terminal import duration
from forecast.training.shared_data import share_data
from studies.published.tables import Job


def run_all(left: Sequence[Job], *, folder: Path, seconds: float | None, done: Callable[[Job, Run], None]) -> bool:
    """Runs the jobs in folder/IDENTITY and hands each that has ended to `done`; whether all have run.

    seconds: then the running one is stopped; it writes last.ckpt, from which the next call goes on exactly. Ctrl-C,
    SIGTERM and a closed terminal stop in the same way, and raise what they raise in a training.
    """
    share_data()
    ended: list[Run] = []
    with time_limit(seconds) as is_over:
        for job in left:
            if is_over():
                break
            try:
                ended.append(train(command("train"), job.overrides, folder / job.identity))
            except Terminated:
                if not is_over():
                    raise
                ended.append(read_run(folder / job.identity))
            done(job, ended[-1])
    return len(ended) == len(left) and all(run.state in ("finished", "failed") for run in ended)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[Callable[[], bool]]:
    """Sends SIGTERM after so many seconds, at which a training writes last.ckpt; None: never. Yields whether it has."""
    end = time.monotonic() + (math.inf if seconds is None else seconds)
    timer = threading.Timer(seconds or 0.0, signal.raise_signal, [signal.SIGTERM])
    timer.daemon = True
    if seconds:
        timer.start()
    try:
        yield lambda: time.monotonic() >= end
    finally:
        timer.cancel()


def expected(left: Sequence[Job], lines: Sequence[dict[str, Any]], folder: Path) -> Iterator[str]:
    """How many trainings there are, then how long their steps take: as recorded, else, on a processor, as measured."""
    device = find_device("auto").type
    yield f"{len(left)} trainings on {device}. What has ended is kept: the same command goes on from there."
    known: dict[tuple[str, str, str], float | None] = {}
    for line in lines:
        if line["cost"]["device"] == device:
            known[line["table"], line["row"], line["contender"]] = line["cost"]["train_seconds"]
    for job in left:
        place = job.table, job.row, job.model
        if place not in known:
            known[place] = measured(job, folder / job.identity) if device == "cpu" else None
    seconds = [known[job.table, job.row, job.model] for job in left]
    total = sum(filter(None, seconds))
    unknown = f", those of {seconds.count(None)} not counted" if None in seconds else ""
    yield f"Their steps take about {duration(total)}{unknown}."


def measured(job: Job, folder: Path) -> float | None:
    """Seconds of all epochs of a network by some steps; 0 of what is fitted at once, None where it is refused."""

    def task(cfg: DictConfig) -> float:
        plan = make_plan(cfg)
        if is_fitted_at_once(plan.config.model):
            return 0.0
        pace, epochs = measure(plan, time.perf_counter), plan.config.trainer.get("max_epochs")
        return float(str(epochs)) * (pace.batches * pace.seconds + pace.validation)

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / OUTPUT).open("a") as output, redirect_stdout(output), redirect_stderr(output):
        try:
            return within(folder, [*job.overrides, "checks.leakage=false"], task)
        except UserError:
            return None
