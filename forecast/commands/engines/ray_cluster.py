"""What a command with engine=ray begins with: a cluster to talk to, and a folder that no other command is at."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType

import torch

from forecast.commands.engines.ray_pool import Cluster, check_installed, connected
from forecast.commands.engines.work import Place
from forecast.config.settings import RaySettings
from forecast.run_folder.lock import LOCK, hold, release


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
