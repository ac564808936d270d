"""The batches of a training."""

import lightning.pytorch as pl
import pandas as pd
import torch

from forecast.bounds import Sampling
from forecast.data.prepare import Prepared
from forecast.data.windows import Windows
from forecast.training.loader import WindowLoader
from forecast.training.samplers import BatchesInOrder, DrawnOrder, EpochOrder, TrainBatches


class ForecastDataModule(pl.LightningDataModule):
    """Train windows in an order drawn from `seed`, validation windows in order, none dropped.

    The rows are moved to the device that trains once, when they fit there, and batches are gathered on it in the main
    process: workers would only copy them about. Several processes share the windows, `batch_size` is that of each.
    windows_per_epoch: so many windows are drawn for each epoch, None: all; sampling: each window alike, or each series.
    masked: whether batches have `learnt`. look_back:
    rows that a window's past holds where they are more than seq_len; a train window has them all in its series.
    """

    def __init__(
        self,
        data: Prepared,
        *,
        batch_size: int,
        seed: int,
        windows_per_epoch: int | None = None,
        sampling: Sampling = "windows",
        masked: bool = False,
        look_back: int | None = None,
    ) -> None:
        super().__init__()
        self.look_back = max(data.seq_len, look_back or 0)
        self.data = data
        self.batch_size = batch_size
        self.masked = masked
        self.learnt = data.but(seq_len=self.look_back)
        windows = self.learnt.windows("train")
        self.order = EpochOrder(len(windows), seed=seed)
        ends = windows.ends if sampling == "series" else None
        if windows_per_epoch or ends is not None:
            self.order = DrawnOrder(len(windows), drawn=windows_per_epoch or len(windows), seed=seed, ends=ends)
        self.batches: TrainBatches | None = None
        self.resumed: dict[str, int] = {}
        self.device_data: Prepared | None = None  # the data on the device that trains

    def train_dataloader(self) -> WindowLoader:
        """Batches of train windows, in another order each epoch."""
        if self.trainer is not None and self.trainer.overfit_batches:  # type: ignore[attr-defined]
            return self._in_order("train")  # the same batches in every epoch
        self.batches = TrainBatches(self.order, batch_size=self.batch_size, **self._processes())
        self.batches.start = self.batches.position = self.resumed or self.batches.position
        return WindowLoader(self._windows("train"), self.batches)

    def val_dataloader(self) -> WindowLoader:
        """Batches of validation windows, in order."""
        return self._in_order("val")

    def teardown(self, stage: str) -> None:
        """Gives the device's memory back."""
        self.device_data = None

    def origins_of_step(self, step: int | None = None) -> pd.DatetimeIndex | None:
        """The last known timestamps, sorted, of the windows that a step of this epoch trained on; None before any.

        step: None for the last.
        """
        if self.batches is None:
            return None
        return self.learnt.origin_times("train", self.batches.step_windows(step))

    def state_dict(self) -> dict[str, object]:
        """How far the epoch is."""
        return {} if self.batches is None else dict(self.batches.position)

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Continues after the batches that were trained on."""
        self.resumed = state_dict

    def _processes(self) -> dict[str, int]:
        if self.trainer is None:
            return {"rank": 0, "world": 1}
        return {"rank": self.trainer.global_rank, "world": self.trainer.world_size}

    def _in_order(self, split: str) -> WindowLoader:
        windows = self._windows(split)
        batches = BatchesInOrder(len(windows), batch_size=self.batch_size, **self._processes())
        return WindowLoader(windows, batches)

    def _windows(self, split: str) -> Windows:
        """The windows of a split on the device that trains. Both splits share one series there."""
        if self.device_data is None:
            device = torch.device("cpu") if self.trainer is None else self.trainer.strategy.root_device
            self.device_data = self.data.on(device)
        if split != "train":
            return self.device_data.windows(split, look_back=self.look_back)
        return self.device_data.but(seq_len=self.look_back).windows("train", masked=self.masked)
