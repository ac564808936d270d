"""What `forecast predict engine=ray` begins with: a cluster to talk to, and a folder that no other command is at."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import torch

from forecast.commands.engines.ray_parts import made
from forecast.commands.engines.ray_pool import Cluster, check_installed, connected
from forecast.commands.predict_panel import Made, pieces_of, written_or_refused
from forecast.config.settings import PredictSettings
from forecast.errors import UserError
from forecast.run_folder.lock import LOCK, hold, release


@contextmanager
def cluster(settings: PredictSettings, output: Path) -> Iterator[Made]:
    """What makes the parts of a forecast on a cluster, and keeps other commands out of their folder until it is joined.

    UserError where another command is at work there, without Ray, and where no cluster of this Ray answers.
    """
    check_installed("engine=ray")
    if settings.shard is not None:
        raise UserError(
            f"shard={settings.shard} engine=ray: Ray's workers make all parts, and one file of them. Leave shard out, "
            "or say how many: ray.shards=N"
        )
    threads = torch.get_num_threads()
    place = settings.ray
    where = Cluster(key="ray", address=place.address, workers=place.workers, threads=place.threads)
    with only_one(pieces_of(output), settings.output), connected(where) as ray:
        torch.set_num_threads(settings.ray.threads)  # the forecasts are those of one process with as many
        try:
            yield partial(made, ray, where, settings)
        finally:
            torch.set_num_threads(threads)


@contextmanager
def only_one(folder: Path, output: str) -> Iterator[None]:
    """Holds the folder of the parts. At the end its own files are removed, and once all is joined the former parts."""
    with written_or_refused(Path(output)):
        folder.mkdir(exist_ok=True)
        hold(folder, elsewhere="write elsewhere with output=FOLDER/forecast.csv")
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
