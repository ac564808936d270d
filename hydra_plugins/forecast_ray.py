"""hydra/launcher=ray: each job of a sweep is run by a worker of a Ray cluster.

Hydra imports this file at each start, so that neither Ray nor the program is imported before jobs are launched. It
takes launchers from the package hydra_plugins alone.
"""

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, configure_log, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict

KEY = "hydra.launcher"


@dataclass
class RayLauncherConf:
    """The keys hydra.launcher.*."""

    _target_: str = "hydra_plugins.forecast_ray.RayLauncher"
    address: str = "auto"  # HOST:PORT of the head; auto: the cluster of this machine; local: one for this sweep
    threads: int = 1  # of each job; the last digits depend on it, as on OMP_NUM_THREADS of one process
    gpus: float = 0  # of each job; 0.5: two share one


ConfigStore.instance().store(group="hydra/launcher", name="ray", node=RayLauncherConf, provider="forecast")


class RayLauncher(Launcher):
    """Has jobs run by workers of a cluster, and prints what a job has printed when it has ended."""

    def __init__(self, *, address: str, threads: int, gpus: float) -> None:
        self.where: dict[str, Any] = {"address": address, "threads": threads, "gpus": gpus}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Hydra gives what the jobs of the sweep are made from; called before `launch`."""
        self.context, self.task, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """What the jobs have returned, in their order. Raises UserError where there is no cluster for them."""
        from forecast.jobs import Ended
        from forecast.jobs.cluster import Cluster, run_tasks
        from forecast.text.terminal import say

        setup_globals()
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        check_numbers(self.where)
        jobs = []
        for number, overrides in enumerate(job_overrides, start=initial_job_idx):
            cfg = self.context.config_loader.load_sweep_config(self.config, [*overrides])
            with open_dict(cfg):
                cfg.hydra.job.id = cfg.hydra.job.num = number
            jobs.append((cfg,))
        work = partial(run, self.context, self.task, Singleton.get_state())
        answers: dict[int, Ended] = {}
        for number, ended in run_tasks(Cluster(key=KEY, **self.where), work, jobs):
            say((ended.error or ended.value[1]).rstrip("\n"))
            answers[number] = ended
        return [
            failed(overrides, answers[number].error) if answers[number].error else answers[number].value[0]
            for number, overrides in enumerate(job_overrides)
        ]


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
    """UserError for a number of threads or GPUs that there cannot be."""
    from forecast.errors import UserError

    for key, least in (("threads", 1), ("gpus", 0)):
        if where[key] < least:
            raise UserError(f"{KEY}.{key}={where[key]}: must be at least {least}. Set {KEY}.{key}={least}")
