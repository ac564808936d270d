"""Tasks on a Ray cluster: the trainings of a sweep.

Ray starts the workers, gives each one task at a time, and repeats a task whose worker has died.
"""

import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from forecast.config.allow_list import trusted, trusting
from forecast.errors import UserError
from forecast.jobs import Ended
from forecast.text.overrides import install
from forecast.text.terminal import label

RETRIES = 2  # of a task whose worker has died: the task may be what kills them


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Which cluster, and how much of it each task takes. key: the prefix of these keys as typed."""

    key: str
    address: str
    threads: int
    gpus: float = 0


@dataclass(frozen=True, kw_only=True)
class WorkerSetting:
    """What a worker takes over from the command: its folder, its variables, its trusted modules."""

    folder: str
    variables: Mapping[str, str]
    trust: frozenset[str]
    threads: int


def run_tasks(
    cluster: Cluster, function: Callable[..., object], arguments: Sequence[tuple[object, ...]]
) -> Iterator[tuple[int, Ended]]:
    """Runs function(*arguments[i]) for each i on a cluster; yields i and what came of it, in the order of the ends.

    function and arguments must be picklable. UserError without Ray, without a cluster, and without room in it.
    """
    key, address = cluster.key, cluster.address
    if find_spec("ray") is None:
        raise UserError(
            f"{key}.address={label(address)}: the package ray is not installed. Install it: {install('ray')}"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of one's own has its own settings
    ray = import_module("ray")
    fewer = {"include_dashboard": False} if address == "local" else {}
    host, _, port = address.rpartition(":")
    stop = signal.getsignal(signal.SIGTERM)
    try:
        if port.isdecimal():  # Ray itself would try for minutes, and not for seconds
            socket.create_connection((host, int(port)), timeout=5.0).close()
        ray.init(address=address, log_to_driver=False, configure_logging=False, **fewer)
        signal.signal(signal.SIGTERM, stop)  # Ray has set one of its own
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        raise UserError(
            f"{key}.address={label(address)}: no cluster can be used there: {first_line(error)}. Start one with "
            f"ray start --head, or say {key}.address=local"
        ) from error
    try:
        check_room(ray, cluster)
        variables = {name: text for name, text in os.environ.items() if name.startswith("FORECAST_")}
        variables["OMP_NUM_THREADS"] = str(cluster.threads)
        setting = WorkerSetting(folder=str(Path.cwd()), variables=variables, trust=trusted(), threads=cluster.threads)
        task = ray.remote(num_cpus=cluster.threads, num_gpus=cluster.gpus, max_retries=RETRIES)(run_in_worker)
        numbers = {task.remote(setting, function, *words): number for number, words in enumerate(arguments)}
        while numbers:
            (ended,), _ = ray.wait([*numbers], num_returns=1)
            yield numbers.pop(ended), answer(ray, ended)
    finally:
        ray.shutdown()


def run_in_worker(setting: WorkerSetting, function: Callable[..., object], *arguments: object) -> Ended:
    """Runs a task in this process, made like the command's."""
    import torch  # the command line of a sweep waits for no torch

    os.environ.update(setting.variables)
    torch.set_num_threads(setting.threads)
    try:
        os.chdir(setting.folder)
        with trusting(setting.trust):
            return Ended(function(*arguments))
    except (UserError, OSError) as error:
        return Ended(error=str(error))


def check_room(ray: ModuleType, cluster: Cluster) -> None:
    """UserError where no machine has what a task takes: Ray would wait for one without a word."""
    for name, resource, wanted in (("threads", "CPU", cluster.threads), ("gpus", "GPU", cluster.gpus)):
        most = max(node["Resources"].get(resource, 0) for node in ray.nodes())
        if most < wanted:
            raise UserError(
                f"{cluster.key}.{name}={wanted}: no machine of the cluster has so many, the largest has {most:g}. "
                "Choose fewer"
            )


def answer(ray: ModuleType, ended: object) -> Ended:
    """What a task has returned; an error where its workers died. A bug of ours is raised."""
    try:
        value: Ended = ray.get(ended)
    except ray.exceptions.RayTaskError:
        raise
    except ray.exceptions.RayError as error:
        return Ended(error=f"{RETRIES + 1} workers died at it, the last one so: {first_line(error)}")
    return value


def first_line(error: Exception) -> str:
    """What an error of Ray or of the system says, in one line."""
    return label((str(error).strip().splitlines() or [type(error).__name__])[0]).rstrip(".")
