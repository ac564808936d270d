"""Scaling a panel: by the train rows of each series, by those of all, or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.splits import PanelRows

FloatArray = npt.NDArray[np.float64]
How = Literal["series", "global", "none"]
_SERIES = 4096  # at a time: sums in float64 would else take twice the memory of the panel
# A standard deviation below this share of the mean is rounding of float32.
_CONSTANT = 1e-6


@dataclass(frozen=True, eq=False)
class PanelScaler:
    """scaled = (original - mean) / std; mean, std (S, C) float64 in the units of the columns.

    std is the population's, and 1 where the rows are constant up to rounding. own: the series (S,) whose rows before
    the first forecast stand for train rows, of which they have none.
    """

    how: How
    mean: FloatArray
    std: FloatArray
    own: npt.NDArray[np.bool_]

    @classmethod
    def fit(cls, frame: PanelFrame, how: How, train: PanelRows, *, context: int) -> "PanelScaler":
        """The scaler of measured cells in train rows alone; later rows would leak.

        context: the rows before its first forecast, by which a series is scaled that has fewer measured train rows
        than two.
        """
        n, c = len(frame), len(frame.columns)
        none = np.zeros(n, dtype=np.bool_)
        if how == "none":
            return cls(how, np.zeros((n, c)), np.ones((n, c)), none)
        count, mean, square = cell_means(frame, train.first, train.stop)
        if how == "global":
            counts = count.sum(0)
            whole = (count * mean).sum(0) / np.maximum(1, counts)
            square = (count * (square + (mean - whole) ** 2)).sum(0) / np.maximum(1, counts)
            return cls(how, np.tile(whole, (n, 1)), np.tile(spread(square, whole), (n, 1)), none)
        few = (count < 2).any(axis=1)
        if few.any():
            begin = frame.offsets[:-1]
            stop = np.where(few, np.minimum(begin + context, frame.offsets[1:]), begin)
            for found, more in zip((mean, square), cell_means(frame, begin, stop)[1:], strict=True):
                found[few] = more[few]
        return cls(how, mean, spread(square, mean), few)

    def original(self, scaled: FloatArray, series: npt.NDArray[np.int64], targets: Sequence[int]) -> FloatArray:
        """Target values (W, P, T) of these series (W,) in original units."""
        columns = list(targets)
        return scaled * self.std[series][:, None, columns] + self.mean[series][:, None, columns]


def cell_means(
    frame: PanelFrame, first: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of the measured cells in rows first[s] to stop[s] of each series: how many, mean and variance (S, C)."""
    shape = len(frame), len(frame.columns)
    count, mean, variance = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for start in range(0, len(frame), _SERIES):
        some = slice(start, start + _SERIES)
        low, high = int(frame.offsets[start]), int(frame.offsets[min(start + _SERIES, len(frame))])
        values = frame.values[low:high].astype(np.float64)
        known = np.ones(values.shape, dtype=np.bool_) if frame.measured is None else frame.measured[low:high]
        pieces = first[some] - low, stop[some] - low
        count[some] = sums(known.astype(np.float64), *pieces)
        cells = np.maximum(1, count[some])
        mean[some] = sums(np.where(known, values, 0.0), *pieces) / cells
        values -= np.repeat(mean[some], frame.lengths[some], axis=0)
        variance[some] = sums(np.where(known, values**2, 0.0), *pieces) / cells
    return count, mean, variance


def sums(cells: FloatArray, first: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]) -> FloatArray:
    """Of the rows first[s] to stop[s] of cells (N, C), in order and none shared: (S, C), 0 of no rows."""
    edges = np.stack([first, np.maximum(first, stop)], axis=1).ravel()
    total: FloatArray = np.add.reduceat(np.concatenate([cells, np.zeros((1, cells.shape[1]))]), edges, axis=0)[::2]
    return np.where((first < stop)[:, None], total, 0.0)


def spread(variance: FloatArray, mean: FloatArray) -> FloatArray:
    """The standard deviation, 1 where it is nothing but rounding."""
    std = np.sqrt(variance)
    return np.where(std > _CONSTANT * np.abs(mean), std, 1.0)
