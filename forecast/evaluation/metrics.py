"""Errors summed over windows in float64: the same figures for any batch size and any number of processes."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from forecast.evaluation.naive_errors import NaiveErrors

# Forecasts that vary less than this share of the truth's variation are called flat.
FLAT_SHARE = 0.1
# The sums that an ErrorSums keeps, beside the number of windows, and the metrics that have no unit.
SUMS = ("squared", "absolute", "made_up", "signed", "symmetric_percent", "forecast_variance", "target_variance")
UNIT_FREE = ("mase", "rmsse", "smape")


class ErrorSums:
    """Streaming sums of errors, squared, absolute and symmetric in percent, and of how much both sides vary.

    pred_len, n_targets: P, T. Errors enter in scaled units; mean, std (T,) of the train rows bring them to original
    units: x * std + mean. Without them the two are one.
    """

    def __init__(
        self, pred_len: int, n_targets: int, *, mean: np.ndarray | None = None, std: np.ndarray | None = None
    ) -> None:
        self.mean = np.zeros(n_targets) if mean is None else mean
        self.std = np.ones(n_targets) if std is None else std
        self.windows = 0
        self.squared = np.zeros((pred_len, n_targets))
        self.absolute = np.zeros((pred_len, n_targets))
        self.signed = np.zeros(n_targets)
        self.symmetric_percent = np.zeros(n_targets)
        self.made_up = np.zeros((pred_len, n_targets))
        self.forecast_variance = np.zeros(n_targets)
        self.target_variance = np.zeros(n_targets)

    def update(
        self,
        forecast: Float[Tensor, "B P T"],
        target: Float[Tensor, "B P T"],
        measured: Bool[Tensor, "B P T"] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Adds the windows of a batch; returns their own squared and absolute error, mean over steps, (B, T) each.

        forecast, target (B, P, T) in scaled units. measured: False where the target was made up, which counts nowhere
        but in what is returned, as no error; None: all were measured. Raises ValueError when the shapes differ:
        nothing is broadcast.
        """
        expected = (forecast.shape[0], *self.squared.shape)
        if forecast.shape != expected or target.shape != expected:
            raise ValueError(
                f"forecast {tuple(forecast.shape)} and target {tuple(target.shape)} must both be {expected}: "
                "(windows, pred_len, target columns)"
            )
        predicted, truth = forecast.double(), target.double()
        if measured is not None:
            truth = torch.where(measured, truth, predicted)
            self.made_up += (~measured).sum(0).cpu().numpy()
        error = predicted - truth
        squared, absolute = error.square(), error.abs()
        self.windows += len(error)
        self.squared += squared.sum(0).cpu().numpy()
        self.absolute += absolute.sum(0).cpu().numpy()
        self.signed += error.sum((0, 1)).cpu().numpy()
        self.symmetric_percent += self._symmetric_percent(predicted, truth)
        # over the steps of a window: a forecast that only repeats one level per window is flat, however levels differ
        self.forecast_variance += variance(predicted).sum(0).cpu().numpy()
        self.target_variance += variance(truth).sum(0).cpu().numpy()
        return squared.mean(1).cpu().numpy(), absolute.mean(1).cpu().numpy()

    def reduce(self, summed: Callable[[Tensor], Tensor]) -> None:
        """Makes these the sums over all processes. summed: from this process's float64 vector to the sum of all."""
        parts = [*(getattr(self, name) for name in SUMS), np.array(self.windows)]
        total = summed(torch.from_numpy(np.concatenate([part.ravel() for part in parts], dtype=np.float64)))
        ends = np.cumsum([part.size for part in parts])[:-1]
        sums = [s.reshape(p.shape) for s, p in zip(np.split(total.cpu().numpy(), ends), parts, strict=True)]
        for name, values in zip(SUMS, sums[:-1], strict=True):
            setattr(self, name, values)
        self.windows = round(sums[-1].item())

    def by_step(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean squared and mean absolute error (P,) each, scaled units."""
        return self._means(1)

    def by_column(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean squared and mean absolute error (T,) each, scaled units."""
        return self._means(0)

    def overall(self, naive: NaiveErrors | None = None) -> dict[str, Any]:
        """All metrics over windows, steps and columns; None for what is not known.

        scaled: mse, mae, rmse, bias (the mean of forecast less truth), mean over columns. original: the same of the
        one target column; absent for several, whose units differ. mase, rmsse, smape have no unit: see `columns`; mean
        over the columns that have one. naive: by what the first two are scaled.
        """
        mse, mae = self.by_column()
        rows = self.columns(map(str, range(len(mse))), naive).values()
        scaled = _errors(float(mse.mean()), float(mae.mean()), float(self._bias().mean()))
        original = {"original": next(iter(rows))["original"]} if len(mse) == 1 else {}
        return {"scaled": scaled, **original, **{key: _mean(row[key] for row in rows) for key in UNIT_FREE}}

    def columns(self, names: Iterable[str], naive: NaiveErrors | None = None) -> dict[str, dict[str, Any]]:
        """The metrics of each target column, by its name.

        scaled: mse, mae. original: mse, mae, rmse, bias. mase: the mean absolute error over that of the seasonal naive
        forecast, one season back, over the train rows (Hyndman and Koehler 2006); rmsse: the root of the same quotient
        of mean squared errors (M5; Makridakis et al. 2022); None where `naive` has none. smape: the mean of
        200 |forecast - truth| / (|forecast| + |truth|) in original units, from 0 to 200 %, where 0 / 0 counts 0.
        """
        mse, mae = self.by_column()
        smape = self.symmetric_percent / (self._count() * len(self.squared))
        original = zip(mse * self.std**2, mae * self.std, self._bias() * self.std, strict=True)
        blocks: dict[str, dict[str, Any]] = {}
        for i, (name, errors) in enumerate(zip(names, original, strict=True)):
            blocks[name] = {
                "scaled": {"mse": float(mse[i]), "mae": float(mae[i])},
                "original": _errors(*map(float, errors)),
                "mase": None if naive is None or not naive.absolute[i] else float(mae[i] / naive.absolute[i]),
                "rmsse": None if naive is None or not naive.squared[i] else math.sqrt(mse[i] / naive.squared[i]),
                "smape": float(smape[i]),
            }
        return blocks

    def flat(self, columns: Iterable[str]) -> list[str]:
        """The target columns whose forecasts vary over a window's steps less than FLAT_SHARE of what the truth does."""
        limit = FLAT_SHARE**2 * self.target_variance
        return [name for name, low in zip(columns, self.forecast_variance < limit, strict=True) if low]

    def _symmetric_percent(self, forecast: Tensor, target: Tensor) -> np.ndarray:
        """The sum over windows and steps (T,) of 200 |f - y| / (|f| + |y|), original units."""
        mean, std = (torch.from_numpy(part).to(forecast.device) for part in (self.mean, self.std))
        size = (forecast * std + mean).abs() + (target * std + mean).abs()
        share = (forecast - target).abs() * std / torch.where(size > 0, size, 1.0)
        result: np.ndarray = 200.0 * share.sum((0, 1)).cpu().numpy()
        return result

    def _means(self, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """Squared and absolute error over the cells that were measured, along an axis of (P, T)."""
        if self.made_up.any():
            cells = np.maximum(1, (self._count() - self.made_up).sum(axis))
            return self.squared.sum(axis) / cells, self.absolute.sum(axis) / cells
        return self.squared.mean(axis) / self._count(), self.absolute.mean(axis) / self._count()

    def _bias(self) -> np.ndarray:
        """Mean of forecast less truth (T,), scaled units."""
        return self.signed / (self._count() * len(self.squared))

    def _count(self) -> int:
        if not self.windows:
            raise ValueError("no windows were evaluated, so there is no mean error")
        return self.windows


def variance(x: Float[Tensor, "B P T"]) -> Float[Tensor, "B T"]:
    """Over the steps of each window, (B, P, T) -> (B, T); a third of the time of torch's."""
    return (x - x.mean(1, keepdim=True)).square_().mean(1)


def _errors(mse: float, mae: float, bias: float) -> dict[str, float]:
    return {"mse": mse, "mae": mae, "rmse": math.sqrt(mse), "bias": bias}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def mean_squared_error(forecast: Float[Tensor, "B P T"], target: Float[Tensor, "B P T"]) -> Float[Tensor, ""]:
    """The training loss: mean over windows, steps and columns of (B, P, T), scaled units, a scalar."""
    return torch.nn.functional.mse_loss(forecast, target)
