"""Windows of any number of series: (series, row) found by arithmetic, gathered many batches at a time."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from forecast.data.panel import PanelFrame
from forecast.data.scaling import Scales
from forecast.data.split import WindowOrigins
from forecast.data.values.cells import IntArray

Numbers = Sequence[int] | IntArray | Tensor  # of windows


class Batch(NamedTuple):
    """B windows in float32, scaled. A forecast is made from the first three.

    past (B, L, C); past_known (B, L, F); future_known (B, P, F); target (B, P, T); future (B, P, C): all columns of the
    forecast steps, for models that learn each step from the true steps before it. series (B,): their numbers. measured
    (B, P, T): False where a target was made up; None: none was. learnt (B, L + P, C), for models that learn the steps
    of the past too: False in what was made up and before a series begins; None: nowhere. floor (B, 1, T): below what no
    target can be; None: nowhere.
    """

    past: Tensor
    past_known: Tensor
    future_known: Tensor
    target: Tensor
    future: Tensor
    series: Tensor | None = None
    measured: Tensor | None = None
    learnt: Tensor | None = None
    floor: Tensor | None = None

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device; where it is there already, the very same tensors."""
        moved = (None if part is None else part.to(device, non_blocking=device.type == "cuda") for part in self)
        return Batch(*moved)  # type: ignore[arg-type]

    def bounded(self, forecasts: Tensor) -> Tensor:
        """Forecasts (B, P, T), or ends of intervals (B, P, T, K), none below the floor."""
        if self.floor is None:
            return forecasts
        return torch.maximum(forecasts, self.floor if forecasts.ndim == 3 else self.floor.unsqueeze(-1))


def hold(part: Tensor, rows: Tensor, table: Tensor, since: Tensor) -> None:
    """Puts the last measured value into what is made up at the end of some rows, in place of a line to later ones.

    part (B, R, C): values of `table` (N, C) that end with its rows (B,). since (N, C): how many rows before each cell
    the last measured one of its column lies.
    """
    steps = since[rows].long()
    if steps.any():
        last = table[rows[:, None] - steps, torch.arange(table.shape[1], device=table.device)]
        back = torch.arange(part.shape[1], 0, -1, device=part.device)[:, None]
        part.copy_(torch.where(back <= steps[:, None], last[:, None], part))


