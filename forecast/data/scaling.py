"""Scaling by the train rows of each series, by those of all, by seasonal differences, or not at all.

And how far each series is, on average, from what it was a season before: by that MASE is scaled.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from forecast.data.panel import Facts, PanelFrame
from forecast.data.values.cells import Flags, FloatArray, IntArray
from forecast.errors import UserError

How = Literal["series", "season", "global", "none"]
TOO_FAR = "Correct the value, or leave its cell empty and train with data.gaps=interpolate."
FLAT_FACT = 1e-12  # of the mean: a deviation that is nothing but rounding
EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Scales:
    """scaled = (original - mean) / std, column by column, of S series.

    mean, std (S, C) float64 in the units of the columns; std is the population's (ddof 0), and 1 where a column is
    constant up to rounding. With how="season" std is the mean absolute difference from the value `period` steps before,
    by which MASE is scaled: errors of all series then weigh as in that; of a series that repeats itself exactly it
    stays the deviation. own: the series (S,) whose rows before the first forecast stand for train rows, of which they
    have none. floor (C,): below what no value can be, original units, -inf where there is no such bound; None: nowhere.
    """

    how: How
    mean: FloatArray
    std: FloatArray
    own: Flags
    period: int | None = None
    floor: FloatArray | None = None

    @classmethod
    def fit(
        cls,
        cells: PanelFrame,
        how: How,
        first: IntArray,
        stop: IntArray,
        *,
        context: int,
        period: int = 1,
        together: int = 0,
    ) -> "Scales":
        """The scales of measured cells in train rows first[s] to stop[s] of each series; later rows would leak.

        context: the rows before its first forecast, by which a series is scaled that has fewer measured train rows
        than two. period: steps in a season, which how="season" needs. together: so many of the last columns, which are
        known in advance, are scaled by all series: a degree, or a price, is the same in each. UserError for a column
        whose mean or std is beyond the largest float.
        """
        n, c = len(cells), len(cells.columns)
        if how == "none":
            return cls(how, np.zeros((n, c)), np.ones((n, c)), np.zeros(n, dtype=np.bool_))
        count, mean, square = cell_means(cells, first, stop)
        counts = np.maximum(1, count.sum(0))
        with np.errstate(over="ignore", invalid="ignore"):
            share = count / counts
            whole = (share * mean).sum(0)
            whole_std = spread((share * (square + (mean - whole) ** 2)).sum(0), whole, counts)
        few = np.asarray((count < 2).any(axis=1)) & (how != "global")
        begin, end = cells.offsets[:-1], cells.offsets[1:]
        until = np.where(few, np.minimum(begin + context, end), stop)
        if few.any():
            early = cell_means(cells, begin, np.where(few, until, begin))
            for part, more in zip((count, mean, square), early, strict=True):
                part[few] = more[few]
        std = spread(square, mean, count)
        if how == "season":
            usual = seasonal_differences(cells, begin, until, period=period, targets=range(c)).absolute
            std = np.where(usual > 0, usual, std)
        shared = slice(0 if how == "global" else c - together, None)  # the columns with one scale for all series
        mean[:, shared], std[:, shared] = whole[shared], whole_std[shared]
        coded = [name in cells.categories for name in cells.columns]
        mean[:, coded], std[:, coded] = 0, 1
        finite = np.isfinite(mean) & np.isfinite(std)
        if not finite.all():
            column = int(np.argwhere(~finite)[0, 1])
            raise UserError(
                f"{cells.name}: column '{cells.columns[column]}' reaches {np.abs(cells.values[:, column]).max():g}, "
                f"too far for a mean and a standard deviation. {TOO_FAR}"
            )
        return cls(how, mean, std, few, period if how == "season" else None)


def cell_means(cells: PanelFrame, first: IntArray, stop: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of the measured cells in rows first[s] to stop[s] of each series: how many, mean and variance (S, C).

    The variance is of two passes, corrected for what rounding leaves of the mean (Chan, Golub and LeVeque 1983).
    """
    count, mean, variance = np.zeros((3, len(cells), len(cells.columns)))
    for some, low, high in pieces(cells):
        known, rows = measured_rows(cells, low, high), (first[some] - low, stop[some] - low)
        n_rows = np.maximum(0, rows[1] - rows[0])[:, None]
        count[some] = n_rows if cells.measured is None else sums(known.astype(np.float64), *rows)
        of_cells = np.maximum(1, count[some])
        with np.errstate(over="ignore", invalid="ignore"):  # `Scales` says what is too large
            values = np.where(known, cells.values[low:high], 0.0)
            mean[some] = sums(values, *rows) / of_cells
            values = np.where(known, values - np.repeat(mean[some], cells.lengths[some], axis=0), 0.0)
            left = sums(values, *rows)
            variance[some] = (sums(values**2, *rows) - left**2 / of_cells) / of_cells
    return count, mean, variance


