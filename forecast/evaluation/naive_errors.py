"""The errors of the seasonal naive forecast over the train rows, by which MASE and RMSSE are scaled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forecast.data.prepare import PreparedData

# Differences of less than so many times the rounding of the largest value are nothing but rounding.
ROUNDING = 16 * np.finfo(np.float64).eps


@dataclass(frozen=True, kw_only=True, eq=False)
class NaiveErrors:
    """Mean absolute and mean squared difference (T,), scaled units, between a train row and that `period` before.

    Zero where a column repeats itself exactly, as a constant one does: it has no MASE.
    """

    period: int
    absolute: np.ndarray
    squared: np.ndarray

    def without(self, columns: Sequence[str]) -> list[str]:
        """The target columns that cannot be scaled."""
        return [name for name, absolute in zip(columns, self.absolute, strict=True) if not absolute]

    def state(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        return {"period": self.period, "absolute": self.absolute.tolist(), "squared": self.squared.tolist()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "NaiveErrors":
        """The errors whose `state` this is."""
        return cls(period=state["period"], absolute=np.array(state["absolute"]), squared=np.array(state["squared"]))


@dataclass(frozen=True, kw_only=True)
class OwnScale:
    """MASE and RMSSE of the T target columns where each window is scaled by what lies before it; None without any."""

    mase: list[float | None]
    rmsse: list[float | None]


def errors_before(data: PreparedData, origins: np.ndarray, period: int) -> tuple[np.ndarray, np.ndarray]:
    """As `naive_errors`, (N, T) twice, over all rows before each of the origins (N,), those of other splits too.

    Filled rows have no part. Zero where there are no two rows a season apart, or no difference between them.
    """
    values = data.frame.values[: int(origins.max()), list(data.targets)] / data.target_std
    size = np.zeros_like(values)
    size[period:] = np.abs(values[period:] - values[:-period])
    size[size <= ROUNDING * np.abs(values).max(0, initial=0.0)] = 0.0
    counted = np.arange(len(values)) >= period
    if data.frame.filled is not None:
        measured = ~data.frame.filled[: len(values)]
        counted[period:] &= measured[period:] & measured[:-period]
    size[~counted] = 0.0
    rows = np.maximum(1, np.cumsum(counted)[origins - 1])[:, None]
    return np.cumsum(size, axis=0)[origins - 1] / rows, np.cumsum(size**2, axis=0)[origins - 1] / rows


def scaled_by(before: tuple[np.ndarray, np.ndarray], squared: np.ndarray, absolute: np.ndarray) -> OwnScale:
    """Of windows with these errors (N, T): each by its own scale (N, T), then the mean over those that have one."""
    mase = _ratios(absolute, before[0])
    rmsse = _ratios(np.sqrt(squared), np.sqrt(before[1]))
    return OwnScale(mase=mase, rmsse=rmsse)


def _ratios(errors: np.ndarray, scale: np.ndarray) -> list[float | None]:
    found: list[float | None] = []
    for error, one in zip(errors.T, scale.T, strict=True):
        some = one > 0
        found.append(float(np.mean(error[some] / one[some])) if some.any() else None)
    return found


def naive_errors(data: PreparedData, period: int) -> NaiveErrors:
    """Over all train rows that have one `period` before them there; without rows that were filled in, if any are left.

    period: the season that the seasonal naive baseline repeats; 1 where that repeats the last value.
    """
    train, targets = data.splits["train"], list(data.targets)
    values = data.frame.values[train.start : train.stop, targets] / data.target_std
    difference = values[period:] - values[:-period]
    if data.frame.filled is not None:
        measured = ~data.frame.filled[train.start : train.stop]
        both = measured[period:] & measured[:-period]
        difference = difference[both] if both.any() else difference
    size = np.abs(difference)
    size[size <= ROUNDING * np.abs(values).max(0, initial=0.0)] = 0.0
    rows = max(1, len(size))
    return NaiveErrors(period=period, absolute=size.sum(0) / rows, squared=(size**2).sum(0) / rows)
