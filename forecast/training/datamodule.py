"""The batches of a training."""

from typing import Any

import lightning.pytorch as pl
import pandas as pd
import torch
from torch.utils.data import DataLoader

from forecast.data.prepare import PreparedData
from forecast.data.windows import Batch, WindowDataset, as_batch
from forecast.training.order import EpochOrder, TrainBatches, ValidationBatches


class ForecastDataModule(pl.LightningDataModule):
    """Train windows in an order drawn from `seed`, validation windows in order, none dropped.

    A batch is gathered in one indexing operation in the main process: workers would only copy it about. Several
    processes share the windows, `batch_size` is that of each.
    """

    def __init__(self, data: PreparedData, *, batch_size: int, seed: int) -> None:
        super().__init__()
        self.data = data
        self.batch_size = batch_size
        self.order = EpochOrder(len(data.windows("train")), seed=seed)
        self.batches: TrainBatches | None = None
        self.resumed: dict[str, Any] = {}

    def train_dataloader(self) -> DataLoader[Batch]:
        """Batches of train windows, in another order each epoch."""
        windows = self.data.windows("train")
        if self.trainer is not None and self.trainer.overfit_batches:  # type: ignore[attr-defined]
            return self._loader(windows, batch_size=self.batch_size)  # the same batches in every epoch
        self.batches = TrainBatches(self.order, batch_size=self.batch_size, **self._processes())
        self.batches.resumed = self.batches.position = self.resumed or self.batches.position
        return self._loader(windows, batch_sampler=self.batches)

    def val_dataloader(self) -> DataLoader[Batch]:
        """Batches of validation windows, in order."""
        windows, processes = self.data.windows("val"), self._processes()
        if processes["world"] == 1:
            return self._loader(windows, batch_size=self.batch_size)
        shares = ValidationBatches(len(windows), batch_size=self.batch_size, **processes)
        return self._loader(windows, batch_sampler=shares)

    def origins_of_step(self) -> pd.DatetimeIndex | None:
        """The last known timestamps of the windows that the last step trained on, sorted; None before the first."""
        if self.batches is None:
            return None
        windows = self.data.windows("train")
        rows = [windows.start_row(i) + self.data.seq_len - 1 for i in self.batches.windows_of_step()]
        origins: pd.DatetimeIndex = self.data.frame.timestamps[sorted(rows)]
        return origins

    def state_dict(self) -> dict[str, Any]:
        """How far the epoch is."""
        return {} if self.batches is None else dict(self.batches.position)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on behind the batches that were trained on."""
        self.resumed = state_dict

    def _processes(self) -> dict[str, int]:
        if self.trainer is None:
            return {"rank": 0, "world": 1}
        return {"rank": self.trainer.global_rank, "world": self.trainer.world_size}

    def _loader(self, windows: WindowDataset, **batching: Any) -> DataLoader[Batch]:
        # torch's type of collate_fn does not know that __getitems__ may give the whole batch
        collate: Any = as_batch
        # a loader draws from its generator even when it does not shuffle: the training's draws must not depend on that
        return DataLoader(windows, collate_fn=collate, generator=torch.Generator(), **batching)
