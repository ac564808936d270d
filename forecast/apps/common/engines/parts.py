"""A work in parts, the forecasts of series or those of the windows of an evaluation, made by the workers of a cluster.

A worker reads model and data itself, and no number travels.
"""

import hashlib
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Generic, Protocol, TypeVar

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from forecast.apps.common.scoring import written_or_refused
from forecast.config.commit import commit
from forecast.config.settings import RaySettings
from forecast.errors import UserError
from forecast.jobs import Ended
from forecast.jobs.cluster import Cluster, Order, Shared, check_installed, check_same, connected, on_cluster
from forecast.jobs.share_out import WorkerDied
from forecast.run_folder.lock import LOCK, hold, release

log = logging.getLogger(__name__)

LEAST = 32  # parts, where there is so much to do: what a death costs, and what the last worker may be late by
LINES = 10  # of how far it is, where there is no terminal


class PartRange(Protocol):
    """What is told of a part: the first and the end of the series or windows that it has."""

    @property
    def first(self) -> int:
        """The number of the first one."""

    @property
    def stop(self) -> int:
        """One more than that of the last."""


P_co = TypeVar("P_co", bound=PartRange, covariant=True)


class Work(Protocol[P_co]):
    """A work in parts. run: what all its parts have alike, and the bits depend on; `ending` is that of their files."""

    @property
    def run(self) -> Mapping[str, object]:
        """Of JSON's types."""

    def make(self, path: Path, number: int, of: int) -> P_co:
        """Writes a part, unless it is there. Raises OSError, and UserError for what the user can mend."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a command writes, as its user says it: `key`=`value`. other: another value to advise.

    shared: the folder of the parts, which all machines must see.
    """

    key: str
    value: str
    other: str
    shared: Shared

    def written(self) -> AbstractContextManager[None]:
        """UserError where a file cannot be written."""
        return written_or_refused(self.value, key=self.key, other=self.other)


@dataclass(frozen=True, kw_only=True)
class ClusterTask(Generic[P_co]):
    """What a command asks of a cluster. begin: makes a worker ready for its parts, and must be picklable.

    unit: of what there are `size`.
    """

    cluster: Cluster
    place: Place
    begin: Callable[[], Work[P_co]]
    unit: str
    size: int


def name_of(shard: tuple[int, int], run: Mapping[str, object]) -> str:
    """The file of a part: its number, and the checksum of all that its bits depend on."""
    known = json.dumps(dict(run), sort_keys=True).encode()
    checksum = hashlib.md5(known, usedforsecurity=False).hexdigest()[:12]
    return f"shard-{shard[0]:05}-of-{shard[1]:05}-{checksum}{run['ending']}"


def number_of_parts(shards: int | None, size: int, *, whole: int, piece: int) -> int:
    """How many parts `size` series or windows have, however many make them: a command that goes on looks for the same.

    whole: so many are forecast together, and no part has less. piece: a part has so many at most, where no number of
    `shards` was typed.
    """
    return max(1, min(shards or max(LEAST, -(-size // piece)), -(-size // whole)))


def cluster_of(settings: RaySettings, *, device: str) -> Cluster:
    """The keys `ray.` of a command. device: cpu or cuda."""
    return Cluster(
        key="ray",
        address=settings.address,
        workers=settings.workers,
        threads=settings.threads,
        gpus=1 if device == "cuda" else 0,
    )


@contextmanager
def at_work(settings: RaySettings, place: Place) -> Iterator[ModuleType]:
    """Ray, with a cluster; other commands are kept out of the folder of the parts, which goes where all went well.

    UserError where another command is at work there, without Ray, and where no cluster of this Ray answers.
    """
    check_installed("engine=ray")
    threads = torch.get_num_threads()
    with only_one(place), connected(cluster_of(settings, device="cpu")) as ray:
        torch.set_num_threads(settings.threads)  # the bits are those of one process with as many
        try:
            yield ray
        finally:
            torch.set_num_threads(threads)


@contextmanager
def only_one(place: Place) -> Iterator[None]:
    """Holds the folder of the parts. At the end its own files are removed, and where all went well all parts."""
    folder = place.shared.folder
    with place.written():
        folder.mkdir(parents=True, exist_ok=True)
        hold(folder, elsewhere=f"write elsewhere with {place.key}={place.other}")
    done = False
    try:
        yield
        done = True
    finally:
        with suppress(OSError):
            for pattern in (".seen-*", *((".shard-*.part", "shard-*-of-*") if done else ())):
                for path in folder.glob(pattern):
                    path.unlink(missing_ok=True)
            (folder / LOCK).unlink(missing_ok=True)
        release(folder)
        with suppress(OSError):  # there are parts, for another time
            folder.rmdir()


def make_parts(
    ray: ModuleType, task: ClusterTask[P_co], run: Mapping[str, object], *, of: int, there: int
) -> list[tuple[Path, P_co]]:
    """All parts of a work, in their order, each with what is told of it.

    UserError where any has failed; the others stay for another time. run: of the
    work. of: how many parts; there: how many of them a former command has left.
    """
    if there:
        log.info("%d of %d parts are there from a former command.", there, of)
    shared = task.place.shared
    begin = partial(maker, task, {**run, "commit": commit()})
    order = Order(begin=begin, shared=shared, threads=task.cluster.threads)

    def died(number: int, error: WorkerDied) -> None:
        log.warning("The worker of part %d of %d died, and another one makes it: %s", number, of, error)

    numbers = range(1, of + 1)
    with PartsBar(task.size, task.unit) as bar:
        answers = on_cluster(
            *(ray, order, numbers),
            given=lambda number: (number, of),
            cluster=task.cluster,
            done=lambda _, part: bar.add(part),
            died=died,
        )
    failed = [
        f"part {number}: {part.error.rstrip('.')}" for number, part in zip(numbers, answers, strict=True) if part.error
    ]
    if failed:
        raise UserError(
            f"{len(failed)} of {of} parts failed, the others are in {shared.folder}: {'; '.join(failed[:5])}. Mend it "
            f"and {shared.again}, which goes on with the parts that are of the same data"
        )
    return [
        (shared.folder / name_of((number, of), run), part.value) for number, part in zip(numbers, answers, strict=True)
    ]


def maker(task: ClusterTask[P_co], run: Mapping[str, object]) -> Callable[[int, int], P_co]:
    """In a worker: reads model and data; what then writes part `number` of `of`, unless it is there.

    UserError where its work is not that of the command. run: of the command's own, with its commit.
    """
    work = task.begin()
    check_same(run, {**work.run, "commit": commit()})

    def make(number: int, of: int) -> P_co:
        with task.place.written():
            return work.make(task.place.shared.folder / name_of((number, of), work.run), number, of)

    return make


class PartsBar:
    """How far a work is, in series or windows: a bar on a terminal, lines elsewhere. size: of all."""

    def __init__(self, size: int, unit: str) -> None:
        self.size, self.unit, self.done, self.lines_logged = size, unit, 0, 0
        self.bar: Progress | None = None
        self.task = TaskID(0)

    def __enter__(self) -> "PartsBar":
        if sys.stderr.isatty():
            columns = (TextColumn(self.unit), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns, console=Console(file=sys.stderr), transient=True)
            self.bar.start()
            self.task = self.bar.add_task("", total=self.size)
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def add(self, part: Ended) -> None:
        """A part is answered; one that failed has nothing."""
        self.done += 0 if part.error else part.value.stop - part.value.first
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done)
        elif self.done * LINES // self.size > self.lines_logged:
            self.lines_logged = self.done * LINES // self.size
            log.info("%d of %d %s", self.done, self.size, self.unit)
