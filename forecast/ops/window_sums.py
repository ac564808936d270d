"""Sums over all windows of a series, without making one of them, and over all steps so far."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from forecast.ops.context import Context


class WindowSums(NamedTuple):
    """Sums over windows z of D rows: gram (D, D) of z z', total (D,) of z, and their number n.

    intercept: the share of its intercept that a map fitted to them keeps, from 0 to 1.
    """

    gram: Tensor
    total: Tensor
    n: int
    intercept: float = 1.0

    def last(self, length: int) -> "WindowSums":
        """Of the last rows alone of the same windows."""
        return self._replace(gram=self.gram[-length:, -length:], total=self.total[-length:])

    def plus(self, other: "WindowSums") -> "WindowSums":
        """Of the windows of both."""
        return WindowSums(self.gram + other.gram, self.total + other.total, self.n + other.n)

    def covariance(self, centre: Tensor) -> Tensor:
        """(D, D), about a point (D,): about the mean where that is the centre, to the bit."""
        mean = self.total / self.n
        return self.gram / self.n - torch.outer(mean, mean) + torch.outer(mean - centre, mean - centre)


def window_sums(series: Float[Tensor, "N T"], starts: npt.NDArray[np.int64], length: int) -> WindowSums:
    """Over the windows of D = `length` rows that begin at `starts` (W,), ascending, in each of the T columns, float64.

    z_a z_b of a window is z_(a+1) z_(b+1) of the one before it: along a diagonal of the Gram matrix of consecutive
    windows, what leaves at the front is taken away and what comes at the end added. The first row is a correlation,
    which takes a Fourier transform: a run of n windows costs T (n log n + D^2), not T n D^2.
    """
    gram, total = series.new_zeros(length, length), series.new_zeros(length)
    for first, count in runs(starts):
        rows = series[first : first + count + length - 1]
        gram += _dense_gram(rows, length) if count < length else running_gram(rows, count, length)
        total += running_total(rows, count, length)
    return WindowSums(gram, total, len(starts) * series.shape[1])


def runs(starts: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """First and length of each run of consecutive numbers in (W,), ascending."""
    if not len(starts):
        return
    # a neighbour at distance 2 on either side, so that both ends are edges
    edges = np.flatnonzero(np.diff(starts, prepend=starts[0] - 2, append=starts[-1] + 2) != 1)
    for begin, end in itertools.pairwise(edges):
        yield int(starts[begin]), int(end - begin)


def _dense_gram(rows: Tensor, length: int) -> Tensor:
    """(n + D - 1, T) -> (D, D), for few windows."""
    windows = rows.unfold(0, length, 1).reshape(-1, length)
    return windows.T @ windows


def running_total(rows: Float[Tensor, "N T"], count: int, length: int) -> Float[Tensor, "D"]:
    """The sum of n = `count` consecutive windows: (n + D - 1, T) -> (D,)."""
    # over all windows the row at place d is the run of `count` rows from d on: a difference of two sums
    before = torch.cat([rows.new_zeros(1), running_sum(rows.sum(1).reshape(1, 1, -1, 1)).flatten()])
    return before[count:] - before[:length]


def running_gram(rows: Float[Tensor, "N T"], count: int, length: int) -> Float[Tensor, "D D"]:
    """The Gram matrix of n = `count` consecutive windows: (n + D - 1, T) -> (D, D), for many windows or columns."""
    # time last in memory, because each product below reads runs of steps
    columns = rows.T.contiguous()
    # the transform is circular: at this length no product wraps around to the front
    size = 1 << (len(rows) - 1).bit_length()
    spectrum, first = torch.fft.rfft(columns, size), torch.fft.rfft(columns[:, :count], size)
    gram = rows.new_zeros(length, length)
    gram[0] = torch.fft.irfft((first.conj() * spectrum).sum(0), size)[:length]
    for i in range(1, length):  # the upper triangle
        # each row needs the one before; out= writes it without a copy
        gone, come = i - 1, i - 1 + count
        torch.sub(
            gram[gone, gone:-1] + columns[:, come] @ columns[:, come : length - 1 + count],
            columns[:, gone] @ columns[:, gone : length - 1],
            out=gram[i, i:],
        )
    return gram + gram.triu(1).T


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


def running_sum(x: Float[Tensor, "B H L V"], *, mean: bool = False) -> Float[Tensor, "B H L V"]:
    """At step t the sum of the steps 0 .. t: (B, H, L, V) -> (B, H, L, V), in float32, or float64 for float64.

    mean: their mean.

    What `cumsum` gives, which some versions of torch refuse on a GPU under trainer.deterministic=true. Additions alone,
    in an order that the length decides. No product with a triangle of ones: an infinite step would make the steps
    before it NaN, and a GPU may round what it multiplies.
    """
    # float32 at least: a running sum loses digits, and overflows in float16
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    counts = torch.arange(1, x.shape[2] + 1, device=x.device, dtype=exact.dtype).unsqueeze(-1) if mean else None
    return RunningSum.apply(exact, counts)  # type: ignore[no-untyped-call]


class RunningSum(torch.autograd.Function):
    """`running_sum` without a change of dtype; of its own, because autograd would keep a copy for each level."""

    @staticmethod
    def forward(ctx: Context[Tensor | None], x: Tensor, counts: Tensor | None) -> Tensor:
        """(B, H, L, V), what the sums are divided by (L, 1) -> (B, H, L, V)."""
        ctx.kept = counts
        # a copy: the sums are made in place, and x belongs to the caller
        total = sum_forwards(x.clone())
        return total if counts is None else total.div_(counts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[Tensor | None], grad: Tensor) -> tuple[Tensor, None]:
        """A step is part of all later sums."""
        # a copy or a quotient: autograd may give the same gradient to others
        return sum_backwards(grad.clone() if ctx.kept is None else grad / ctx.kept), None


def sum_forwards(total: Tensor) -> Tensor:
    """Turns steps (B, H, L, V) into the sums up to them, in place, by blocks of two, four, eight .. steps.

    Brent and Kung 1982, "A Regular Layout for Parallel Adders": about 2 L additions in 2 log2(L) calls, each sum of at
    most 2 log2(L) numbers, so that its rounding grows with log2(L) and not with L.
    """
    length = total.shape[2]
    block = 1
    # in place is safe: the steps that a level reads are never among those that it writes
    while 2 * block <= length:  # the last step of each pair of blocks gets the sum of both
        total[:, :, 2 * block - 1 :: 2 * block] += total[:, :, block - 1 : length - block : 2 * block]
        block *= 2
    while block > 1:  # the middle of each block but the first gets all that is before the block
        half = block // 2
        total[:, :, block + half - 1 :: block] += total[:, :, block - 1 : length - half : block]
        block = half
    return total


def sum_backwards(total: Tensor) -> Tensor:
    """The same from the other end: turns steps into the sums from them on, in place."""
    length = total.shape[2]
    block = 1
    while 2 * block <= length:
        # blocks are counted from the end: an incomplete one stands first
        first = length % (2 * block)
        total[:, :, first : length - block : 2 * block] += total[:, :, first + block :: 2 * block]
        block *= 2
    while block > 1:
        half = block // 2
        first = (length - half) % block
        total[:, :, first : length - block : block] += total[:, :, first + half : length - half : block]
        block = half
    return total
