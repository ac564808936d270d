"""Scaling a panel: by the train rows of each series, by those of all, by seasonal differences, or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from forecast.data.panel.differences import CELLS, differences_before, pieces, sums
from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.splits import PanelRows

FloatArray = npt.NDArray[np.float64]
How = Literal["series", "season", "global", "none"]
# A standard deviation below this share of the mean is rounding of float32.
_CONSTANT = 1e-6


@dataclass(frozen=True, eq=False)
class PanelScaler:
    """scaled = (original - mean) / std; mean, std (S, C) float64 in the units of the columns.

    std is the population's, and 1 where the rows are constant up to rounding. With how="season" it is the mean absolute
    difference from the value `period` steps before, by which MASE is scaled: errors of all series then weigh as in
    that; of a series that repeats itself exactly it stays the deviation. own: the series (S,) whose rows before the
    first forecast stand for train rows, of which they have none.
    """

    how: How
    mean: FloatArray
    std: FloatArray
    own: npt.NDArray[np.bool_]
    period: int | None = None

    @classmethod
    def fit(
        cls,
        frame: PanelFrame,
        how: How,
        train: PanelRows,
        *,
        context: int,
        period: int | None = None,
        together: int = 0,
    ) -> "PanelScaler":
        """The scaler of measured cells in train rows alone; later rows would leak.

        context: the rows before its first forecast, by which a series is scaled that has fewer measured train rows
        than two. period: steps in a season, which how="season" needs. together: so many of the last columns, which are
        known in advance, are scaled by all series: a degree, or a price, is the same in each.
        """
        scaler = cls._fit(frame, how, train, context=context, period=period, together=together)
        for name in frame.categories:  # their numbers stay
            column = frame.columns.index(name)
            scaler.mean[:, column], scaler.std[:, column] = 0, 1
        return scaler

    @classmethod
    def _fit(
        cls, frame: PanelFrame, how: How, train: PanelRows, *, context: int, period: int | None, together: int
    ) -> "PanelScaler":
        n, c = len(frame), len(frame.columns)
        none = np.zeros(n, dtype=np.bool_)
        if how == "none":
            return cls(how, np.zeros((n, c)), np.ones((n, c)), none)
        count, mean, square = cell_means(frame, train.first, train.stop)
        counts = np.maximum(1, count.sum(0))
        whole = (count * mean).sum(0) / counts
        whole_std = spread((count * (square + (mean - whole) ** 2)).sum(0) / counts, whole)
        if how == "global":
            return cls(how, np.tile(whole, (n, 1)), np.tile(whole_std, (n, 1)), none)
        few = np.asarray((count < 2).any(axis=1))
        if few.any():
            begin = frame.offsets[:-1]
            stop = np.where(few, np.minimum(begin + context, frame.offsets[1:]), begin)
            for found, more in zip((mean, square), cell_means(frame, begin, stop)[1:], strict=True):
                found[few] = more[few]
        std = spread(square, mean)
        if how == "season":
            assert period is not None
            stop = np.where(few, np.minimum(frame.offsets[:-1] + context, frame.offsets[1:]), train.stop)
            std = seasonal_spread(frame, stop, period, std)
        if together:
            mean[:, -together:], std[:, -together:] = whole[-together:], whole_std[-together:]
        return cls(how, mean, std, few, period)

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
    for some in pieces(frame, CELLS):
        low, high = int(frame.offsets[some.start]), int(frame.offsets[some.stop])
        values = frame.values[low:high].astype(np.float64)
        known = np.ones(values.shape, dtype=np.bool_) if frame.measured is None else frame.measured[low:high]
        rows = first[some] - low, stop[some] - low
        count[some] = sums(known.astype(np.float64), *rows)
        cells = np.maximum(1, count[some])
        mean[some] = sums(np.where(known, values, 0.0), *rows) / cells
        values -= np.repeat(mean[some], frame.lengths[some], axis=0)
        variance[some] = sums(np.where(known, values**2, 0.0), *rows) / cells
    return count, mean, variance


def spread(variance: FloatArray, mean: FloatArray) -> FloatArray:
    """The standard deviation, 1 where it is nothing but rounding."""
    std = np.sqrt(variance)
    return np.where(std > _CONSTANT * np.abs(mean), std, 1.0)


def seasonal_spread(frame: PanelFrame, stop: npt.NDArray[np.int64], period: int, std: FloatArray) -> FloatArray:
    """The seasonal differences (S, C) of the rows of each series before stop[s]; `std` where there are none."""
    found = differences_before(frame, stop, period=period, targets=range(len(frame.columns))).absolute
    return np.where(found > 0, found, std)
