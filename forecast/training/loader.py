"""From an order of windows to batches on the device that trains."""

import time
from collections.abc import Callable, Iterator
from itertools import groupby, islice

import torch

from forecast.data.windows import Batch, Windows
from forecast.training.samplers import BatchesInOrder, TrainBatches

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
