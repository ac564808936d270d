"""Errors on a panel, summed by series as windows come: memory for the series, whatever the number of windows."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from forecast.data.panel.differences import SeasonalDifferences
from forecast.data.windows import Batch
from forecast.evaluation.metrics import FLAT_SHARE

FloatArray = npt.NDArray[np.float64]
# What is summed for each series and target, in the order of `PanelErrors.sums`.
SUMMED = ("squared", "absolute", "signed", "symmetric_percent", "truth", "cells")
UNIT_FREE = ("mase", "rmsse", "smape", "wape")


class PanelErrors:
    """Streaming sums over the measured cells of all windows; a cell that was filled in counts nowhere.

    pred_len: P. mean, std (S, T): bring a series' scaled values to original units, x * std + mean. windows (S,): how
    many of each series were added. sums (6, S, T) as in SUMMED: the first three of errors in scaled units, the truth
    is its absolute value in original units.
    """

    def __init__(self, pred_len: int, *, mean: FloatArray, std: FloatArray) -> None:
        n_series, n_targets = mean.shape
        self.mean, self.std = torch.from_numpy(mean.copy()), torch.from_numpy(std.copy())
        self.windows = torch.zeros(n_series, dtype=torch.int64)
        self.sums = torch.zeros(len(SUMMED), n_series, n_targets, dtype=torch.float64)
        self.by_step = torch.zeros(3, pred_len, n_targets, dtype=torch.float64)  # squared, absolute, cells
        self.variances = torch.zeros(2, n_targets, dtype=torch.float64)  # of the forecasts, of the truth

    def update(self, batch: Batch, forecast: Float[Tensor, "B P T"]) -> None:
        """Adds a batch's windows. Raises ValueError when the shapes differ: nothing is broadcast."""
        expected = (len(forecast), *self.by_step.shape[1:])
        if forecast.shape != expected or batch.target.shape != expected:
            raise ValueError(
                f"forecast {tuple(forecast.shape)} and target {tuple(batch.target.shape)} must both be {expected}: "
                "(windows, pred_len, target columns)"
            )
        assert batch.series is not None
        series = batch.series.cpu()
        mean, std = (part[series].unsqueeze(1).to(forecast.device) for part in (self.mean, self.std))
        predicted, truth = forecast.double(), batch.target.double()
        known = torch.ones_like(truth) if batch.measured is None else batch.measured.double()
        error = (predicted - truth) * known
        squared, absolute = error.square(), error.abs()
        size = (truth * std + mean).abs()
        both = (predicted * std + mean).abs() + size
        percent = 200.0 * absolute * std / torch.where(both > 0, both, 1.0)
        cells = torch.stack([squared, absolute, error, percent, size * known, known])
        self.sums.index_add_(1, series, cells.sum(2).cpu())
        self.windows.index_add_(0, series, torch.ones_like(series))
        self.by_step += torch.stack([squared, absolute, known]).sum(1).cpu()
        # over the steps of a window, as `ErrorSums` does
        self.variances += torch.stack([_variance(part, known) for part in (predicted, truth)]).sum(1).cpu()

    def total(self, name: str) -> FloatArray:
        """One of SUMMED by series and target (S, T)."""
        found: FloatArray = self.sums[SUMMED.index(name)].numpy()
        return found

    @property
    def n_windows(self) -> int:
        """Of all series."""
        return int(self.windows.sum())

    def shares(self) -> FloatArray:
        """What each evaluated series (E,) has of the MSE in scaled units, times their number: the mean is the MSE."""
        cells, evaluated = self.total("cells"), self.evaluated()
        columns = cells.any(0)
        parts = self.total("squared")[evaluated][:, columns] / cells[evaluated][:, columns].mean(0)
        found: FloatArray = parts.mean(1)
        return found

    def evaluated(self) -> npt.NDArray[np.bool_]:
        """Which series (S,) have a measured cell in some window."""
        return np.asarray((self.total("cells") > 0).any(1))

    def steps(self) -> tuple[FloatArray, FloatArray]:
        """Mean squared and mean absolute error (P,) each, scaled units; NaN where no series was measured."""
        squared, absolute, cells = self.by_step.numpy()
        return _row_means(_quotient(squared, cells)), _row_means(_quotient(absolute, cells))

    def series(self, naive: SeasonalDifferences) -> dict[str, FloatArray]:
        """The errors of each series and target (S, T), NaN where there is none.

        mse, mae: scaled units. mase, rmsse: the mean absolute error over that difference, the root of the mean squared
        error over that one. smape: in percent. wape: the sum of absolute errors over the sum of absolute truths.
        """
        cells, std = self.total("cells"), self.std.numpy()
        mse, mae = (_quotient(self.total(name), cells) for name in ("squared", "absolute"))
        return {
            "mse": mse,
            "mae": mae,
            "mase": _quotient(mae * std, naive.absolute),
            "rmsse": np.sqrt(_quotient(mse * std**2, naive.squared)),
            "smape": _quotient(self.total("symmetric_percent"), cells),
            "wape": _quotient(self.total("absolute") * std, self.total("truth")),
        }

    def table(self, naive: SeasonalDifferences) -> dict[str, FloatArray]:
        """`series`, each its mean over the targets that have one (S,)."""
        return {name: _row_means(values) for name, values in self.series(naive).items()}

    def overall(self, naive: SeasonalDifferences) -> dict[str, Any]:
        """All metrics; None for what is not known. As `ErrorSums.overall`: means over the columns of `columns`."""
        rows = list(self.columns([str(i) for i in range(self.sums.shape[2])], naive).values())
        mse, mae, bias = (_mean(row["scaled"][key] for row in rows) for key in ("mse", "mae", "bias"))
        original = {"original": rows[0]["original"]} if len(rows) == 1 else {}
        return {
            "scaled": _errors(mse, mae, bias),
            **original,
            **{key: _mean(r[key] for r in rows) for key in UNIT_FREE},
        }

    def columns(self, names: Sequence[str], naive: SeasonalDifferences) -> dict[str, dict[str, Any]]:
        """The metrics of each target column, by its name.

        scaled, original: mse, mae, rmse, bias over all measured cells of all series. mase, rmsse, smape: means over the
        series that have one, each alike; series_without_mase: how many were evaluated and have none. wape: the sum of
        absolute errors of all series over that of absolute truths.
        """
        std, by_series = self.std.numpy(), self.series(naive)
        cells = self.total("cells").sum(0)
        blocks = {}
        for i, name in enumerate(names):
            errors = [self.total(key)[:, i] for key in ("squared", "absolute", "signed")]
            scale = std[:, i]
            scaled = [_over(values.sum(), cells[i]) for values in errors]
            power = (2, 1, 1)
            original = [_over((v * scale**n).sum(), cells[i]) for v, n in zip(errors, power, strict=True)]
            none = np.isnan(by_series["mase"][:, i]) & (self.total("cells")[:, i] > 0)
            blocks[name] = {
                "scaled": _errors(*scaled),
                "original": _errors(*original),
                **{key: _known_mean(by_series[key][:, i]) for key in ("mase", "rmsse", "smape")},
                "wape": _over((errors[1] * scale).sum(), self.total("truth")[:, i].sum()),
                "series_without_mase": int(none.sum()),
            }
        return blocks

    def flat(self, columns: Iterable[str]) -> list[str]:
        """The target columns whose forecasts vary over a window's steps less than FLAT_SHARE of what the truth does."""
        forecast, truth = self.variances.numpy()
        return [name for name, low in zip(columns, forecast < FLAT_SHARE**2 * truth, strict=True) if low]


