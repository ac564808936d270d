"""Jobs of a sweep given to the workers of a Ray cluster. What a job is, `hydra_plugins.forecast_ray` knows."""

import contextlib
import io
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from forecast.commands.engines.ray_pool import Cluster, RayPool, Shared, check_same, check_seen, connected
from forecast.commands.engines.share_out import Failed, WorkerDied, share_out
from forecast.config.commit import LIBRARIES, commit
from forecast.config.distributed import LARGE_PAGES
from forecast.errors import Terminated, UserError

Run = Callable[[object], object]  # a job, with what it is


class Ended(NamedTuple):
    """A job that has ended. text: what it printed."""

    result: Any
    text: str


@dataclass(frozen=True, kw_only=True)
class JobOrder:
    """What a worker is told. folder: where the command was started. token: in the name of the file that all must see.

    environment: the command's, as far as it says something to this program; a cluster has that of whoever started it.
    """

    run: Run
    folder: str
    shared: Shared
    token: str
    threads: int
    environment: dict[str, str]
    program: dict[str, str]


def run_jobs(
    run: Run,
    job: Callable[[int], object],
    count: int,
    *,
    cluster: Cluster,
    shared: Shared,
    done: Callable[[int, Ended | Failed], None],
    died: Callable[[int, WorkerDied], None],
) -> list[Ended | Failed]:
    """The answers of `run(job(number))` for so many jobs, in their order; `run` is called by workers of a cluster.

    A job whose worker died is begun anew by another one, see `share_out`. UserError where no worker can begin.
    """
    with connected(cluster) as ray:
        token = secrets.token_hex(8)
        order = JobOrder(
            run=run,
            folder=str(Path.cwd()),
            shared=shared,
            token=token,
            threads=cluster.threads,
            environment={name: value for name, value in os.environ.items() if _is_ours(name)},
            program=program(),
        )
        shared.folder.mkdir(parents=True, exist_ok=True)
        (shared.folder / f".seen-{token}").write_text(token)
        kind = ray.remote(num_cpus=cluster.threads, num_gpus=cluster.gpus)(JobWorker)
        pool = RayPool(
            *(ray, lambda: kind.remote(order)), cluster=cluster, shared=shared, given=lambda number: (job(number),)
        )
        try:
            answers = share_out(range(count), pool.begin(count), pool, done=done, died=died)
        finally:
            with contextlib.suppress(OSError):
                for path in shared.folder.glob(f".seen-{token}*"):
                    path.unlink(missing_ok=True)
        return [answers[number] for number in range(count)]


def program() -> dict[str, str]:
    """What must be alike on all machines. Their processors need not be: each run says which one it had."""
    return {"commit": commit(), **{name: version(name) for name in LIBRARIES}}


def _is_ours(name: str) -> bool:
    return name.startswith("FORECAST_") or name == LARGE_PAGES


class JobWorker:
    """A process on the cluster that runs one job after another. A Failed is what the user can mend."""

    def __init__(self, order: JobOrder) -> None:
        self.order = order

    def ready(self) -> str | Failed:
        """Makes this process like the command's own; the name of a file that the command must see."""
        order, node = self.order, socket.gethostname()
        try:
            check_seen(order.shared, f".seen-{order.token}")
            check_same(order.program, program())
        except UserError as error:
            return Failed(f"{node}: {error}")
        with contextlib.suppress(OSError):  # not shared; what is named from there is missed by its name
            os.chdir(order.folder)
        for name in filter(_is_ours, [*os.environ]):
            del os.environ[name]
        os.environ.update(order.environment, OMP_NUM_THREADS=str(order.threads))
        import torch  # here: it reads the environment

        torch.set_num_threads(order.threads)
        seen = order.shared.folder / f".seen-{order.token}-{node}-{os.getpid()}"
        seen.write_text(order.token)
        return seen.name

    def work(self, job: object) -> Ended:
        """Runs a job."""
        with contextlib.redirect_stdout(io.StringIO()) as text:
            try:
                return Ended(self.order.run(job), text.getvalue())
            except (KeyboardInterrupt, Terminated) as stop:  # a signal to this process: another one does the job
                raise SystemExit(1) from stop
