"""Windows of a series, gathered a whole batch at a time."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

FloatArray = npt.NDArray[np.floating[Any]]


class Batch(NamedTuple):
    """B windows in float32, scaled. A forecast is made from the first three.

    past (B, L, C); past_known (B, L, F); future_known (B, P, F); target (B, P, T); future (B, P, C): all columns of the
    forecast steps, for models that learn each step from the true steps before it
    """

    past: Tensor
    past_known: Tensor
    future_known: Tensor
    target: Tensor
    future: Tensor


def stack_series(values: FloatArray, known: FloatArray) -> Tensor:
    """The one series that the datasets of all splits share.

    values (N, C), scaled, and known (N, F)  ->  (N, C + F) float32, contiguous
    """
    assert values.ndim == known.ndim == 2 and len(values) == len(known)
    # columns read from a file may lie column by column, and a window is a view of whole rows
    return torch.from_numpy(np.ascontiguousarray(np.concatenate([values, known], axis=1, dtype=np.float32)))


def as_batch(batch: Batch) -> Batch:
    """The collate function for DataLoader: `WindowDataset.__getitems__` has made the batch already."""
    return batch


class WindowDataset(Dataset[Batch]):
    """All windows of seq_len + pred_len consecutive rows inside `rows`, one starting at each row, less those in gaps.

    With an offset so many rows lie between the past and the forecast steps. A window is a view of the series: a batch
    is one indexing operation, with no Python per sample.
    """

    def __init__(
        self,
        series: Tensor,
        *,
        n_columns: int,
        rows: range,
        seq_len: int,
        pred_len: int,
        targets: Sequence[int],
        offset: int = 0,
        chosen: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """Windows of a series (N, C + F) made by `stack_series`, on any device: batches live there.

        n_columns: C. rows: what the windows may touch (`split.window_rows`). targets: T of the C columns.
        chosen (W,): the numbers of the windows that are served, counted from the first row; None serves all.
        """
        assert series.ndim == 2 and series.is_contiguous()
        assert rows.start >= 0 and rows.stop <= len(series) and rows.step == 1
        assert targets and all(0 <= t < n_columns <= series.shape[1] for t in targets)
        assert offset >= 0
        self._rows, self._seq_len, self._n_columns = rows, seq_len, n_columns
        self._first_step = seq_len + offset
        self._targets = _slice_or_list(targets)
        self._width = width = series.shape[1]
        length = self._first_step + pred_len
        # Row i of this view is window i, flat: overlapping rows of one memory, each a contiguous piece of it.
        self._windows = series.as_strided(
            (max(0, len(rows) - length + 1), length * width),
            (width, 1),
            series.storage_offset() + rows.start * width,
        )
        self._chosen = None if chosen is None else torch.as_tensor(chosen, device=series.device)

    def __len__(self) -> int:
        return self._windows.shape[0] if self._chosen is None else len(self._chosen)

    @property
    def left_out(self) -> int:
        """How many windows are not served."""
        return self._windows.shape[0] - len(self)

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """The windows `indices` (B of them) as one batch. This is what a DataLoader calls."""
        index = torch.as_tensor(indices, dtype=torch.int64, device=self._windows.device)
        index = index if self._chosen is None else self._chosen.index_select(0, index)
        both = self._windows.index_select(0, index).view(len(indices), -1, self._width)  # (B, L + offset + P, C + F)
        past, future = both[:, : self._seq_len], both[:, self._first_step :]
        c = self._n_columns
        target = future[..., self._targets]
        return Batch(past[..., :c], past[..., c:], future[..., c:], target, future[..., :c])

    def __getitem__(self, index: int) -> Batch:
        """Window `index` as a batch of one."""
        return self.__getitems__([index])

    def start_row(self, index: int) -> int:
        """The row of the series at which window `index` begins; its first target row is seq_len + offset further."""
        assert 0 <= index < len(self)
        return self._rows.start + (index if self._chosen is None else int(self._chosen[index]))


def _slice_or_list(targets: Sequence[int]) -> slice | list[int]:
    """A slice where one will do: it is a view, a list of columns is a copy."""
    first, last = targets[0], targets[-1]
    return slice(first, last + 1) if list(targets) == list(range(first, last + 1)) else list(targets)
