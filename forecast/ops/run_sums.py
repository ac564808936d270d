"""Sums over the windows of many series in one array, which are many runs of few windows each."""

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from forecast.ops.window_sums import WindowSums, running_gram, running_total, window_sums

LEAST_RUN = 16  # windows: fewer are multiplied as they are
CELLS = 2**23  # numbers that are gathered at once


def run_sums(series: Float[Tensor, "N T"], starts: npt.NDArray[np.int64], length: int) -> WindowSums:
    """What `window_sums` gives, rounded otherwise: the windows at `starts` (W,), ascending, of D = `length` rows.

    One run after the other takes W D^2 operations where none is longer than D. So the runs are cut into pieces of 2^k
    windows, and all pieces of one length are summed side by side, as if they were columns of one series: that takes
    D^2 operations a piece. A single run has the bits of `window_sums`.
    """
    edges = np.flatnonzero(np.diff(starts, prepend=starts[:1] - 2) != 1)
    if len(edges) == 1:
        return window_sums(series, starts, length)
    gram, total = series.new_zeros(length, length), series.new_zeros(length)
    first, counts = starts[edges], np.diff(edges, append=len(starts))
    size = 1 << int(counts.max(initial=1)).bit_length()
    while (size := size // 2) >= LEAST_RUN:
        with_piece = (counts & size) > 0
        for some in _parts(first[with_piece], 2 * (size + length), series):
            rows = _gathered(series, some, size + length - 1).permute(1, 0, 2).flatten(1)  # (n + D - 1, pieces T)
            gram += running_gram(rows, size, length)
            total += running_total(rows, size, length)
        first = first + np.where(with_piece, size, 0)
    left = counts % LEAST_RUN
    single = np.repeat(first - np.cumsum(left) + left, left) + np.arange(left.sum())
    for some in _parts(single, length, series):
        windows = _gathered(series, some, length).transpose(1, 2).flatten(0, 1)  # (windows T, D)
        gram += windows.T @ windows
        total += windows.sum(0)
    return WindowSums(gram, total, len(starts) * series.shape[1])


def _gathered(series: Float[Tensor, "N T"], starts: npt.NDArray[np.int64], length: int) -> Float[Tensor, "W D T"]:
    rows = torch.from_numpy(starts)[:, None] + torch.arange(length)
    windows: Tensor = series[rows]
    return windows


def _parts(starts: npt.NDArray[np.int64], rows: int, series: Tensor) -> list[npt.NDArray[np.int64]]:
    """The starts of pieces of so many rows, as many at a time as have CELLS numbers; one at least."""
    size = max(1, CELLS // (rows * series.shape[1]))
    return [starts[first : first + size] for first in range(0, len(starts), size)]
