"""The part of the leakage guard that computes the scale again."""

from collections.abc import Sequence

import numpy as np

from forecast.data.scaling import EPSILON, How
from forecast.data.values.cells import Cells, FloatArray, IntArray
from forecast.errors import UserError
from forecast.evaluation.leakage_windows import SKIP

CHECKED_SERIES = 2000  # whose scale is computed again, one after the other: of all of a million it would take minutes


def check_scale(
    cells: Cells,
    mean: FloatArray,
    std: FloatArray,
    *,
    how: How,
    period: int,
    first: IntArray,
    stop: IntArray,
    context: int,
    observed: int,
    names: Sequence[str],
) -> None:
    """The scale (S, C) of each series is the mean and the deviation, or what `how` says, of its own train rows.

    first, stop (S,): those rows. A series with fewer than two measured ones by its first `context` rows; the columns
    after the first `observed`, which are known in advance, by the train rows of all. names (S,): of the series, for the
    message. Of many series CHECKED_SERIES are looked at.
    """
    series = range(0, len(names), max(1, len(names) // CHECKED_SERIES))
    together = {} if how == "none" else of_all(cells, first, stop)
    for s in series:
        for column, name in enumerate(cells.columns):
            if name in cells.categories:  # they have no scale
                continue
            alone = how in ("series", "season") and column < observed
            if how == "none":
                expected, rows = (0.0, 1.0), 0
            elif alone:
                expected, rows = of_series(
                    cells,
                    s,
                    column,
                    rows=(first[s], stop[s]),
                    context=context,
                    period=period if how == "season" else None,
                )
            else:
                expected, rows = together[column]
            rounding = EPSILON * abs(expected[0])
            wanted = expected[0], expected[1] if expected[1] > rows * rounding else 1.0
            for kind, value, actual in zip(("mean", "std"), wanted, (mean[s, column], std[s, column]), strict=True):
                if not abs(actual - value) <= 1e-9 * wanted[1] + 1e4 * rounding:
                    raise UserError(
                        f"leakage check, scaler: the {kind} of column '{name}'{names[s]} is {actual:.9g}, but that of "
                        f"the {rows} train rows{names[s] if alone else ' of all series'} is {value:.9g}: it was "
                        "computed from other rows, perhaps of val or test. Fit it on the train rows "
                        f"(forecast.data.scaling) and train anew; {SKIP}."
                    )


def of_series(
    cells: Cells, series: int, column: int, *, rows: tuple[int, int], context: int, period: int | None
) -> tuple[tuple[float, float], int]:
    """Mean and deviation of one column of one series, and of how many cells. period: of how="season"."""
    begin, end = int(cells.offsets[series]), int(cells.offsets[series + 1])
    known = np.ones((end - begin, len(cells.columns)), dtype=np.bool_)
    if cells.measured is not None:
        known = cells.measured[begin:end]
    if (known[rows[0] - begin : rows[1] - begin].sum(0) < 2).any():
        rows = begin, min(begin + context, end)
    here = slice(*rows)
    values = np.where(known[here.start - begin : here.stop - begin, column], cells.values[here, column], np.nan)
    held = values[~np.isnan(values)]
    if not len(held):
        return (0.0, 1.0), 0
    mean, std = float(held.mean()), float(held.std())
    if period is not None:
        differences = np.abs(values[period:] - values[:-period])
        usual = float(np.nanmean(differences)) if np.isfinite(differences).any() else 0.0
        std = usual if usual > 0 else std
    return (mean, std), len(held)


def of_all(cells: Cells, first: IntArray, stop: IntArray) -> dict[int, tuple[tuple[float, float], int]]:
    """As `of_series` of each column, of the measured cells in the train rows of all series."""
    edges = np.zeros(len(cells.values) + 1, dtype=np.int64)
    np.add.at(edges, first[first < stop], 1)
    np.add.at(edges, stop[first < stop], -1)
    rows = edges.cumsum()[:-1] > 0
    scales = {}
    for column in range(len(cells.columns)):
        known = rows if cells.measured is None else rows & cells.measured[:, column]
        held = cells.values[known, column]
        scales[column] = (float(held.mean()), float(held.std())) if len(held) else (0.0, 1.0), len(held)
    return scales
