"""What Hydra knows of the run that it has started: its options, its folder, its place in a sweep; when it began."""

import time
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from forecast.config.compose import own_choices


def choices() -> dict[str, str | None]:
    """The chosen option of every group of ours: {"model": "informer", ...}."""
    return own_choices(HydraConfig.get().runtime.choices)


def chosen(name: str) -> str | None:
    """The chosen option of one group; None when nothing, or no such group, was chosen."""
    return choices().get(name)


def in_sweep() -> bool:
    """Whether this run is one of a sweep's (-m)."""
    return bool(HydraConfig.get().mode == RunMode.MULTIRUN)


def job_number() -> int | None:
    """The number of this run in its sweep, None outside one."""
    return int(HydraConfig.get().job.num) if in_sweep() else None


def run_folder() -> Path:
    """Where this run writes."""
    return Path(HydraConfig.get().runtime.output_dir)


def task_overrides() -> list[str]:
    """The overrides of the command line, those of hydra.* left out."""
    return [str(override) for override in HydraConfig.get().overrides.task]


def is_typed(key: str) -> bool:
    """Whether the command line gives a value to a key."""
    return any(override.lstrip("+").startswith(f"{key}=") for override in task_overrides())


def launcher_overrides() -> list[str]:
    """Those of the command line that say how the jobs of a sweep are started: hydra/launcher, hydra.launcher.*."""
    typed = map(str, HydraConfig.get().overrides.hydra)
    return [override for override in typed if override.startswith(("hydra/launcher=", "hydra.launcher."))]


def users_folders() -> list[str]:
    """The folders of a user's own YAML, --config-dir, absolute."""
    sources = HydraConfig.get().runtime.config_sources
    return [str(Path(source.path).absolute()) for source in sources if source.provider == "command-line"]


class Begun:
    """When the command of this process began, by time.time: what it imports takes seconds, which count."""

    at = time.time()
