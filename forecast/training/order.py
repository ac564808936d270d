"""In which order windows are trained on, and which process trains on which of them."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler

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

    def numbers(self) -> Tensor:
        """Window numbers (count,), another order in each epoch."""
        seed = int(np.random.SeedSequence((self.seed, self.epoch)).generate_state(1, np.uint64)[0])
        return torch.randperm(self.count, generator=torch.Generator().manual_seed(seed))


class TrainBatches(Sampler[list[int]]):
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
        self.resumed = self.position  # in a resumed run this epoch goes on from there
        self.weight = 1.0

    def __len__(self) -> int:
        steps, rest = divmod(self.sampler.count, self.step_size)
        return steps + 1 if rest >= self.world or not steps else steps

    def __iter__(self) -> Iterator[list[int]]:
        # a generator: it begins with the first batch, after Lightning has set the epoch
        epoch = self.sampler.epoch
        done = self.resumed["batches"] if self.resumed["epoch"] == epoch else 0
        numbers = self.sampler.numbers()
        for step in range(done, len(self)):
            windows = self._of_step(numbers, step)
            mine = windows.tensor_split(self.world)[self.rank]
            self.position = {"epoch": epoch, "batches": step + 1}
            self.weight = len(mine) * self.world / len(windows)
            yield mine.tolist()

    def windows_of_step(self) -> list[int]:
        """The numbers of the windows that all processes together took last."""
        windows: list[int] = self._of_step(self.sampler.numbers(), self.position["batches"] - 1).tolist()
        return windows

    def _of_step(self, numbers: Tensor, step: int) -> Tensor:
        end = None if step == len(self) - 1 else (step + 1) * self.step_size
        return numbers[step * self.step_size : end]


class ValidationBatches(Sampler[list[int]]):
    """The share of one process of `world` in `count` windows, in order: every window once, none twice.

    Every process gets equally many batches, none empty, since the processes run each of them together.

    Raises UserError for fewer than two windows for each process.
    """

    def __init__(self, count: int, *, batch_size: int, rank: int, world: int) -> None:
        if count < 2 * world:
            raise UserError(f"{world} processes cannot share {count} validation windows. Start fewer processes.")
        batches = -(-count // (max(batch_size, 2) * world))
        self.parts = torch.arange(count).tensor_split(batches * world)[rank::world]

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[list[int]]:
        return (part.tolist() for part in self.parts)
