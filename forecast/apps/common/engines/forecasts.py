"""predict engine=ray: a forecast of a panel in parts, each of which is what `shard=i/n` makes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType

from forecast.apps.common.engines.parts import (
    ClusterTask,
    Place,
    at_work,
    cluster_of,
    make_parts,
    name_of,
    number_of_parts,
)
from forecast.apps.common.inputs import find_device
from forecast.apps.common.scoring import PIECE, Pieces, Scoring, pieces_of, scoring_of, series_of
from forecast.checkpoint.load import load_checkpoint
from forecast.config.settings import PredictSettings
from forecast.data.forecast_files import ForecastPart, read_part
from forecast.errors import UserError
from forecast.evaluation.predict import BATCH
from forecast.jobs.cluster import Shared


@contextmanager
def cluster(settings: PredictSettings, output: Path) -> Iterator[Callable[[Scoring, Path], Pieces]]:
    """What makes the parts of a forecast on a cluster, and keeps other commands out of their folder until it is joined.

    UserError as `at_work`.
    """
    if settings.shard is not None:
        raise UserError(
            f"shard={settings.shard} engine=ray: Ray's workers make all parts, and one file of them. Leave shard out, "
            "or say how many: ray.shards=N"
        )
    shared = Shared(
        folder=pieces_of(output.absolute()), typed=f"output={settings.output}", like="output=/SHARED/forecast.parquet"
    )
    place = Place(key="output", value=settings.output, other="FOLDER/forecast.csv", shared=shared)
    with at_work(settings.ray, place) as ray:
        yield partial(parts, ray, settings, place)


def parts(ray: ModuleType, settings: PredictSettings, place: Place, scoring: Scoring, output: Path) -> Pieces:
    """All parts of a forecast, in their order."""
    del output  # whose pieces are in the place
    series, device = len(scoring.ends.series), scoring.ends.device.type
    of = number_of_parts(settings.ray.shards, series, whole=BATCH, piece=PIECE)
    task = ClusterTask(
        cluster=cluster_of(settings.ray, device=device),
        place=place,
        begin=partial(begun, replace(settings, device=device)),
        unit="series",
        size=series,
    )
    names = [place.shared.folder / name_of((number, of), scoring.run) for number in range(1, of + 1)]
    there = sum(read_part(path) is not None for path in names)
    return make_parts(ray, task, scoring.run, of=of, there=there)


@dataclass(frozen=True)
class Forecasts:
    """The work of a forecast, whose parts are series."""

    scoring: Scoring

    @property
    def run(self) -> Mapping[str, object]:
        """What all parts have alike, and their bits depend on."""
        return self.scoring.run

    def make(self, path: Path, number: int, of: int) -> ForecastPart:
        """Writes the forecasts of a part, unless it is there; what the JSON beside it says."""
        scoring = replace(self.scoring, shard=(number, of))
        return scoring.piece(path, *series_of((number, of), len(scoring.ends.series)))


def begun(settings: PredictSettings) -> Forecasts:
    """Reads model and series, in a worker."""
    checkpoint, device = load_checkpoint(settings.ckpt_path), find_device(settings.device)
    return Forecasts(scoring_of(settings, checkpoint, device=device, worker=True))
