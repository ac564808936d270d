"""Windows of a series, gathered many batches at a time, on the device where the series lives."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from forecast.errors import UserError

FloatArray = npt.NDArray[np.floating[Any]]

# A series is moved to a GPU when it takes at most so much of the free memory there: the rest is the training's.
SERIES_SHARE = 0.25
MOST_PAST = 10**6  # rows of the past of a window


class Batch(NamedTuple):
    """B windows in float32, scaled. A forecast is made from the first three.

    past (B, L, C); past_known (B, L, F); future_known (B, P, F); target (B, P, T); future (B, P, C): all columns of the
    forecast steps, for models that learn each step from the true steps before it. Of a panel also series (B,), their
    numbers, and measured (B, P, T), False where a target was made up; None: none was. learnt (B, L + P, C), for models
    that learn the steps of the past too: False in what was made up and before a series begins; None: nowhere.
    """

    past: Tensor
    past_known: Tensor
    future_known: Tensor
    target: Tensor
    future: Tensor
    series: Tensor | None = None
    measured: Tensor | None = None
    learnt: Tensor | None = None

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device; where it is there already, the very same tensors."""
        return Batch(*(None if part is None else part.to(device) for part in self))  # type: ignore[arg-type]


def stack_series(values: FloatArray, known: FloatArray) -> Tensor:
    """The one series that the datasets of all splits share.

    values (N, C), scaled, and known (N, F)  ->  (N, C + F) float32, contiguous
    """
    assert values.ndim == known.ndim == 2 and len(values) == len(known)
    # columns read from a file may lie column by column, and a window is a view of whole rows
    return torch.from_numpy(np.ascontiguousarray(np.concatenate([values, known], axis=1, dtype=np.float32)))


def moved_if_it_fits(series: Tensor, device: torch.device) -> Tensor:
    """A series (N, C + F) on the device, or where it was when it would fill more than SERIES_SHARE of a GPU's rest."""
    if device.type == "cuda" and series.device.type == "cpu" and series.nbytes > SERIES_SHARE * free_bytes(device):
        return series
    return series.to(device)


def free_bytes(device: torch.device) -> int:
    """What a GPU has left for everyone."""
    return torch.cuda.mem_get_info(device)[0]


def check_look_back(rows: int | None, name: str) -> None:
    """Raises UserError for a past of more than MOST_PAST rows, of which one batch would fill the memory."""
    if rows is not None and rows > MOST_PAST:
        raise UserError(
            f"{name}: a past of {rows} rows, as the season or the look-back asks for, is more than the {MOST_PAST} "
            "that are read. Choose a shorter one: data.season, model.period or model.look_back; or another checkpoint"
        )


def hold(part: Tensor, rows: Tensor, table: Tensor, since: Tensor) -> None:
    """Puts the last measured value into what is made up at the end of some rows, in place of a line to later ones.

    part (B, R, C): values of `table` (N, C) that end with its rows (B,). since (N, C): see `gaps.rows_since_measured`.
    """
    steps = since[rows].long()
    if steps.any():
        last = table[rows[:, None] - steps, torch.arange(table.shape[1], device=table.device)]
        back = torch.arange(part.shape[1], 0, -1, device=part.device)[:, None]
        part.copy_(torch.where(back <= steps[:, None], last[:, None], part))


