"""A checkpoint in use: where it runs, and where its data lie."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from forecast.apps.common.inputs import evaluated_data, find_device, trained_source
from forecast.apps.common.intervals import wanted
from forecast.apps.common.results import Result, evaluate_checkpoint
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.run_config import Plain
from forecast.data.sources import Source
from forecast.evaluation.blocks import check_offsets
from forecast.evaluation.evaluate import Protocol


@dataclass(frozen=True)
class LoadedModel:
    """A trained model and a device. root: where a published data set's file lies now, None: where it lay."""

    checkpoint: Checkpoint
    device: torch.device
    root: str | None = None

    @classmethod
    def load(cls, path: Path | str, *, device: str = "auto", root: str | None = None) -> "LoadedModel":
        """That of a checkpoint. device: auto, cpu or cuda, checked before the file. UserError for either."""
        return cls(device=find_device(device), checkpoint=load_checkpoint(path), root=root)

    def source(self) -> Source:
        """Where the data trained on come from."""
        return trained_source(self.checkpoint, root=self.root)

    def result(
        self,
        path: Path | str | None,
        *,
        split: str,
        protocol: Protocol,
        protocol_name: str | None = None,
        batch_size: int | None = None,
        reading: Plain | None = None,
        calibration: str | None = None,
        level: Sequence[float] | None = None,
    ) -> Result:
        """All that an evaluation gives, of the data trained on or of the file `path`.

        calibration, level: of the intervals, as typed; None: as in training. The rest is that of `evaluate_checkpoint`.
        """
        source = self.source()
        data = evaluated_data(self.checkpoint, source, path, split=split, reading=reading)
        check_offsets(data, split, protocol)
        return evaluate_checkpoint(
            self.checkpoint,
            None if path else source,
            data,
            split=split,
            protocol=protocol,
            protocol_name=protocol_name,
            batch_size=batch_size or source.batch_size,
            device=self.device,
            intervals=wanted(self.checkpoint, how=calibration, level=level),
        )
