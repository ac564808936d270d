"""How far each series of a panel is, on average, from what it was a season before: by that MASE is scaled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forecast.data.panel.frame import IntArray, PanelFrame

FloatArray = npt.NDArray[np.float64]
CELLS = 1_000_000  # about so many are looked at together: float64 would else take twice the memory of the panel


@dataclass(frozen=True, kw_only=True, eq=False)
class SeasonalDifferences:
    """Mean absolute and mean squared difference (S, T), original units, between a row of a series and that `period`
    before.

    Zero where a series repeats itself exactly, or has no such pair of measured rows: it has no MASE there.
    """

    period: int
    absolute: FloatArray
    squared: FloatArray

    def without(self, columns: Sequence[str]) -> list[str]:
        """The target columns that no series has a MASE of."""
        most = self.absolute.max(0, initial=0.0)
        return [name for name, difference in zip(columns, most, strict=True) if not difference]


def differences_before(
    frame: PanelFrame, stop: IntArray, *, period: int, targets: Sequence[int]
) -> SeasonalDifferences:
    """Over the measured rows of each series s that lie before row stop[s] of the panel. targets: T of its columns."""
    columns = list(targets)
    absolute, squared = (np.zeros((len(frame), len(columns))) for _ in range(2))
    for some in pieces(frame, CELLS):
        low, high = int(frame.offsets[some.start]), int(frame.offsets[some.stop])
        values = frame.values[low:high, columns].astype(np.float64)
        difference = np.zeros_like(values)
        difference[period:] = np.abs(values[period:] - values[:-period])
        both = np.ones(values.shape)
        if frame.measured is not None:
            known = frame.measured[low:high, columns]
            both[period:] = known[period:] & known[:-period]
            difference *= both
        # pairs whose earlier row belongs to the series before are those of the first `period` rows, which are left out
        edges = frame.offsets[:-1][some] + period - low, np.minimum(stop[some], frame.offsets[1:][some]) - low
        edges = np.minimum(edges[0], high - low), edges[1]
        pairs = np.maximum(1.0, sums(both, *edges))
        absolute[some] = sums(difference, *edges) / pairs
        squared[some] = sums(difference**2, *edges) / pairs
    return SeasonalDifferences(period=period, absolute=absolute, squared=squared)


def sums(cells: FloatArray, first: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]) -> FloatArray:
    """Of the rows first[s] to stop[s] of cells (N, C), in order and none shared: (S, C), 0 of no rows."""
    edges = np.stack([first, np.maximum(first, stop)], axis=1).ravel()
    total: FloatArray = np.add.reduceat(np.concatenate([cells, np.zeros((1, cells.shape[1]))]), edges, axis=0)[::2]
    return np.where((first < stop)[:, None], total, 0.0)


def pieces(frame: PanelFrame, cells: int) -> Iterator[slice]:
    """The series in order, so many at a time that they have about `cells` cells; one at least."""
    start, rows = 0, cells // len(frame.columns)
    while start < len(frame):
        stop = int(np.searchsorted(frame.offsets, frame.offsets[start] + rows, side="right")) - 1
        yield slice(start, start := max(start + 1, stop))
