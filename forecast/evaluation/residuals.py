"""The error of forecasts over time: the mean of forecast less truth, and its spread over windows, at most some rows."""

import csv
import io
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from jaxtyping import Float
from torch import Tensor

from forecast.data.windows import Batch

MOST_NUMBERS = 2_000_000  # residuals that are kept, whatever the number of windows
MOST_BINS, MOST_COLUMNS = 400, 8
# So many windows in a bin say what its quantiles are; of few windows there are bins of fewer.
IN_A_BIN, FEW_BINS = 20, 50
LOW, HIGH = 0.1, 0.9


class Residuals:
    """The mean error over the steps of each window, scaled units; of very many windows those of a sample.

    numbers (R,): the windows, of `count` in their order, that are kept. signed (R, T): their mean of forecast less
    truth, NaN where nothing was measured.
    """

    def __init__(self, count: int, n_targets: int) -> None:
        most = max(1, MOST_NUMBERS // n_targets)
        self.numbers: npt.NDArray[np.int64] = np.arange(count)
        if count > most:
            # one of each stretch, by chance: the same place of each would always be the same hour of a day
            begins = np.linspace(0, count, most + 1).astype(np.int64)
            self.numbers = np.random.default_rng(0).integers(begins[:-1], begins[1:])
        self.signed = np.full((len(self.numbers), n_targets), np.nan, dtype=np.float32)
        self._done = 0

    def add(self, forecast: Float[Tensor, "B P T"], batch: Batch) -> None:
        """Adds the next windows."""
        first, stop = np.searchsorted(self.numbers, [self._done, self._done + len(forecast)])
        kept = (self.numbers[first:stop] - self._done).tolist()
        self._done += len(forecast)
        if not kept:
            return
        error = forecast[kept].double() - batch.target[kept].double()
        if batch.measured is None:
            mean = error.mean(1)
        else:
            known = batch.measured[kept].double()
            mean = (error * known).sum(1) / known.sum(1)  # 0 / 0 is NaN
        self.signed[first:stop] = mean.float().cpu().numpy()


def residual_rows(
    times: npt.NDArray[np.datetime64], signed: npt.NDArray[np.float32], names: Sequence[str], first: str
) -> list[tuple[str, str, int, float, float, float]]:
    """Rows of residuals.csv: column, time, windows, and over these the mean and the quantiles LOW and HIGH.

    times (R,): when the forecasts of windows begin. signed (R, T): the mean error over the steps of each, scaled
    units, NaN where nothing was measured. Windows of successive times are one row, MOST_BINS of a column at most. Of
    several columns the mean over all of them comes first, under no name, then MOST_COLUMNS of them, the column `first`
    before the others.
    """
    order = np.argsort(times, kind="stable")
    moments, begins = np.unique(times[order], return_index=True)
    bins = min(MOST_BINS, max(min(len(moments), FEW_BINS), len(times) // IN_A_BIN), len(moments))
    at = begins[np.linspace(0, len(moments), bins, endpoint=False).astype(np.int64)]
    columns = sorted(range(len(names)), key=lambda i: names[i] != first)[:MOST_COLUMNS]
    curves = [("", _row_means(signed))] if len(names) > 1 else []
    curves += [(names[i], signed[:, i]) for i in columns]
    rows = []
    for name, values in curves:
        for start, part in zip(at, np.split(values[order], at[1:]), strict=True):
            if len(known := part[~np.isnan(part)].astype(np.float64)):
                low, high = np.quantile(known, [LOW, HIGH])
                moment = str(pd.Timestamp(times[order[start]]))
                rows.append((name, moment, len(known), float(known.mean()), float(low), float(high)))
    return rows


def residuals_csv(rows: Sequence[tuple[str, str, int, float, float, float]], digits: int) -> str:
    """`residual_rows` as a file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["column", "begins", "windows", "mean", "low", "high"])
    writer.writerows((*row[:3], *(round(value, digits) for value in row[3:])) for row in rows)
    return text.getvalue()


def _row_means(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Over the targets that were measured; NaN where none was."""
    known = ~np.isnan(values)
    count = known.sum(1)
    sums = np.where(known, values, 0.0).sum(1)
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan).astype(np.float32)