def _variance(x: Float[Tensor, "B P T"], known: Float[Tensor, "B P T"]) -> Float[Tensor, "B T"]:
    """Over the measured steps of each window."""
    count = known.sum(1, keepdim=True).clamp_min(1.0)
    mean = (x * known).sum(1, keepdim=True) / count
    variance: Tensor = ((x - mean).square() * known).sum(1) / count.squeeze(1)
    return variance


def _quotient(values: FloatArray, by: FloatArray) -> FloatArray:
    """NaN where the divisor is 0."""
    return np.where(by > 0, values / np.where(by > 0, by, 1.0), np.nan)


def _row_means(values: FloatArray) -> FloatArray:
    """The mean (S,) of the numbers in each row of (S, T); NaN of a row without any."""
    known = ~np.isnan(values)
    return _quotient(np.where(known, values, 0.0).sum(1), known.sum(1))


def _over(value: float, by: float) -> float | None:
    return float(value / by) if by > 0 else None


def _mean(values: Iterable[float | None]) -> float | None:
    """Of those that are known; None without one."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _known_mean(values: FloatArray) -> float | None:
    """Of the numbers among (S,); None without one."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _errors(mse: float | None, mae: float | None, bias: float | None) -> dict[str, float | None]:
    return {"mse": mse, "mae": mae, "rmse": None if mse is None else math.sqrt(mse), "bias": bias}
