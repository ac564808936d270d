"""From an order of windows to batches on the device that trains."""

import time
from collections.abc import Callable, Iterator
from itertools import groupby, islice

import torch
from torch import Tensor

from forecast.data.windows import Batch, WindowDataset
from forecast.training.samplers import BatchesInOrder, TrainBatches

# So many bytes of batches are gathered at once: enough to share the cost of a call, few enough to stay in the cache.
BLOCK_BYTES = 2**20


class WindowLoader:
    """What Lightning needs of a DataLoader, and no more: the batches of an epoch, and their number.

    torch's own takes several times as long for a batch as gathering it does. Here a few batches are gathered in one
    indexing operation, by numbers that are moved to the series' device once an epoch: on a GPU the loop copies nothing
    from the host and waits for nothing.

    waited: how many seconds of `clock` the last batch took to come.
    """

    def __init__(
        self,
        windows: WindowDataset,
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
        asked = self.clock()
        step = self.batch_sampler.first()
        shares = self.batch_sampler.shares(self.windows.home)[step:]
        for block in self._blocks(shares):
            size = len(block[0])
            for batch in self.windows.in_batches(torch.cat(block), size):
                self.batch_sampler.taken(step, size)
                self.waited = self.clock() - asked
                yield batch
                asked = self.clock()
                step += 1

    def _blocks(self, shares: list[Tensor]) -> Iterator[list[Tensor]]:
        """The numbers of successive batches of one size, about BLOCK_BYTES of them at a time."""
        for size, equal in groupby(shares, key=len):
            at_once = max(1, BLOCK_BYTES // (size * self.windows.window_bytes))
            while block := list(islice(equal, at_once)):
                yield block
