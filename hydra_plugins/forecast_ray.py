"""hydra/launcher=ray: each job of a sweep is run by a worker of a Ray cluster.

Hydra imports this file at each start, so that neither Ray nor the program is imported before jobs are launched. It
takes launchers from the package hydra_plugins alone.
"""

import io
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

log = logging.getLogger(__name__)

KEY = "hydra.launcher"


@dataclass
class RayLauncherConf:
    """The keys hydra.launcher.*, named as those of `forecast predict engine=ray`."""

    _target_: str = "hydra_plugins.forecast_ray.RayLauncher"
    address: str = "auto"  # HOST:PORT of the head; auto: the cluster of this machine; local: one for this sweep
    workers: int | None = None  # processes; null: as many as the cluster has CPUs for
    threads: int = 1  # of each worker; the last digits depend on it, as on OMP_NUM_THREADS of one process
    gpus: float = 0  # of each worker; 0.5: two share one


ConfigStore.instance().store(group="hydra/launcher", name="ray", node=RayLauncherConf, provider="forecast")


class RayLauncher(Launcher):
    """Has jobs run by workers of a cluster, and prints what a job has printed when it has ended."""

    def __init__(self, *, address: str, workers: int | None, threads: int, gpus: float) -> None:
        self.where: dict[str, Any] = {"address": address, "workers": workers, "threads": threads, "gpus": gpus}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Hydra gives what the jobs of the sweep are made from; called before `launch`."""
        self.context, self.task, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """What the jobs have returned, in their order. Raises UserError where there is no cluster for them."""
        from forecast.jobs import Ended
        from forecast.jobs.cluster import Cluster, Order, Shared, check_installed, connected, on_cluster
        from forecast.jobs.share_out import WorkerDied
        from forecast.text.terminal import say

        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        check_installed("hydra/launcher=ray")
        check_numbers(self.where)
        sweep = str(self.config.hydra.sweep.dir)
        log.info("Launching %d jobs on a Ray cluster, sweep output dir: %s", len(job_overrides), sweep)

        def job(number: int) -> DictConfig:
            log.info("\t#%d : %s", initial_job_idx + number, " ".join(filter_overrides(job_overrides[number])))
            cfg = self.context.config_loader.load_sweep_config(self.config, [*job_overrides[number]])
            with open_dict(cfg):
                cfg.hydra.job.id = cfg.hydra.job.num = initial_job_idx + number
            return cfg

        def done(number: int, ended: Ended) -> None:
            log.info("\t#%d has ended", initial_job_idx + number)
            say((ended.error or ended.value[1]).rstrip("\n"), flush=True)

        def died(number: int, error: WorkerDied) -> None:
            log.warning("The worker of job #%d died: %s", initial_job_idx + number, error)

        cluster = Cluster(key=KEY, **self.where)
        shared = Shared(
            folder=Path(sweep).absolute(),
            typed=f"hydra.sweep.dir={sweep}",
            like="hydra.sweep.dir=/SHARED/sweep, of a backtest hydra.run.dir=/SHARED/backtest",
        )
        begin = partial(runner, partial(run, self.context, self.task, Singleton.get_state()), program())
        with connected(cluster) as ray:
            answers = on_cluster(
                *(ray, Order(begin=begin, shared=shared, threads=cluster.threads), range(len(job_overrides))),
                given=lambda number: (job(number),),
                cluster=cluster,
                done=done,
                died=died,
            )
        return [
            failed(overrides, ended.error) if ended.error else ended.value[0]
            for overrides, ended in zip(job_overrides, answers, strict=True)
        ]


def program() -> dict[str, str]:
    """What must be alike on all machines. Their processors need not be: each run says which one it had."""
    from forecast.config.commit import LIBRARIES, commit

    return {"commit": commit(), **{name: version(name) for name in LIBRARIES}}


def runner(run: Callable[[DictConfig], object], ours: Mapping[str, str]) -> Callable[[DictConfig], object]:
    """In a worker: `run`. UserError where it has another program than the command, whose `program` is `ours`."""
    from forecast.jobs.cluster import check_same

    check_same(ours, program())
    return run


def run(context: HydraContext, task: TaskFunction, state: Any, cfg: DictConfig) -> tuple[JobReturn, str]:
    """Runs a job in this process, which may be on another machine; what it has returned and printed.

    state: of the process that launched it.
    """
    setup_globals()
    Singleton.set_state(state)
    folders = ("hydra.sweep.dir", "hydra.sweep.subdir")
    with redirect_stdout(io.StringIO()) as text:
        return run_job(task, cfg, *folders, hydra_context=context), text.getvalue()


def failed(overrides: Sequence[str], text: str) -> JobReturn:
    """Of a job that no worker could bring to its end."""
    from forecast.config.entry import JobFailed

    ended = JobReturn(overrides=list(overrides), status=JobStatus.FAILED)
    ended.return_value = JobFailed(text)
    return ended


def check_numbers(where: dict[str, Any]) -> None:
    """UserError for a number of processes, threads or GPUs that there cannot be."""
    from forecast.errors import UserError

    for key, least in (("workers", 1), ("threads", 1), ("gpus", 0)):
        if where[key] is not None and where[key] < least:
            raise UserError(f"{KEY}.{key}={where[key]}: must be at least {least}. Set {KEY}.{key}={least}")
