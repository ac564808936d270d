"""The batches of a training."""

from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader

from forecast.data.prepare import PreparedData
from forecast.data.windows import Batch, WindowDataset, as_batch


class ForecastDataModule(pl.LightningDataModule):
    """Train windows in an order drawn from `seed`, validation windows in order, none dropped.

    A batch is gathered in one indexing operation in the main process: workers would only copy it about.
    """

    def __init__(self, data: PreparedData, *, batch_size: int, seed: int) -> None:
        super().__init__()
        self.data = data
        self.batch_size = batch_size
        self.order = torch.Generator().manual_seed(seed)

    def train_dataloader(self) -> DataLoader[Batch]:
        """Batches of train windows, in another order each epoch."""
        return self._loader(self.data.windows("train"), shuffle=True)

    def val_dataloader(self) -> DataLoader[Batch]:
        """Batches of validation windows, in order."""
        return self._loader(self.data.windows("val"), shuffle=False)

    def _loader(self, windows: WindowDataset, *, shuffle: bool) -> DataLoader[Batch]:
        # torch's type of collate_fn does not know that __getitems__ may give the whole batch
        collate: Any = as_batch
        # a loader draws from its generator even when it does not shuffle: validations must not change the order
        order = self.order if shuffle else None
        return DataLoader(windows, self.batch_size, shuffle=shuffle, generator=order, collate_fn=collate)
