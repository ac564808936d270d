"""The batches of a training: the order of its windows, gathered on the device that trains, for Lightning."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby, islice

import lightning.pytorch as pl
import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from forecast.bounds import Sampling
from forecast.data.prepare import Prepared
from forecast.data.windows import Batch, Windows
from forecast.errors import UserError


class EpochOrder:
    """The order of `count` windows in an epoch: (seed, epoch) alone decide it, so a resumed run finds it again."""

    def __init__(self, count: int, *, seed: int) -> None:
        self.count = count
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Epochs count from 0. Lightning calls this before each."""
        self.epoch = epoch

    def permutation(self) -> Tensor:
        """Window numbers (count,), another order in each epoch."""
        # hashed and not added: seed 1 in epoch 1 and seed 2 in epoch 0 must not share an order
        seed = int(np.random.SeedSequence((self.seed, self.epoch)).generate_state(1, np.uint64)[0])
        # a generator of its own: neither dropout nor a validation changes the order
        return torch.randperm(self.count, generator=torch.Generator().manual_seed(seed))


class DrawnOrder(EpochOrder):
    """`drawn` of `windows` windows an epoch, drawn anew for each from (seed, epoch) alone, at the cost of those drawn.

    Without `ends` each window is alike, none twice in an epoch. ends (S,): the windows of all series up to and with s;
    then each series that has one is alike, and in it each of its windows, which may come twice.
    """

    def __init__(self, windows: int, *, drawn: int, seed: int, ends: npt.NDArray[np.int64] | None = None) -> None:
        super().__init__(min(drawn, windows) if ends is None else drawn, seed=seed)
        self.windows = windows
        self.ends = ends

    def permutation(self) -> Tensor:
        """Window numbers (count,), others in each epoch."""
        generator = np.random.default_rng(np.random.SeedSequence((self.seed, self.epoch)))
        if self.ends is None:
            # shuffled and without replacement; of many windows few are drawn without a list of all of them
            return torch.from_numpy(generator.choice(self.windows, self.count, replace=False))
        counts = np.diff(self.ends, prepend=0)
        series = generator.choice(np.flatnonzero(counts), self.count)
        within = (generator.random(self.count) * counts[series]).astype(np.int64)
        return torch.from_numpy(self.ends[series] - counts[series] + np.minimum(within, counts[series] - 1))


class TrainBatches:
    """The batches of one process of `world`: window numbers, at most `batch_size` but for the last step.

    A step of all processes together takes world * batch_size windows of the order, so that N processes with batches of
    B train as one process with batches of N * B. No window is left out or taken twice: the last step takes what is
    left, each process its share, and fewer than one window for each are added to the step before. `weight` is what the
    mean over this process's batch counts for, when the processes average theirs with equal weights.

    Raises UserError for more processes than windows.
    """

    def __init__(self, order: EpochOrder, *, batch_size: int, rank: int = 0, world: int = 1) -> None:
        if order.count < world:
            raise UserError(f"{world} processes cannot share {order.count} train windows. Start fewer processes.")
        self.sampler = order  # under this name Lightning looks for set_epoch
        self.step_size = batch_size * world
        self.rank = rank
        self.world = world
        self.position = {"epoch": 0, "batches": 0}  # how far the epoch is
        self.start = self.position  # where a resumed run continues
        self.weight = 1.0

    def __len__(self) -> int:
        steps, rest = divmod(self.sampler.count, self.step_size)
        return steps + 1 if rest >= self.world or not steps else steps

    @property
    def first_step(self) -> int:
        """The number of the first step of the epoch that begins; not 0 where it is resumed."""
        return self.start["batches"] if self.start["epoch"] == self.sampler.epoch else 0

    def batch_indices(self, device: torch.device) -> list[Tensor]:
        """For each step of the epoch the numbers (B,) of this process's windows, views of one tensor on the device."""
        indices = self.sampler.permutation().to(device)
        last = (len(self) - 1) * self.step_size
        # the last step apart: it may be smaller, or larger by what the processes could not share
        steps = [*torch.split(indices[:last], self.step_size), indices[last:]] if last else [indices]
        return steps if self.world == 1 else [step.tensor_split(self.world)[self.rank] for step in steps]

    def advance(self, step: int, size: int) -> None:
        """To be called before this process's batch of a step, of `size` windows, is handed out."""
        self.position = {"epoch": self.sampler.epoch, "batches": step + 1}
        if self.world > 1:
            self.weight = size * self.world / len(self._step_range(step))

    def accumulated_weight(self, gathered: int, n_steps: int) -> float:
        """What the loss of the last step counts for, where each counts 1 / `gathered` in a gradient of several steps.

        gathered: how many steps in a row make a gradient, fewer at the end of an epoch of `n_steps`. With the weight
        the gradient is the mean over the windows of all of them, however many they are and however large each is.
        """
        step = self.position["batches"] - 1
        first = step - step % gathered
        together = sum(len(self._step_range(other)) for other in range(first, min(first + gathered, n_steps)))
        return gathered * len(self._step_range(step)) / together

    def step_windows(self, step: int | None = None) -> list[int]:
        """The numbers of the windows that all processes together took in a step of this epoch, None: the last."""
        taken = self._step_range(self.position["batches"] - 1 if step is None else step)
        return self.sampler.permutation()[taken.start : taken.stop].tolist()

    def _step_range(self, step: int) -> range:
        """The piece of the order that a step of all processes takes."""
        start = step * self.step_size
        return range(start, self.sampler.count if step == len(self) - 1 else start + self.step_size)


