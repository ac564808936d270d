"""Windows of a panel: (series, row) drawn by arithmetic, gathered many at a time."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.splits import Origins
from forecast.data.windows import Batch, WindowDataset, hold


class PanelWindows(Dataset[Batch]):
    """The windows of one split, series after series, each series' in the order of time; see `windows.WindowDataset`.

    Nothing is stored for a window: its number gives the series and the row, by the counts of `origins`. Where a past
    begins before its series does, the series' first row is repeated; `padded` adds a known feature that says where.
    The panel may be a memory-mapped file: only what the windows hold is read.
    """

    left_out = 0

    def __init__(
        self,
        frame: PanelFrame,
        origins: Origins,
        *,
        mean: Tensor,
        std: Tensor,
        calendar: Tensor,
        targets: Sequence[int],
        n_columns: int,
        seq_len: int,
        pred_len: int,
        look_back: int | None = None,
        padded: bool = False,
        hidden: int = 0,
        facts: Tensor | None = None,
        masked: bool = False,
        offset: int = 0,
        device: torch.device | None = None,
    ) -> None:
        """mean, std (S, C) float64. calendar (steps, F): the known features of each step, up to the last target's.

        n_columns: C; the columns of the frame after them are known in advance. look_back: rows of the past in a batch,
        None: seq_len. offset: rows between past and targets. padded: whether the calendar is followed by a
        feature that is 1 where a row was repeated. hidden: how many of the last columns are 0 at the forecast steps.
        facts (S, G): the last known features of each step of a series, held once. masked: whether batches have
        `learnt`. device: where batches are wanted; the panel stays in the host's memory.
        """
        self.home = torch.device("cpu")
        self.device = self.home if device is None else device
        self.origins, self.frame = origins, frame
        self.look_back = look_back or seq_len
        assert self.look_back >= seq_len
        self._hidden, self._facts = hidden, facts
        self._values, self._n_columns = _as_tensor(frame.values), n_columns
        self._measured = None if frame.measured is None else _as_tensor(frame.measured)
        self._since = None if frame.since is None else torch.from_numpy(frame.since)
        self._end = offset + pred_len
        self._mean, self._std, self._calendar, self._padded = mean, std, calendar, padded
        self._masked = masked
        self._offsets, self._steps = torch.from_numpy(frame.offsets), torch.from_numpy(frame.steps)
        self._first = torch.from_numpy(origins.first - (origins.ends - origins.counts))
        self._ends = torch.from_numpy(origins.ends)
        self._shift = torch.cat([torch.arange(-self.look_back, 0), torch.arange(offset, offset + pred_len)])
        # Rows of one piece of memory, where no window reaches over the beginning of its series.
        length = self.look_back + offset + pred_len
        self._whole = not bool((origins.first - frame.offsets[:-1] < self.look_back)[origins.counts > 0].any())
        self._whole &= not offset and len(self._values) >= length
        self._views = [_rows_of(part, length) for part in (self._values, calendar)] if self._whole else None
        columns = list(targets)
        self._targets = None if columns == list(range(n_columns)) else torch.tensor(columns)

    def __len__(self) -> int:
        return len(self.origins)

    @property
    def window_bytes(self) -> int:
        """What one gathered window takes."""
        known = self._calendar.shape[1] + self._padded + (0 if self._facts is None else self._facts.shape[1])
        return len(self._shift) * (self._values.shape[1] + known) * torch.float32.itemsize

    def series_of(self, indices: Sequence[int] | Tensor) -> Tensor:
        """The series (B,) of windows."""
        return torch.searchsorted(self._ends, torch.as_tensor(indices, dtype=torch.int64), right=True)

    def origins_of(self, indices: Sequence[int] | Tensor) -> Tensor:
        """The row (B,) of the panel at which the targets of windows begin, but for an offset."""
        index = torch.as_tensor(indices, dtype=torch.int64)
        return self._first[self.series_of(index)] + index

    def __getitems__(self, indices: Sequence[int] | Tensor) -> Batch:
        """The windows `indices` (B of them) as one batch."""
        index = torch.as_tensor(indices, dtype=torch.int64)
        series = self.series_of(index)
        origin = self._first[series] + index
        step = origin - self._offsets[series] + self._steps[series]
        if self._views is not None:
            values = self._views[0].index_select(0, origin - self.look_back).view(len(index), len(self._shift), -1)
            known = self._views[1].index_select(0, step - self.look_back).view(len(index), len(self._shift), -1)
        else:
            rows = origin[:, None] + self._shift
            begin = self._offsets[series][:, None]
            before = rows < begin
            values = self._values[torch.where(before, begin, rows)]
            known = self._calendar[(step[:, None] + self._shift).clamp_(min=0)]
        if self._padded:
            flag = torch.zeros(*known.shape[:2], 1) if self._views is not None else before.unsqueeze(2).float()
            known = torch.cat([known, flag], dim=2)
        if self._since is not None:
            c, since = self._n_columns, self._since
            hold(values[:, : self.look_back], origin - 1, self._values, since)
            if c < values.shape[2]:  # known in advance, up to the end of the horizon
                future = values[:, self.look_back :, c:]
                hold(future, origin + self._end - 1, self._values[:, c:], since[:, c:])
        learnt = self._learnt(None if self._views is not None else before, origin) if self._masked else None
        values = ((values - self._mean[series][:, None]) / self._std[series][:, None]).float()
        if self._n_columns < values.shape[2]:
            known = torch.cat([known, values[..., self._n_columns :]], dim=2)
            values = values[..., : self._n_columns]
            if self._hidden:
                known[:, self.look_back :, -self._hidden :] = 0
        if self._facts is not None:
            known = torch.cat([known, self._facts[series][:, None].expand(-1, len(self._shift), -1)], dim=2)
        past, future = values[:, : self.look_back], values[:, self.look_back :]
        target = future if self._targets is None else future[..., self._targets]
        measured = None
        if self._measured is not None:
            measured = self._measured[origin[:, None] + self._shift[self.look_back :]]
            measured = measured[..., : self._n_columns] if self._targets is None else measured[..., self._targets]
        batch = Batch(past, known[:, : self.look_back], known[:, self.look_back :], target, future, series, measured)
        batch = batch._replace(learnt=learnt)
        return batch if self.device == self.home else batch.to(self.device)

    def _learnt(self, before: Tensor | None, origin: Tensor) -> Tensor | None:
        """`Batch.learnt` of windows with origins (B,). before (B, L + P): the rows that lie before their series."""
        if before is None and self._measured is None:
            return None
        inside = torch.ones(1, 1, 1, dtype=torch.bool) if before is None else ~before.unsqueeze(2)
        if self._measured is None:
            return inside.expand(-1, -1, self._n_columns)
        rows = (origin[:, None] + self._shift).clamp_(min=0)
        return self._measured[rows][..., : self._n_columns] & inside

    def in_batches(self, indices: Sequence[int] | Tensor, size: int) -> list[Batch]:
        """The windows `indices` in batches of `size`, the last one with the rest; gathered at once."""
        whole = self.__getitems__(indices)
        count = -(-len(whole.target) // size)
        parts = [[None] * count if part is None else torch.split(part, size) for part in whole]
        return [Batch(*batch) for batch in zip(*parts, strict=True)]

    def __getitem__(self, index: int) -> Batch:
        """Window `index` as a batch of one."""
        return self.__getitems__([index])


def _rows_of(table: Tensor, length: int) -> Tensor:
    """(n, C) -> (n - length + 1, length * C): overlapping pieces of one memory."""
    width = table.shape[1]
    return table.as_strided((max(0, len(table) - length + 1), length * width), (width, 1), table.storage_offset())


def _as_tensor(array: np.ndarray) -> Tensor:
    """The same memory; of a file that is mapped for reading nothing is written."""
    if not array.flags.writeable:
        array = np.lib.stride_tricks.as_strided(array, writeable=False)
        import warnings

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(array)
    return torch.from_numpy(array)


Windows = WindowDataset | PanelWindows
