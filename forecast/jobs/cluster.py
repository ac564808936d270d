"""Jobs made by the workers of a Ray cluster: parts of a forecast, or the trainings of a sweep.

Ray starts the workers and says when one has died; which job is next, and that each is answered once, is `share_out`.
"""

import logging
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Protocol

from forecast.config.distributed import LARGE_PAGES
from forecast.config.trust import trusted, trusting
from forecast.errors import Terminated, UserError
from forecast.jobs import Ended
from forecast.jobs.share_out import WorkerDied, share_out
from forecast.text.overrides import install
from forecast.text.terminal import label

log = logging.getLogger(__name__)

LOOK = 5.0  # seconds between looks at the head, while no part is answered
BEGIN = 120.0  # seconds for the workers to begin: each imports torch and reads what all of its parts need
REACHED = 5.0  # seconds for an address to answer, and for a file to be seen through a network file system


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Which cluster, and how much of it. key: what stands before these names where they are typed, `ray`."""

    key: str
    address: str
    workers: int | None
    threads: int
    gpus: float = 0


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The folder that all machines must see. typed: how the user named it; like: what to type instead.

    again: what to do after a failure.
    """

    folder: Path
    typed: str
    like: str
    again: str = "say the same command again"


Do = Callable[..., object]  # does a job; what it is given is picklable


def variables() -> dict[str, str]:
    """The environment, as far as it says something to this program."""
    return {name: value for name, value in os.environ.items() if name.startswith("FORECAST_") or name == LARGE_PAGES}


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a worker is told. begin: makes it ready for its jobs, and gives what does one; it must be picklable.

    folder: where the command was started. token: in the name of the file that all must see. trust: modules of the
    user's whose classes may be built. environment: the command's, as a cluster has that of whoever started it.
    """

    begin: Callable[[], Do]
    shared: Shared
    threads: int
    folder: str = field(default_factory=lambda: str(Path.cwd()))
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    trust: frozenset[str] = field(default_factory=trusted)
    environment: dict[str, str] = field(default_factory=variables)

    @property
    def seen(self) -> Path:
        """The file that all machines must see."""
        return self.shared.folder / f".seen-{self.token}"


class Worker:
    """A process on the cluster that does one job after another. It ends with an error where the user can mend it."""

    def __init__(self, order: Order) -> None:
        self.order = order

    def ready(self) -> Ended:
        """Makes this process like the command's own, and ready; the name of a file that the command must see."""
        import torch  # here: the command line of a sweep waits for no torch

        order, node = self.order, socket.gethostname()
        with suppress(OSError):  # a folder that is not shared; what is named from there is missed by its name
            os.chdir(order.folder)
        for name in variables():
            del os.environ[name]
        os.environ.update(order.environment, OMP_NUM_THREADS=str(order.threads))
        torch.set_num_threads(order.threads)
        seen = order.seen.with_name(f"{order.seen.name}-{node}-{os.getpid()}")
        try:
            check_seen(order.shared, order.seen.name)
            with trusting(order.trust):
                self.do = order.begin()
            seen.write_text(order.token)
        except (UserError, OSError) as error:
            return Ended(error=f"{node}: {error}")
        return Ended(seen.name)

    def work(self, *job: object) -> Ended:
        """Does a job."""
        try:
            return Ended(self.do(*job))
        except UserError as error:
            return Ended(error=str(error))
        except (KeyboardInterrupt, Terminated) as stop:  # a signal to this process: another one does the job
            raise SystemExit(1) from stop


def on_cluster(
    ray: ModuleType,
    order: Order,
    jobs: Sequence[int],
    *,
    given: Callable[[int], Sequence[object]],
    cluster: Cluster,
    done: Callable[[int, Ended], None],
    died: Callable[[int, WorkerDied], None],
) -> list[Ended]:
    """What each job came to, in their order. given: what a worker gets for one; done, died: as `share_out`.

    UserError where no worker can begin.
    """
    order.seen.parent.mkdir(parents=True, exist_ok=True)
    order.seen.write_text(order.token)
    kind = ray.remote(num_cpus=cluster.threads, num_gpus=cluster.gpus)(Worker)
    pool = RayPool(ray, lambda: kind.remote(order), cluster=cluster, shared=order.shared, given=given)
    try:
        answers = share_out(jobs, pool.begin(len(jobs)), pool, done=done, died=died)
    finally:
        with suppress(OSError):
            for path in order.shared.folder.glob(f"{order.seen.name}*"):
                path.unlink(missing_ok=True)
    return [answers[job] for job in jobs]