class BatchesInOrder:
    """The share of one process of `world` in `count` windows, in order: every window once, none twice.

    Every process gets equally many batches, none empty, since the processes run each of them together.

    Raises UserError for fewer than two windows for each of several processes.
    """

    first_step = 0

    def __init__(self, count: int, *, batch_size: int, rank: int = 0, world: int = 1) -> None:
        if world == 1:
            self.parts = torch.split(torch.arange(count), batch_size)
            return
        if count < 2 * world:
            raise UserError(f"{world} processes cannot share {count} validation windows. Start fewer processes.")
        # batches of equal size but for one window: with one window a batch, the last would be left empty
        batches = -(-count // (max(batch_size, 2) * world))
        self.parts = torch.arange(count).tensor_split(batches * world)[rank::world]

    def __len__(self) -> int:
        return len(self.parts)

    def batch_indices(self, device: torch.device) -> list[Tensor]:
        """The numbers (B,) of the windows of each batch."""
        return list(torch.split(torch.cat(self.parts).to(device), [len(part) for part in self.parts]))  # one copy

    def advance(self, step: int, size: int) -> None:
        """A pass saves no position."""


# So many bytes of batches are gathered at once: enough to share the cost of a call, few enough to stay in the cache.
BLOCK_BYTES = 2**20


class WindowLoader:
    """What Lightning needs of a DataLoader, and no more: the batches of an epoch, and their number.

    torch's own takes several times as long for a batch as gathering it does. Here a few batches are gathered in one
    indexing operation, by numbers that are moved to the series' device once an epoch: on a GPU the loop copies nothing
    from the host and waits for nothing.

    waited: how many seconds of `clock` the loop waited for the last batch.
    """

    def __init__(
        self,
        windows: Windows,
        batches: TrainBatches | BatchesInOrder,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.windows = windows
        self.batch_sampler = batches  # under this name Lightning looks for the sampler whose epoch it sets
        self.clock = clock
        self.waited = 0.0

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def __iter__(self) -> Iterator[Batch]:
        # a generator: it begins with the first batch, after Lightning has set the epoch
        requested_at = self.clock()
        step = self.batch_sampler.first_step
        indices = self.batch_sampler.batch_indices(self.windows.home)[step:]
        for size, equal in groupby(indices, key=len):  # batches of one size can be gathered together
            at_once = max(1, BLOCK_BYTES // (size * self.windows.window_bytes))
            while block := list(islice(equal, at_once)):
                for batch in self.windows.in_batches(torch.cat(block), size):
                    # before the batch is handed out: a checkpoint written in its step counts it as trained on
                    self.batch_sampler.advance(step, size)
                    self.waited = self.clock() - requested_at
                    yield batch
                    requested_at = self.clock()
                    step += 1


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
        self.windows = replace(data, seq_len=self.look_back).windows("train")
        count = len(self.windows)
        self.order = EpochOrder(count, seed=seed)
        ends = self.windows.ends if sampling == "series" else None
        if windows_per_epoch or ends is not None:
            self.order = DrawnOrder(count, drawn=windows_per_epoch or count, seed=seed, ends=ends)
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
        series, origins = self.windows.places(self.batches.step_windows(step))
        return self.data.times_of(origins - 1, series).sort_values()

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
        return replace(self.device_data, seq_len=self.look_back).windows("train", masked=self.masked)