def measured_rows(cells: PanelFrame, low: int, high: int) -> Flags:
    """Which cells (n, C) of some rows were measured."""
    shape = high - low, len(cells.columns)
    return np.broadcast_to(np.True_, shape) if cells.measured is None else cells.measured[low:high]


def spread(variance: FloatArray, mean: FloatArray, count: FloatArray) -> FloatArray:
    """The standard deviation, 1 where it is nothing but the rounding of `count` values.

    The rule is scikit-learn's.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        constant = variance <= count * EPSILON * variance + (count * mean * EPSILON) ** 2
        return np.where(constant, 1.0, np.sqrt(variance))


def fitted_facts(facts: Facts) -> npt.NDArray[np.float64]:
    """Mean and deviation (2, G) of the facts over the series; 0 and 1 of those that are categories."""
    mean, std = facts.values.mean(0), facts.values.std(0)
    coded = np.array([name in facts.categories for name in facts.names], dtype=np.bool_)
    return np.stack([np.where(coded, 0.0, mean), np.where(coded | (std <= FLAT_FACT * np.abs(mean)), 1.0, std)])


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
    cells: PanelFrame,
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
    columns, lengths = list(targets), cells.lengths
    absolute, squared = np.zeros((2, len(cells), len(columns)))
    for some, low, high in pieces(cells):
        values, known = cells.values[low:high, columns], measured_rows(cells, low, high)[:, columns]
        if std is not None:
            values = values / np.repeat(std[some], lengths[some], axis=0)
        begin, end = first[some] - low, np.minimum(stop[some], cells.offsets[1:][some]) - low
        largest = sums(np.abs(values), begin, end, add=np.maximum)
        pairs, difference = np.zeros((2, *values.shape))
        pairs[period:] = known[period:] & known[:-period]
        difference[period:] = np.abs(values[period:] - values[:-period])
        difference[difference <= ROUNDING * np.repeat(largest, lengths[some], axis=0)] = 0.0
        difference *= pairs
        edges = np.minimum(begin + period, np.maximum(begin, end)), end
        n_pairs = (edges[1] - edges[0])[:, None] if cells.measured is None else sums(pairs, *edges)
        absolute[some] = sums(difference, *edges) / np.maximum(1, n_pairs)
        squared[some] = sums(difference**2, *edges) / np.maximum(1, n_pairs)
    return SeasonalDifferences(period=period, absolute=absolute, squared=squared)


def sums(values: FloatArray, first: IntArray, stop: IntArray, *, add: np.ufunc = np.add) -> FloatArray:
    """Of the rows first[s] to stop[s] of values (N, C), in order and none shared: (S, C), 0 of no rows.

    Those of a series are added as numpy adds the columns of an array of them alone, which begins with a 0: whatever
    stands around them, its sum has the same bits.
    """
    place = np.arange(len(first))
    padded = np.insert(values, np.append(first, len(values)), 0.0, axis=0)
    edges = np.stack([first + place, np.maximum(first, stop) + place + 1], axis=1)
    total: FloatArray = add.reduceat(padded, edges.ravel(), axis=0)[::2]
    return total


def pieces(cells: PanelFrame) -> Iterator[tuple[slice, int, int]]:
    """The series in order, so many at a time that they have about CELLS cells, one at least: which, and their rows."""
    start, rows, offsets = 0, CELLS // len(cells.columns), cells.offsets
    while start < len(cells):
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + rows, side="right")) - 1)
        yield slice(start, stop), int(offsets[start]), int(offsets[stop])
        start = stop