class WindowDataset(Dataset[Batch]):
    """All windows of seq_len + pred_len consecutive rows inside `rows`, one starting at each row, less those in gaps.

    With an offset so many rows lie between the past and the forecast steps. A window is a view of the series: batches
    are one indexing operation, with no Python per sample. The series may be a memory-mapped file: only what
    the windows hold is read. With a look_back above seq_len a batch's past is longer than the window that counts: it
    holds so many rows, from wherever before the window, and before the series begins its first row over again.
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
        look_back: int | None = None,
        chosen: npt.NDArray[np.int64] | None = None,
        device: torch.device | None = None,
        hidden: int = 0,
        since: npt.NDArray[np.integer[Any]] | None = None,
    ) -> None:
        """Windows of a series (N, C + F) made by `stack_series`, on any device.

        n_columns: C. rows: what the windows may touch (`split.window_rows`). targets: T of the C columns.
        look_back: rows of the past in a batch, None: seq_len.
        chosen (W,): the numbers of the windows that are served, counted from the first row; None serves all.
        device: where batches are wanted, None: where the series lives; they are gathered there and copied to it.
        hidden: how many of the last known features are 0 at the forecast steps, where nobody knows them.
        since (N, K): see `hold`, of the last K known features; no past that is served ends in a gap.
        """
        assert series.ndim == 2 and series.is_contiguous()
        assert rows.start >= 0 and rows.stop <= len(series) and rows.step == 1
        assert targets and all(0 <= t < n_columns <= series.shape[1] for t in targets)
        assert offset >= 0
        self._hidden = hidden
        self.home = series.device
        self.device = series.device if device is None else device
        self._look_back = look_back = look_back or seq_len
        assert look_back >= seq_len
        self._rows, self._n_columns = rows, n_columns
        self._first_step = look_back + offset
        self._width = width = series.shape[1]
        length, count = self._first_step + pred_len, max(0, len(rows) - seq_len - offset - pred_len + 1)
        first = rows.start + seq_len - look_back
        self._series, self._last_step = series, rows.start + seq_len + offset + pred_len - 1
        self._since = None if since is None else torch.as_tensor(since, device=self.home)
        if first < 0:
            series, first = torch.cat([series[:1].expand(-first, width), series[: rows.stop]]), 0
        # Row i of this view is window i, flat: overlapping rows of one memory, each a contiguous piece of it.
        self._windows = series.as_strided((count, length * width), (width, 1), series.storage_offset() + first * width)
        self._chosen = chosen
        self._chosen_at_home = None if chosen is None else torch.as_tensor(chosen, device=self.home)
        # A slice where one will do: it is a view. Else numbers on the device: a list would go there with each batch.
        first, last, columns = targets[0], targets[-1], list(targets)
        one_piece = columns == list(range(first, last + 1))
        self._targets = slice(first, last + 1) if one_piece else torch.tensor(columns, device=self.device)

    def __len__(self) -> int:
        return self._windows.shape[0] if self._chosen is None else len(self._chosen)

    @property
    def left_out(self) -> int:
        """How many windows are not served."""
        return self._windows.shape[0] - len(self)

    @property
    def window_bytes(self) -> int:
        """What one gathered window takes."""
        return self._windows.shape[1] * self._windows.element_size()

    def __getitems__(self, indices: Sequence[int] | Tensor) -> Batch:
        """The windows `indices` (B of them) as one batch. This is what a DataLoader calls."""
        return Batch(*self._cut(self._gathered(indices)))

    def in_batches(self, indices: Sequence[int] | Tensor, size: int) -> list[Batch]:
        """The windows `indices` in batches of `size`, the last one with the rest.

        They are gathered and cut at once and share one memory: that takes half the time of one by one. A tensor of
        indices is best on `home`.
        """
        past, past_known, future_known, target, future = self._cut(self._gathered(indices))
        # three times as fast as split; unsafe with gradients alone, and data have none
        parts = [part.unsafe_split(size) for part in (past, past_known, future_known, future)]
        parts.insert(3, parts[3] if target is future else target.unsafe_split(size))
        return [Batch(*batch) for batch in zip(*parts, strict=True)]

    def __getitem__(self, index: int) -> Batch:
        """Window `index` as a batch of one."""
        return self.__getitems__([index])

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """The rows (W,) at which the windows begin; the first target rows are seq_len + offset further."""
        return self._rows.start + (np.arange(len(self)) if self._chosen is None else self._chosen)

    def _gathered(self, indices: Sequence[int] | Tensor) -> Tensor:
        """(B, L + offset + P, C + F) on the device."""
        index = torch.as_tensor(indices, dtype=torch.int64, device=self.home)
        index = index if self._chosen_at_home is None else self._chosen_at_home.index_select(0, index)
        if self.device.type == "cuda" and self.home.type == "cpu":
            # only from pinned memory does a copy not wait for the GPU
            pinned = torch.empty((len(index), self._windows.shape[1]), pin_memory=True)
            flat = torch.index_select(self._windows, 0, index, out=pinned)
        else:
            flat = self._windows.index_select(0, index)
        both = flat.view(len(index), -1, self._width)
        if self._since is not None:  # what is known in advance is not known of rows after the horizon
            known = slice(-self._since.shape[1], None)
            hold(both[:, self._first_step :, known], index + self._last_step, self._series[:, known], self._since)
        return both.to(self.device, non_blocking=True)

    def _cut(self, both: Tensor) -> tuple[Tensor, ...]:
        """(B, L + offset + P, C + F) -> the fields of a Batch."""
        past, future = both[:, : self._look_back], both[:, self._first_step :]
        c, targets = self._n_columns, self._targets
        target = columns = future[..., :c]
        if targets != slice(0, c):
            target = future[..., targets] if isinstance(targets, slice) else future.index_select(2, targets)
        known = future[..., c:]
        if self._hidden:
            known = known.clone()
            known[..., -self._hidden :] = 0
        return past[..., :c], past[..., c:], known, target, columns
