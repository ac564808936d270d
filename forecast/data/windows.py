"""Windows of any number of series: (series, row) found by arithmetic, gathered many batches at a time."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from forecast.data.panel import PanelFrame
from forecast.data.split import WindowOrigins
from forecast.data.values.cells import FloatArray, IntArray

# The rows of all series are moved to a GPU when they take at most so much of the free memory there.
SERIES_SHARE = 0.25

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
        return Batch(*(None if part is None else part.to(device) for part in self))  # type: ignore[arg-type]

    def bounded(self, forecasts: Tensor) -> Tensor:
        """Forecasts (B, P, T), or ends of intervals (B, P, T, K), none below the floor."""
        if self.floor is None:
            return forecasts
        return torch.maximum(forecasts, self.floor if forecasts.ndim == 3 else self.floor.unsqueeze(-1))


def moved_if_it_fits(rows: Tensor, device: torch.device) -> Tensor:
    """Rows (N, C + F) on the device, or where they were when they would fill more than SERIES_SHARE of a GPU's rest."""
    if device.type == "cuda" and rows.device.type == "cpu" and rows.nbytes > SERIES_SHARE * free_bytes(device):
        return rows
    return rows.to(device)


def free_bytes(device: torch.device) -> int:
    """What a GPU has left for everyone."""
    return torch.cuda.mem_get_info(device)[0]


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
        mean: Tensor,
        std: Tensor,
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
        floor: FloatArray | None = None,
        device: torch.device | None = None,
    ) -> None:
        """mean, std (S, C) float64. calendar (steps, F): the known features of each step, up to the last target's.

        n_columns: C; the K columns of the frame after them are known in advance. kept (N, C + F + K) float32: all rows
        of `prepare.scaled_table`; None: the windows' alone are made. chosen (W,): the windows of `origins` that are
        served, None: all. look_back: rows of the past in a batch, None: seq_len. offset: rows between past and targets.
        padded: whether the calendar is followed by a feature that is 1 where a row was repeated. hidden: how many of
        the last columns are 0 at the forecast steps. facts (S, G): the last known features of each step of a series,
        held once. masked: whether batches have `learnt`. floor: as `Scales` has it. device: where batches are wanted;
        they are gathered where `kept` is.
        """
        self.home = torch.device("cpu") if kept is None else kept.device
        # `cuda` without a number is equal to the device of no tensor
        self.device = self.home if device is None else torch.empty(0, device=device).device
        self.origins, self.frame, self.chosen = origins, frame, chosen
        self.seq_len, self.look_back, self.pred_len = seq_len, look_back or seq_len, pred_len
        assert self.look_back >= seq_len and offset >= 0
        self._hidden, self._padded, self._masked, self._offset = hidden, padded, masked, offset
        self._n_columns, self._n_ahead = n_columns, len(frame.columns) - n_columns
        self._length = self.look_back + offset + pred_len
        self._mean, self._std, self._calendar, self._kept = mean, std, calendar, kept
        self._floor = None if floor is None else torch.from_numpy(floor)
        # of rows that are kept the scale is known; else it may be found later, of those series that are needed
        self._floors = None if self._floor is None or kept is None else self._scaled_floor(slice(None)).to(self.home)

        def at_home(array: np.ndarray | None) -> Tensor | None:
            return None if array is None else _as_tensor(array).to(self.home)

        self._measured, self._since = at_home(frame.measured), at_home(frame.since)
        self._facts = None if facts is None else facts.to(self.device)
        self._values = None if kept is not None else _as_tensor(frame.values)
        self._begin = torch.from_numpy(frame.offsets[:-1]).to(self.home)
        self._steps = torch.from_numpy(frame.steps).to(self.home)
        self._first = torch.from_numpy(origins.first - (origins.ends - origins.counts)).to(self.home)
        self._ends = torch.from_numpy(origins.ends).to(self.home)
        self._chosen = at_home(chosen)
        self._after = torch.arange(self._length, device=self.home)
        # Rows of one piece of memory, where no window reaches over the beginning of its series.
        reaching = (origins.first - frame.offsets[:-1] < self.look_back)[origins.counts > 0]
        self._whole = not bool(reaching.any())
        # A slice where one will do: it is a view. Else numbers on the device: a list would go there with each batch.
        columns, one_piece = list(targets), list(targets) == list(range(targets[0], targets[-1] + 1))
        self._targets, self._moved_targets = (
            slice(columns[0], columns[-1] + 1) if one_piece else torch.tensor(columns, device=device)
            for device in (self.home, self.device)
        )
        self._all = columns == list(range(n_columns))

    def __len__(self) -> int:
        return len(self.origins) if self.chosen is None else len(self.chosen)

    @property
    def left_out(self) -> int:
        """How many windows are not served."""
        return len(self.origins) - len(self)

    @property
    def ends(self) -> IntArray:
        """The served windows of all series up to and with each (S,)."""
        return self.origins.ends if self.chosen is None else np.searchsorted(self.chosen, self.origins.ends)

    @property
    def counts(self) -> IntArray:
        """The served windows of each series (S,)."""
        return np.diff(self.ends, prepend=0)

    @property
    def rows(self) -> IntArray:
        """The row at which the forecast of each window (W,) begins, but for an offset."""
        rows = self.origins.rows()
        return rows if self.chosen is None else rows[self.chosen]

    @property
    def window_bytes(self) -> int:
        """What one gathered window takes."""
        known = self._calendar.shape[1] + self._padded + (0 if self._facts is None else self._facts.shape[1])
        return self._length * (len(self.frame.columns) + known) * torch.float32.itemsize

    def series_of(self, indices: Numbers) -> Tensor:
        """The series (B,) of windows."""
        return torch.from_numpy(self.origins.series(self._numbers(indices)))

    def origins_of(self, indices: Numbers) -> Tensor:
        """The row (B,) of the frame at which the targets of windows begin, but for an offset."""
        numbers, origins = self._numbers(indices), self.origins
        return torch.from_numpy((origins.first - (origins.ends - origins.counts))[origins.series(numbers)] + numbers)

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
        c = self._n_columns
        if self._kept is not None:
            both = _rows_of(self._kept, start, begin, self._length, before)
            both = self._held(both, self._kept, origin, c + self._calendar.shape[1])
        else:
            assert self._values is not None
            values = self._held(_rows_of(self._values, start, begin, self._length, before), self._values, origin, c)
            values = ((values - self._mean[series][:, None]) / self._std[series][:, None]).float()
            steps = self._steps[series]
            known = _rows_of(self._calendar, start - begin + steps, steps, self._length, before)
            both = torch.cat([values[..., :c], known, values[..., c:]], dim=2)
        if self._hidden:
            both[:, self.look_back :, -self._hidden :] = 0
        learnt = self._learnt(before, origin) if self._masked else None
        measured = None
        if self._measured is not None:
            rows = (origin + self._offset)[:, None] + self._after[: self.pred_len]
            measured = self._measured[rows][..., self._targets]
        floor = None
        if self._floor is not None:
            floor = self._scaled_floor(series) if self._floors is None else self._floors[series]
            floor = floor[:, None, self._targets]
        if self.device != self.home:
            both, series = self._moved(both), self._moved(series)
            before, measured, learnt, floor = (
                None if part is None else self._moved(part) for part in (before, measured, learnt, floor)
            )
        past, later = slice(None, self.look_back), slice(self.look_back + self._offset, None)
        known, future = self._known(both, series, before), both[:, later, :c]
        target = future if self._all else future[..., self._moved_targets]
        of_past = both[:, past, :c], known[:, past]
        return Batch(*of_past, known[:, later], target, future, series, measured, learnt, floor)

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

    def _moved(self, part: Tensor) -> Tensor:
        """On the device; only from pinned memory does a copy not wait for a GPU."""
        pinned = part.pin_memory() if self.device.type == "cuda" else part
        return pinned.to(self.device, non_blocking=True)

    def _numbers(self, indices: Numbers) -> IntArray:
        """The numbers among all windows of those that are served."""
        numbers = torch.as_tensor(indices, dtype=torch.int64).cpu().numpy()
        return numbers if self.chosen is None else self.chosen[numbers]

    def _held(self, both: Tensor, table: Tensor, origin: Tensor, ahead: int) -> Tensor:
        """Rows (B, D, ...) of a table, in place of a line to later rows the last measured value.

        ahead: the first column of the table that is known in advance: up to the end of the horizon.
        """
        if self._since is None:
            return both
        c, past = self._n_columns, both[:, : self.look_back]
        hold(past[..., :c], origin - 1, table[:, :c], self._since[:, :c])
        if self._n_ahead:
            hold(past[..., ahead:], origin - 1, table[:, ahead:], self._since[:, c:])
            last = origin + self._offset + self.pred_len - 1
            hold(both[:, self.look_back + self._offset :, ahead:], last, table[:, ahead:], self._since[:, c:])
        return both

    def _known(self, both: Tensor, series: Tensor, before: Tensor | None) -> Tensor:
        """The known features (B, D, F): calendar, flag of padded rows, columns that are known in advance, facts."""
        c, behind = self._n_columns, self._n_columns + self._calendar.shape[1]
        if not self._padded and self._facts is None:
            return both[..., c:]
        parts = [both[..., c:behind]]
        if self._padded:
            parts.append(both.new_zeros(*both.shape[:2], 1) if before is None else before.unsqueeze(2).float())
        parts.append(both[..., behind:])
        if self._facts is not None:
            parts.append(self._facts[series][:, None].expand(-1, self._length, -1))
        return torch.cat(parts, dim=2)

    def _scaled_floor(self, series: Tensor | slice) -> Tensor:
        """The floor (B, C) of these series."""
        assert self._floor is not None
        scaled = (self._floor - self._mean[series]) / self._std[series]
        return scaled[:, : self._n_columns].float()

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


def _as_tensor(array: np.ndarray) -> Tensor:
    """The same memory; of a file that is mapped for reading nothing is written."""
    if not array.flags.writeable:
        array = np.lib.stride_tricks.as_strided(array, writeable=False)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(array)
    return torch.from_numpy(array)
