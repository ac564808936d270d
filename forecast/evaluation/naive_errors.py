"""The errors of the seasonal naive forecast over earlier rows, by which MASE and RMSSE are scaled."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from forecast.data.prepare import Prepared
from forecast.data.scaling import CELLS, ROUNDING, SeasonalDifferences, pieces, seasonal_differences
from forecast.data.seasonality import seasonal_period
from forecast.data.values.cells import FloatArray, IntArray

MaseScale = Literal["train", "split", "window"]


def naive_period(data: Prepared) -> int:
    """The season that the seasonal naive baseline repeats, 1 step where that repeats the last value."""
    return data.season or seasonal_period(data.frame.freq) or 1


def naive_errors(data: Prepared, split: str, rule: MaseScale = "train") -> SeasonalDifferences:
    """The seasonal differences (S, T), scaled units, by which MASE and RMSSE on a split are scaled.

    rule: train, of each series over its train rows, or over all before its first forecast of the split where those are
    no longer than a season; split, over these in any case, which are M4's train rows;
    window, by which `BeforeEachWindow` divides: as split.
    """
    first, stop, period = data.frame.offsets[:-1], data.origins(split).first, naive_period(data)
    if rule == "train" and (train := data.splits.get("train")) is not None:
        trained = train.stop - train.first > period
        first, stop = np.where(trained, train.first, first), np.where(trained, train.stop, stop)
    std = data.target_scale[1]
    return seasonal_differences(data.frame, first, stop, period=period, targets=data.targets, std=std)


class BeforeEachWindow:
    """The seasonal differences over all rows before the forecast of a window, those of other splits too.

    Made-up cells have no part. A few series at a time: windows are asked for in the order of the series.
    """

    def __init__(self, data: Prepared) -> None:
        self.data, self.period = data, naive_period(data)
        self._pieces = list(pieces(data.frame, CELLS))
        self._first, self._sums = 0, np.zeros((3, 0, len(data.targets)))  # of the rows from there on

    def at(self, series: IntArray, origins: IntArray) -> tuple[Tensor, Tensor]:
        """Mean absolute and mean squared differences (B, T), scaled units, of windows of series (B,).

        origins (B,): the row of the frame at which the forecast of each begins. Zero where there are no two rows a
        season apart, or no difference between them.
        """
        differences = np.zeros((2, len(series), len(self.data.targets)))
        for piece in self._pieces:
            here = np.flatnonzero((series >= piece.start) & (series < piece.stop))
            if not here.size:
                continue
            first = int(self.data.frame.offsets[piece.start])
            if first != self._first or not self._sums.size:
                self._first, self._sums = first, self._summed(piece)
            absolute, squared, pairs = self._sums[:, origins[here] - 1 - first]
            differences[:, here] = np.stack([absolute, squared]) / np.maximum(1.0, pairs)
        return torch.from_numpy(differences[0]), torch.from_numpy(differences[1])

    def _summed(self, piece: slice) -> FloatArray:
        """The differences of some series, their squares and how many there are, summed up to each row (3, N, T)."""
        frame, columns = self.data.frame, list(self.data.targets)
        borders, std = frame.offsets[piece.start : piece.stop + 1], self.data.target_scale[1][piece]
        parts = []
        for first, stop, scale in zip(borders[:-1], borders[1:], std, strict=True):
            values = frame.values[first:stop, columns] / scale
            known = np.ones(values.shape) if frame.measured is None else frame.measured[first:stop, columns]
            size, counted = np.zeros_like(values), np.zeros_like(values)
            size[self.period :] = np.abs(values[self.period :] - values[: -self.period])
            size[size <= ROUNDING * np.abs(values).max(0, initial=0.0)] = 0.0
            counted[self.period :] = known[self.period :] * known[: -self.period]
            size = np.where(counted > 0, size, 0.0)
            parts.append(np.cumsum(np.stack([size, size**2, counted]), axis=1))
        return np.concatenate(parts, axis=1)
