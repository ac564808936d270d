"""How far each series is, on average, from what it was a season before: by that MASE is scaled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from forecast.data.values.cells import Cells, FloatArray, IntArray

CELLS = 1_000_000  # about so many are looked at together: the steps between take several times their memory
# Differences of less than so many times the rounding of the largest value are nothing but rounding.
ROUNDING = 16 * np.finfo(np.float64).eps


@dataclass(frozen=True, kw_only=True, eq=False)
class SeasonalDifferences:
    """Mean absolute and mean squared difference (S, T) between a row of a series and that `period` before.

    Zero where a series repeats itself exactly, or has no such pair of measured rows: it has no MASE there.
    """

    period: int
    absolute: FloatArray
    squared: FloatArray


def seasonal_differences(
    cells: Cells,
    first: IntArray,
    stop: IntArray,
    *,
    period: int,
    targets: Sequence[int],
    std: FloatArray | None = None,
) -> SeasonalDifferences:
    """Over the pairs of measured cells of series s in its rows first[s] to stop[s]. targets: T of the columns.

    std (S, T): by which values are divided before, None: they stay in the units of the file.
    """
    columns, lengths = list(targets), np.diff(cells.offsets)
    absolute, squared = (np.zeros((len(lengths), len(columns))) for _ in range(2))
    for some in pieces(cells, CELLS):
        low, high = int(cells.offsets[some.start]), int(cells.offsets[some.stop])
        values = cells.values[low:high, columns]
        if std is not None:
            values = values / np.repeat(std[some], lengths[some], axis=0)
        known = None if cells.measured is None else cells.measured[low:high, columns]
        rows = first[some] - low, np.minimum(stop[some], cells.offsets[1:][some]) - low
        ends = np.stack([rows[0], np.maximum(*rows)], axis=1).ravel()
        sizes = np.concatenate([np.abs(values), np.zeros((1, values.shape[1]))])
        largest = np.maximum.reduceat(sizes, ends, axis=0)[::2]
        difference = np.zeros_like(values)
        difference[period:] = np.abs(values[period:] - values[:-period])
        difference[difference <= ROUNDING * np.repeat(largest, lengths[some], axis=0)] = 0.0
        edges = np.minimum(rows[0] + period, high - low), rows[1]
        if known is None:
            pairs = np.maximum(1, edges[1] - edges[0])[:, None]
        else:
            both = np.zeros(values.shape)
            both[period:] = known[period:] & known[:-period]
            difference *= both
            pairs = np.maximum(1.0, sums(both, *edges))
        absolute[some] = sums(difference, *edges) / pairs
        squared[some] = sums(difference**2, *edges) / pairs
    return SeasonalDifferences(period=period, absolute=absolute, squared=squared)


def sums(values: FloatArray, first: IntArray, stop: IntArray) -> FloatArray:
    """Of the rows first[s] to stop[s] of values (N, C), in order and none shared: (S, C), 0 of no rows.

    Those of a series are added as numpy adds the columns of an array of them alone, which begins with a 0: whatever
    stands around them, its sum has the same bits.
    """
    total = np.zeros((len(first), values.shape[1]))
    some = np.flatnonzero(first < stop)
    if not some.size:
        return total
    begin, end = first[some], stop[some]
    none = np.zeros((1, values.shape[1]))
    if (begin[1:] > end[:-1]).all():  # in place of a row that no series adds, or of the first
        padded = np.concatenate([none, values, none])
    else:
        padded = np.concatenate([np.insert(values, begin, 0.0, axis=0), none])
        begin, end = begin + np.arange(some.size), end + np.arange(some.size)
    padded[begin] = 0.0
    total[some] = np.add.reduceat(padded, np.stack([begin, end + 1], axis=1).ravel(), axis=0)[::2]
    return total


def pieces(cells: Cells, size: int) -> Iterator[slice]:
    """The series in order, so many at a time that they have about `size` cells; one at least."""
    start, rows, offsets = 0, size // len(cells.columns), cells.offsets
    while start < len(offsets) - 1:
        stop = int(np.searchsorted(offsets, offsets[start] + rows, side="right")) - 1
        yield slice(start, start := max(start + 1, stop))
