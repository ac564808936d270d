"""The errors of the seasonal naive forecast over earlier rows, by which MASE and RMSSE are scaled."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from forecast.data.cells import Cells, FloatArray, IntArray
from forecast.data.differences import ROUNDING, SeasonalDifferences, seasonal_differences
from forecast.data.prepare import Prepared
from forecast.data.seasonality import seasonal_period


@dataclass(frozen=True, kw_only=True)
class OwnScale:
    """MASE and RMSSE of the T target columns where each window is scaled by what lies before it; None without any."""

    mase: list[float | None]
    rmsse: list[float | None]


def errors_before(data: Prepared, origins: np.ndarray, period: int) -> tuple[np.ndarray, np.ndarray]:
    """As `naive_errors` of one series, (N, T) twice, over all rows before each origin (N,), those of other splits too.

    Made-up cells have no part. Zero where there are no two rows a season apart, or no difference between them.
    """
    rows, columns = slice(int(origins.max())), list(data.targets)
    values = data.frame.values[rows, columns] / data.target_scale[1]
    size, counted = np.zeros_like(values), np.zeros(values.shape, dtype=np.bool_)
    size[period:] = np.abs(values[period:] - values[:-period])
    size[size <= ROUNDING * np.abs(values).max(0, initial=0.0)] = 0.0
    known = np.ones(values.shape, dtype=np.bool_)
    if data.frame.measured is not None:
        known = data.frame.measured[rows, columns]
    counted[period:] = known[period:] & known[:-period]
    size[~counted] = 0.0
    pairs = np.maximum(1, np.cumsum(counted, axis=0)[origins - 1])
    return np.cumsum(size, axis=0)[origins - 1] / pairs, np.cumsum(size**2, axis=0)[origins - 1] / pairs


def scaled_by(before: tuple[np.ndarray, np.ndarray], squared: np.ndarray, absolute: np.ndarray) -> OwnScale:
    """Of windows with these errors (N, T): each by its own scale (N, T), then the mean over those that have one."""
    mase = _ratios(absolute, before[0])
    rmsse = _ratios(np.sqrt(squared), np.sqrt(before[1]))
    return OwnScale(mase=mase, rmsse=rmsse)


def _ratios(errors: np.ndarray, scale: np.ndarray) -> list[float | None]:
    found: list[float | None] = []
    for error, one in zip(errors.T, scale.T, strict=True):
        some = (one > 0) & ~np.isnan(error)
        found.append(float(np.mean(error[some] / one[some])) if some.any() else None)
    return found


class JudgedData(Protocol):
    """Data with targets, of one series or of many."""

    @property
    def frame(self) -> Cells:
        """The rows."""

    @property
    def targets(self) -> tuple[int, ...]:
        """The T columns that are forecast."""

    @property
    def season(self) -> int | None:
        """Steps in a season of them."""

    @property
    def target_scale(self) -> tuple[FloatArray, FloatArray]:
        """Mean and std (S, T) of them."""

    def naive_rows(self, split: str) -> tuple[IntArray, IntArray]:
        """The rows (S,) from and to which the errors on a split are scaled by."""


def naive_errors(data: JudgedData, split: str) -> SeasonalDifferences:
    """The seasonal differences (S, T), scaled units, by which MASE and RMSSE on a split are scaled.

    Of one series over its train rows; of each series of a panel over all rows before its first forecast of the split,
    which are M4's train rows. The season is that which the seasonal naive baseline repeats, 1 step where that repeats
    the last value.
    """
    first, stop = data.naive_rows(split)
    period = data.season or seasonal_period(data.frame.freq) or 1
    std = data.target_scale[1]
    return seasonal_differences(data.frame, first, stop, period=period, targets=data.targets, std=std)