def check_installed(typed: str) -> None:
    """UserError where there is no Ray, for what was typed."""
    if find_spec("ray") is None:
        raise UserError(f"{typed}: the package ray is not installed. Install it: {install('ray')}")


@contextmanager
def connected(cluster: Cluster) -> Iterator[ModuleType]:
    """Ray, with a cluster to talk to. UserError where there is none."""
    address, typed = cluster.address, f"{cluster.key}.address"
    if address.startswith("ray://"):
        raise UserError(
            f"{typed}={address}: this command must be a part of the cluster. Start it on one of its machines with "
            f"{typed}=auto"
        )
    if host := re.fullmatch(r"(.+):(\d+)", address):
        check_reached(f"{typed}={address}", host[1], int(host[2]))
    elif address not in ("auto", "local"):
        raise UserError(f"{typed}={label(address)} is no HOST:PORT. Say {typed}=auto or {typed}=HOST:6379")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # address=local starts a cluster; others have their own
    ray = import_module("ray")
    quiet = {"log_to_driver": False, "configure_logging": False, "include_dashboard": False}
    if address != "local":
        del quiet["include_dashboard"]
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise UserError(f"{typed}={address}: {why_not(str(error), typed)}") from error
    try:
        yield ray
    finally:
        ray.shutdown()  # ends the workers of this command


def check_reached(typed: str, host: str, port: int) -> None:
    """UserError where nobody listens: Ray itself would try for a minute."""
    if not answers(host, port):
        raise UserError(
            f"{typed}: no cluster answers there. Start one with ray start --head --port={port}, or name "
            "the head's address"
        )


def why_not(text: str, typed: str) -> str:
    """Ray's words for a cluster that it cannot use, as one sentence with the fix."""
    versions = re.findall(r"(?:Ray|Python): (\S+)", text)
    if "mismatch" in text and len(versions) == 4:
        theirs, ours = versions[:2], versions[2:]
        return (
            f"the cluster has Ray {theirs[0]} and Python {theirs[1]}, this command Ray {ours[0]} and Python {ours[1]}. "
            f"Install the cluster's here: pip install 'ray=={theirs[0]}' in a Python {theirs[1]}"
        )
    if "Could not find any running Ray" in text:
        return f"no cluster runs on this machine. Start one with ray start --head, or name one: {typed}=HOST:6379"
    first = next(iter(text.strip().splitlines()), "no reason is given").rstrip(".")
    return f"no cluster can be used there: {label(first)}. Start one with ray start --head"


class Remote(Protocol):
    """A method of an object that lies in another process."""

    def remote(self, *arguments: object) -> object:
        """Calls it there; returns Ray's reference to what it will return."""


class Actor(Protocol):
    """A `Worker` that Ray has begun."""

    ready: Remote
    work: Remote


