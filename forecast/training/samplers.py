"""In which order windows are trained on, and which process trains on which of them."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

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
        windows: list[int] = self.sampler.permutation()[taken.start : taken.stop].tolist()
        return windows

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
