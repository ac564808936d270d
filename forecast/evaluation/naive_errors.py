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
