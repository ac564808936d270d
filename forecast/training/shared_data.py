"""Rows, windows and baselines that trainings of one process share: those of equal files and settings are made once."""

import gc
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from forecast.config.run_config import RunConfig
from forecast.data.prepare import Prepared
from forecast.data.read import panel_files
from forecast.data.sources import CsvSource, MadeUpSource, Source, file_md5
from forecast.evaluation.baselines import fit_baselines
from forecast.evaluation.evaluate import Scored, chunk_of, look_back_of

MOST_BYTES = 2**30  # of rows, as read and as scaled
Reader = Callable[[Source, RunConfig], Prepared]


class SharedData:
    """Data of trainings, and what is known of their baselines."""

    def __init__(self, data: Prepared) -> None:
        self.data = data
        self.scores: dict[str, dict[str, Scored]] = {}
        self._fits: dict[bool, Mapping[str, Tensor]] = {}

    def baselines(self, *, ridge: bool) -> Mapping[str, Tensor]:
        """The weights of the fitted baselines. ridge: whether that one too."""
        if ridge not in self._fits:
            self._fits[ridge] = fit_baselines(self.data, ridge=ridge)
        return self._fits[ridge]

    @property
    def bytes(self) -> int:
        """Memory of the rows; a mapped file takes none."""
        values, kept = self.data.frame.values, self.data.kept
        return (0 if isinstance(values, np.memmap) else values.nbytes) + (0 if kept is None else kept.nbytes)


class DataCache:
    """The data that were used last, up to so many bytes; none are kept where there is room for none."""

    def __init__(self, most_bytes: int = 0) -> None:
        self.most_bytes = most_bytes
        self._entries: dict[str, SharedData] = {}  # the last used one is the last

    def find(self, source: Source, config: RunConfig, read: Reader) -> SharedData:
        """The data of a training, read where no training of equal files and settings has read them."""
        key = key_of(source, config) if self.most_bytes else None
        if key is None:
            return SharedData(read(source, config))
        entry = self._entries.pop(key, None) or SharedData(read(source, config))
        self._entries[key] = entry
        while sum(kept.bytes for kept in self._entries.values()) > self.most_bytes:
            self._entries.pop(next(iter(self._entries)))
        return entry

    def scores(
        self, model: nn.Module, data: Prepared, fitted: Mapping[str, Tensor], device: torch.device, **settings: object
    ) -> dict[str, Scored] | None:
        """The scores of baselines beside such a model, to be filled; None where the data are not kept.

        settings: of the evaluation. The last bits depend on all of it.
        """
        weights = sha256()
        for name, weight in fitted.items():
            weights.update(name.encode() + weight.cpu().numpy().tobytes())
        sizes = chunk_of(model, data, device), look_back_of(model, data)
        key = repr((sizes, str(device), settings, weights.hexdigest()))
        entries = (entry for entry in self._entries.values() if entry.data.frame is data.frame)
        return next((entry.scores.setdefault(key, {}) for entry in entries), None)


SHARED = DataCache()


def share_data() -> None:
    """Let the trainings of this process share their data, and collect garbage among what they make alone."""
    if not SHARED.most_bytes:
        SHARED.most_bytes = MOST_BYTES
        gc.collect()
        gc.freeze()  # the objects of libraries, which would be looked through for a third of a second each time


def key_of(source: Source, config: RunConfig) -> str | None:
    """What the data of a training depend on, hashes of its files included; None where that is not known."""
    files: list[Path] = []
    if isinstance(source, CsvSource):
        files = panel_files(source.located())
    elif not isinstance(source, MadeUpSource):
        return None
    settings = {key: value for key, value in config.data.node.items() if key != "batch_size"}
    hashes = [(str(file), file_md5(file)) for file in files]
    return repr((type(source).__name__, hashes, settings, config.lengths, config.encoding))
