"""Scaling by the mean and standard deviation of the train rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import StandardScaler

from forecast.errors import UserError

FloatArray = npt.NDArray[np.float64]
TOO_FAR = "Correct the value, or leave its cell empty and train with data.gaps=interpolate."


@dataclass(frozen=True, eq=False)
class Scaler:
    """scaled = (original - mean) / std, column by column.

    mean, std (C,) float64 in the units of the columns; std is the population's (ddof 0), and 1 where a column
    is constant up to rounding. constant: those columns, where it was fitted and not read back.
    """

    mean: FloatArray
    std: FloatArray
    columns: tuple[str, ...]
    constant: tuple[str, ...] = ()

    @classmethod
    def fit(cls, values: npt.NDArray[np.floating[Any]], columns: Sequence[str]) -> "Scaler":
        """The scaler of values (N, C) in original units: the train rows alone, later rows would leak.

        UserError for a column whose mean or std is beyond the largest float.
        """
        assert values.ndim == 2 and values.shape[1] == len(columns)
        with np.errstate(over="ignore", invalid="ignore"):
            fitted = StandardScaler().fit(values.astype(np.float64, copy=False))
        std = np.asarray(fitted.scale_, dtype=np.float64)
        for name, column, finite in zip(columns, values.T, np.isfinite(fitted.mean_) & np.isfinite(std), strict=True):
            if not finite:
                farthest = column[np.abs(column).argmax()]
                raise UserError(
                    f"column '{name}' reaches {farthest:g} in the train rows: too far for a mean and a standard "
                    f"deviation. {TOO_FAR}"
                )
        # scikit-learn puts 1 for a std that is nothing but rounding; dividing by that would blow the noise up.
        constant = [name for name, s, v in zip(columns, std, fitted.var_, strict=True) if s != np.sqrt(v)]
        return cls(np.asarray(fitted.mean_, dtype=np.float64), std, tuple(columns), tuple(constant))

    def transform(self, values: npt.NDArray[np.floating[Any]]) -> FloatArray:
        """Original units -> scaled; values (..., C), computed and returned in float64."""
        assert values.shape[-1] == len(self.columns)
        return (values.astype(np.float64, copy=False) - self.mean) / self.std

    def inverse(self, values: npt.NDArray[np.floating[Any]], columns_index: Sequence[int] | None = None) -> FloatArray:
        """Scaled -> original units; values (..., T), T = the columns `columns_index` of the C (None: all)."""
        index = list(range(len(self.columns)) if columns_index is None else columns_index)
        assert values.shape[-1] == len(index)
        return values.astype(np.float64, copy=False) * self.std[index] + self.mean[index]

    def state(self) -> dict[str, list[float] | list[str]]:
        """Plain lists, for a checkpoint without pickle; `from_state` gives the same numbers, bit for bit."""
        return {"columns": list(self.columns), "mean": self.mean.tolist(), "std": self.std.tolist()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Scaler":
        """The scaler whose `state` this is."""
        mean, std = (np.asarray(state[key], dtype=np.float64) for key in ("mean", "std"))
        return cls(mean, std, tuple(state["columns"]))