class RayPool:
    """Workers of a cluster, as `share_out` has them."""

    def __init__(
        self,
        ray: ModuleType,
        worker: Callable[[], Actor],
        *,
        cluster: Cluster,
        shared: Shared,
        given: Callable[[int], Sequence[object]],
    ) -> None:
        """worker: makes one of them, with `ready()`, which answers the name of a file in the shared folder, and `work`.

        given: what `work` gets for a part.
        """
        self.ray, self.worker, self.cluster, self.shared, self.given = ray, worker, cluster, shared, given
        self.warned = False

    def begin(self, parts: int) -> list[Actor]:
        """As many workers as are wanted, have parts and room, all of which can see the shared folder.

        UserError where there is no room, and for what keeps one of them from its work.
        """
        threads, number, key = self.cluster.threads, self.cluster.workers, self.cluster.key
        cpus = [int(node["Resources"].get("CPU", 0)) for node in self.ray.nodes() if node["Alive"]]
        room = sum(count // threads for count in cpus)
        if not room:
            raise UserError(
                f"{key}.threads={threads}: no machine of the cluster has so many CPUs, the largest has {max(cpus)}. "
                f"Set {key}.threads={max(1, *cpus)}"
            )
        if number is not None and number > room:
            log.warning("%s.workers=%d: the cluster has CPUs for %d, which begin.", key, number, room)
        started = [self.start() for _ in range(min(number or room, room, parts))]
        workers = {self.ask(worker, None): worker for worker in started}
        ready, late = self.ray.wait(list(workers), num_returns=len(workers), timeout=BEGIN)
        for question in late:
            self.ray.kill(workers.pop(question))
        if not ready:
            raise UserError(
                f"{key}.address={self.cluster.address}: no worker began within {BEGIN:.0f} s, as others have the CPUs. "
                "Wait for them, and see ray status"
            )
        if late:
            log.warning(
                "%d of %d workers did not begin within %.0f s and are left out.",
                *(len(late), len(late) + len(ready), BEGIN),
            )
        for question in ready:
            self._check_begun(question)
        return list(workers.values())

    def _check_begun(self, question: object) -> None:
        try:
            answer = self.answer(question)
        except WorkerDied as error:
            raise UserError(
                f"a worker died as it began: {error}. See that all machines have this program: {install('ray')}"
            ) from error
        if answer.error:
            raise UserError(answer.error)
        check_seen(self.shared, answer.value)

    def start(self) -> Actor:
        """A further worker, which Ray begins where it has room."""
        return self.worker()

    def ask(self, worker: Actor, part: int | None) -> object:
        """Ray's reference to the worker's answer on a part, None: on whether it is there."""
        return worker.ready.remote() if part is None else worker.work.remote(*self.given(part))

    def first(self, questions: Sequence[object], *, working: bool) -> object:
        """The first of these questions to be answered. UserError where no worker is left and none has begun."""
        done: list[object] = []
        while questions and not done:
            done, _ = self.ray.wait(list(questions), num_returns=1, timeout=LOOK if working else BEGIN)
            if not working:
                break
            if not done:
                self._look_at_head()
        if not done:
            raise UserError(
                "the cluster has lost all workers, and no other one began. When it is there again, "
                f"{self.shared.again}, which goes on with the parts that are there"
            )
        return done[0]

    def _look_at_head(self) -> None:
        """Says once that the head is gone: Ray ends this process for it, without a word of ours."""
        host, _, port = str(self.ray.get_runtime_context().gcs_address).rpartition(":")
        if self.warned or answers(host, int(port)):
            return
        self.warned = True
        log.warning(
            "The head of the cluster, %s:%s, does not answer. Unless it comes back, Ray ends this command; then start "
            "a cluster and %s, which goes on with what is in %s",
            *(host, port, self.shared.again, self.shared.folder),
        )

    def answer(self, question: object) -> Ended:
        """What a worker has answered. Raises WorkerDied with Ray's reason."""
        exceptions = self.ray.exceptions
        try:
            return Ended(*self.ray.get(question))
        except exceptions.RayTaskError:  # a bug of ours, with its traceback
            raise
        except exceptions.RayError as error:
            raise WorkerDied(reason(str(error))) from error


def answers(host: str, port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection((host, port), timeout=REACHED).close()
    except OSError:
        return False
    return True


def reason(text: str) -> str:
    """Ray's words for a death, on one line."""
    cause = re.search(r"(?:Worker exit detail|The actor died because of[^:]*): *(.+)", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return label(cause[1] if cause else (lines[0] if lines else "no reason is given")).rstrip(".")


def check_seen(shared: Shared, name: str) -> None:
    """UserError unless a file is there, within REACHED seconds."""
    end = time.monotonic() + REACHED
    while not (shared.folder / name).is_file():
        if time.monotonic() > end:
            raise UserError(
                f"{shared.typed}: {shared.folder} is no folder that all machines of the cluster share. Choose one that "
                f"they do: {shared.like}"
            )
        time.sleep(0.1)


def check_same(ours: Mapping[str, object], theirs: Mapping[str, object]) -> None:
    """UserError where what a worker makes would be of something else, or end in other digits."""
    fixes = {
        "torch": f"Install the same there: pip install 'torch=={ours['torch']}'",
        "commit": "Install the same forecast on all machines",
        "device": "Take machines with the same processors",
    }
    for key, value in ours.items():
        if value != theirs.get(key):
            fix = fixes.get(key, "Name files on a folder that all machines share: ckpt_path=, data.path=, future=")
            raise UserError(f"its {key} is {theirs.get(key)}, that of the command {value}. {fix}")
