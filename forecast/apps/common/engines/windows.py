"""evaluate engine=ray: workers make the model's forecasts of a panel's windows, and the command adds up the errors.

The sums of one process have one order, which parts added up by workers would not keep. So forecasts are what is made
elsewhere, and the command goes through all windows as ever, without calling the model.
"""

import hashlib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from forecast.apps.common.engines.parts import (
    ClusterTask,
    Place,
    at_work,
    cluster_of,
    make_parts,
    name_of,
    number_of_parts,
)
from forecast.apps.common.inputs import evaluated_data
from forecast.apps.common.intervals import wanted
from forecast.apps.common.loaded import LoadedModel
from forecast.apps.common.scoring import device_name, part_of
from forecast.config.settings import EvaluateSettings
from forecast.data.catalog import file_md5
from forecast.documents import ODD, read_arrays
from forecast.evaluation import replayed
from forecast.evaluation.evaluate import Elsewhere, Protocol, WindowPass, window_pass, with_baselines
from forecast.files import save_arrays, together
from forecast.jobs.cluster import Shared

PIECE = 2**15  # windows of a part at most
PARTS = "forecasts.parts"  # the folder of the parts, in that of the evaluation


@contextmanager
def cluster(settings: EvaluateSettings, protocol: Protocol, folder: Path) -> Iterator[Elsewhere]:
    """What makes the forecasts of an evaluation on a cluster. folder: where its results go, and its parts until then.

    UserError as `at_work`.
    """
    typed = f"hydra.run.dir={folder}"
    shared = Shared(
        folder=folder.absolute() / PARTS,
        typed=typed,
        like="hydra.run.dir=/SHARED/evaluation",
        again=f"say the same command again with {typed}",
    )
    place = Place(key="hydra.run.dir", value=str(folder), other="FOLDER", shared=shared)
    with at_work(settings.ray, place) as ray:
        yield partial(parts, ray=ray, settings=settings, protocol=protocol, place=place)


def parts(
    one_pass: WindowPass,
    levels: Sequence[float] | None,
    *,
    ray: ModuleType,
    settings: EvaluateSettings,
    protocol: Protocol,
    place: Place,
) -> Iterator[replayed.BatchForecasts]:
    """The forecasts of a pass, in the order of its windows, made by workers."""
    of = number_of_parts(settings.ray.shards, len(one_pass.numbers), whole=one_pass.chunk, piece=PIECE)
    run = run_of(settings, one_pass, levels)
    device = one_pass.windows.device.type
    task = ClusterTask(
        cluster=cluster_of(settings.ray, device=device),
        place=place,
        begin=partial(begun, replace(settings, device=device), protocol),
        unit="windows",
        size=len(one_pass.numbers),
    )
    there = sum(is_whole(place.shared.folder / name_of((number, of), run)) for number in range(1, of + 1))
    pieces = make_parts(ray, task, run, of=of, there=there)
    return read([path for path, _ in pieces], one_pass.chunk)


def run_of(settings: EvaluateSettings, one_pass: WindowPass, levels: Sequence[float] | None) -> dict[str, object]:
    """What the bits of all parts depend on."""
    data = one_pass.data
    return {
        "checkpoint": file_md5(Path(settings.ckpt_path)),
        "data": data.frame.checksum,
        "split": settings.split,
        "windows": hashlib.sha256(np.ascontiguousarray(one_pass.numbers, dtype=np.int64).tobytes()).hexdigest(),
        "reading": settings.data.reading(),
        "chunk": one_pass.chunk,
        "levels": None if levels is None else list(levels),
        "threads": torch.get_num_threads(),
        "device": device_name(one_pass.windows.device),
        "torch": str(torch.__version__),
        "ending": ".npz",
    }


@dataclass(frozen=True)
class WindowRange:
    """The windows that a part has."""

    first: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class MadeWindows:
    """The work of an evaluation, whose parts are windows. levels: of the intervals whose ends are made as well."""

    one_pass: WindowPass
    levels: Sequence[float] | None
    run: Mapping[str, object]
    batch_size: int

    def make(self, path: Path, number: int, of: int) -> WindowRange:
        """Writes the forecasts of a part, unless it is there whole; which windows these are."""
        first, stop = part_of((number, of), len(self.one_pass.numbers), whole=self.one_pass.chunk)
        if not is_whole(path):
            rows = {"first": first, "stop": stop, "batch_size": self.batch_size}
            batches = list(self.one_pass.forecasts(self.levels, **rows))
            columns = zip(replayed.BatchForecasts._fields, zip(*batches, strict=True), strict=True)
            with together(path.parent) as place:
                save_arrays(place(path.name), {name: torch.cat(c).numpy() for name, c in columns if c[0] is not None})
        return WindowRange(first, stop)


def begun(settings: EvaluateSettings, protocol: Protocol) -> MadeWindows:
    """Reads model and panel, in a worker."""
    loaded = LoadedModel.load(settings.ckpt_path, device=settings.device, root=settings.data.root)
    checkpoint, source = loaded.checkpoint, loaded.source()
    reading, path = settings.data.reading(), settings.data.path
    data = evaluated_data(checkpoint, source, path, split=settings.split, reading=reading)
    intervals = wanted(checkpoint, how=settings.calibration, level=settings.level)
    levels = None if intervals is None else intervals.calibration.levels
    device, fitted = loaded.device, checkpoint.record.fits
    model = checkpoint.model().to(device)
    forecasters = with_baselines(model, data, fitted, device)
    one_pass = window_pass(forecasters, data, split=settings.split, protocol=protocol, device=device)
    size = settings.data.batch_size or source.batch_size
    return MadeWindows(one_pass=one_pass, levels=levels, run=run_of(settings, one_pass, levels), batch_size=size)


def is_whole(path: Path) -> bool:
    """Whether a part is there and what was written: an archive has a checksum of each of its files."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except ODD:
        return False


def read(paths: Sequence[Path], chunk: int) -> Iterator[replayed.BatchForecasts]:
    """The forecasts in parts, `chunk` windows at a time, one part in memory."""
    for path in paths:
        arrays = {name: torch.from_numpy(array) for name, array in read_arrays(path).items()}
        for first in range(0, len(arrays["point"]), chunk):
            yield replayed.BatchForecasts(**{name: array[first : first + chunk] for name, array in arrays.items()})