class Windows(Dataset[Batch]):
    """The windows of one split, series after series, each series' in the order of time, less those in gaps.

    Nothing is stored for a window: its number gives the series and the row, by the counts of `origins`. Where a past
    begins before its series does, the series' first row is repeated. Batches are gathered in one indexing operation,
    with no Python per sample: from `kept`, the scaled rows of all series; or, of a file that is mapped, from its rows,
    of which only what the windows hold is read and scaled, to the same bits.
    """

    def __init__(
        self,
        frame: PanelFrame,
        origins: WindowOrigins,
        *,
        scaler: Scales,
        calendar: Tensor,
        targets: Sequence[int],
        n_columns: int,
        seq_len: int,
        pred_len: int,
        kept: Tensor | None = None,
        chosen: IntArray | None = None,
        look_back: int | None = None,
        padded: bool = False,
        hidden: int = 0,
        facts: Tensor | None = None,
        masked: bool = False,
        offset: int = 0,
        device: torch.device | None = None,
    ) -> None:
        """The calendar (steps, F) holds the known features of each step, up to the last target's.

        n_columns: C; the K columns of the frame after them are known in advance. kept (N, C + F + K) float32: all rows
        of `prepare.scaled_table`; None: the windows' alone are made. chosen (W,): the windows of `origins` that are
        served, None: all. look_back: rows of the past in a batch, None: seq_len. offset: rows between past and targets.
        padded: whether the calendar is followed by a feature that is 1 where a row was repeated. hidden: how many of
        the last columns are 0 at the forecast steps. facts (S, G): the last known features of each step of a series,
        held once. masked: whether batches have `learnt`. device: where batches are wanted if no rows are kept; else
        they are where `kept` is.
        """
        self.home = torch.device("cpu") if kept is None else kept.device  # where batches are gathered
        self.device = self.home if device is None or kept is not None else device
        self.origins, self.frame, self.chosen = origins, frame, chosen
        self.look_back, self.pred_len = look_back or seq_len, pred_len
        self._hidden, self._padded, self._masked, self._offset = hidden, padded, masked, offset
        self._n_columns, self._length = n_columns, self.look_back + offset + pred_len
        self._calendar, self._is_scaled = calendar, kept is not None

        home = self.home
        self._table = _as_tensor(frame.values, home) if kept is None else kept
        self._mean, self._std = _as_tensor(scaler.mean, home), _as_tensor(scaler.std, home)
        self._floor = None if scaler.floor is None else _as_tensor(scaler.floor, home)
        self._measured = None if frame.measured is None else _as_tensor(frame.measured, home)
        self._since = None
        if frame.since is not None:  # as wide as the table: in the calendar is no gap
            known = np.full(self._table.shape[1] - len(frame.columns), n_columns)
            self._since = _as_tensor(np.insert(frame.since, known, 0, axis=1), home)
        self._facts = None if facts is None else facts.to(home)
        self._chosen = None if chosen is None else _as_tensor(chosen, home)
        self._begin, self._ends = _as_tensor(frame.offsets[:-1], home), _as_tensor(origins.ends, home)
        self._first = _as_tensor(origins.first - (origins.ends - origins.counts), home)
        self._steps = _as_tensor(frame.steps, home)
        self._after = torch.arange(self._length, device=self.home)
        # Rows of one piece of memory, where no window reaches over the beginning of its series.
        reaching = (origins.first - frame.offsets[:-1] < self.look_back)[origins.counts > 0]
        self._whole = not bool(reaching.any())
        # A slice where one will do: it is a view. Else numbers on the device: a list would go there with each batch.
        columns = list(targets)
        one_piece = columns == list(range(columns[0], columns[-1] + 1))
        self._targets = slice(columns[0], columns[-1] + 1) if one_piece else torch.tensor(columns, device=self.home)

    def __len__(self) -> int:
        return len(self.origins) if self.chosen is None else len(self.chosen)

    @property
    def ends(self) -> IntArray:
        """The served windows of all series up to and with each (S,)."""
        return self.origins.ends if self.chosen is None else np.searchsorted(self.chosen, self.origins.ends)

    @property
    def counts(self) -> IntArray:
        """The served windows of each series (S,)."""
        return np.diff(self.ends, prepend=0)

    @property
    def window_bytes(self) -> int:
        """What one gathered window takes."""
        known = self._calendar.shape[1] + self._padded + (0 if self._facts is None else self._facts.shape[1])
        return self._length * (len(self.frame.columns) + known) * torch.float32.itemsize

    def places(self, windows: Numbers) -> tuple[IntArray, IntArray]:
        """The series (B,) of windows, and the row (B,) of the frame where each forecast begins, but for an offset."""
        numbers = np.asarray(windows, dtype=np.int64)
        return self.origins.places(numbers if self.chosen is None else self.chosen[numbers])

    def __getitems__(self, indices: Numbers) -> Batch:
        """The windows `indices` (B of them) as one batch. This is what a DataLoader calls."""
        index = torch.as_tensor(indices, dtype=torch.int64, device=self.home)
        index = index if self._chosen is None else self._chosen.index_select(0, index)
        series = torch.searchsorted(self._ends, index, right=True)
        origin = self._first[series] + index
        start, begin = origin - self.look_back, self._begin[series]
        before = None  # the rows that lie before their series
        if not self._whole and (self.home.type != "cpu" or bool((start < begin).any())):
            before = start[:, None] + self._after < begin[:, None]
        both, c = self._scaled(series, start, begin, before), self._n_columns
        if self._hidden:
            both[:, self.look_back :, -self._hidden :] = 0
        measured, floor = None, None
        if self._measured is not None:
            rows = (origin + self._offset)[:, None] + self._after[: self.pred_len]
            measured = self._measured[rows][..., self._targets]
        if self._floor is not None:
            floor = ((self._floor - self._mean[series]) / self._std[series]).float()[:, None, self._targets]
        past, later = slice(None, self.look_back), slice(self.look_back + self._offset, None)
        known, future = self._known(both, series, before), both[:, later, :c]
        batch = Batch(
            past=both[:, past, :c],
            past_known=known[:, past],
            future_known=known[:, later],
            target=future[..., self._targets],
            future=future,
            series=series,
            measured=measured,
            learnt=self._learnt(before, origin) if self._masked else None,
            floor=floor,
        )
        if self.device == self.home:
            return batch
        if self.device.type == "cuda":  # from pinned memory a copy waits for no GPU
            batch = Batch(*(None if part is None else part.pin_memory() for part in batch))  # type: ignore[arg-type]
        return batch.to(self.device)

    def in_batches(self, indices: Numbers, size: int) -> list[Batch]:
        """The windows `indices` in batches of `size`, the last one with the rest; gathered at once.

        They share one memory: that takes half the time of one by one. A tensor of indices is best on `home`.
        """
        whole = self.__getitems__(indices)
        count = -(-len(whole.target) // size)
        # three times as fast as split; unsafe with gradients alone, and data have none
        parts = [[None] * count if part is None else part.unsafe_split(size) for part in whole]
        return [Batch(*batch) for batch in zip(*parts, strict=True)]

    def __getitem__(self, index: int) -> Batch:
        """Window `index` as a batch of one."""
        return self.__getitems__([index])

    def _scaled(self, series: Tensor, start: Tensor, begin: Tensor, before: Tensor | None) -> Tensor:
        """The scaled rows (B, D, C + F + K) of windows of these series (B,), from their rows `start` (B,) on.

        begin (B,): the first rows of the series. before (B, D): which rows of the windows lie before these.
        """
        origin, c = start + self.look_back, self._n_columns
        rows = _rows_of(self._table, start, begin, self._length, before)
        if self._since is not None:
            hold(rows[:, : self.look_back], origin - 1, self._table, self._since)
            # what is known in advance, the last columns, is known up to the end of the horizon
            ahead, last = rows.shape[2] - len(self.frame.columns) + c, origin + self._offset + self.pred_len - 1
            hold(rows[:, self.look_back + self._offset :, ahead:], last, self._table[:, ahead:], self._since[:, ahead:])
        if self._is_scaled:
            return rows
        values = ((rows - self._mean[series][:, None]) / self._std[series][:, None]).float()
        steps = self._steps[series]
        known = _rows_of(self._calendar, start - begin + steps, steps, self._length, before)
        return torch.cat([values[..., :c], known, values[..., c:]], dim=2)

    def _known(self, both: Tensor, series: Tensor, before: Tensor | None) -> Tensor:
        """The known features (B, D, F): calendar, flag of padded rows, columns that are known in advance, facts."""
        known, width = both[..., self._n_columns :], self._calendar.shape[1]
        if self._padded:
            flag = both.new_zeros(*both.shape[:2], 1) if before is None else before.unsqueeze(2).float()
            known = torch.cat([known[..., :width], flag, known[..., width:]], dim=2)
        if self._facts is not None:
            known = torch.cat([known, self._facts[series][:, None].expand(-1, self._length, -1)], dim=2)
        return known

    def _learnt(self, before: Tensor | None, origin: Tensor) -> Tensor | None:
        """`Batch.learnt` of windows with origins (B,). before (B, L + P): the rows that lie before their series."""
        if self._whole and self._measured is None:
            return None
        inside = torch.ones(1, 1, 1, dtype=torch.bool, device=self.home) if before is None else ~before.unsqueeze(2)
        if self._measured is None:
            return inside.expand(len(origin), self._length, self._n_columns)
        rows = ((origin - self.look_back)[:, None] + self._after).clamp_(min=0)
        return self._measured[rows][..., : self._n_columns] & inside


def _rows_of(table: Tensor, start: Tensor, begin: Tensor, length: int, before: Tensor | None) -> Tensor:
    """The rows (B, length, C) of a table (n, C) from each of `start` (B,) on; those before `begin` (B,): that row.

    before (B, length): where there are such; None: nowhere, so that each window is one piece of memory.
    """
    if before is not None:
        rows = torch.arange(length, device=start.device) + start[:, None]
        return table[torch.maximum(rows, begin[:, None])]
    width = table.shape[1]
    pieces = table.as_strided((max(0, len(table) - length + 1), length * width), (width, 1), table.storage_offset())
    return pieces.index_select(0, start).view(len(start), length, width)


def _as_tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """The array on a device; on the CPU in the same memory, and nothing is written to a file that is mapped."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array).to(device)
