"""Errors summed over windows in float64: the same figures for any batch size and any number of processes."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

# Forecasts that vary less than this share of the truth's variation are called flat.
FLAT_SHARE = 0.1


class ErrorSums:
    """Streaming sums of squared and absolute errors, by step and target column, and of how much both sides vary.

    pred_len, n_targets: P, T. Errors enter in scaled units.
    """

    def __init__(self, pred_len: int, n_targets: int) -> None:
        self.windows = 0
        self.squared = np.zeros((pred_len, n_targets))
        self.absolute = np.zeros((pred_len, n_targets))
        self.forecast_variance = np.zeros(n_targets)
        self.target_variance = np.zeros(n_targets)

    def update(self, forecast: Float[Tensor, "B P T"], target: Float[Tensor, "B P T"]) -> tuple[np.ndarray, np.ndarray]:
        """Adds the windows of a batch; returns their own squared and absolute error, mean over steps, (B, T) each.

        forecast, target (B, P, T) in scaled units. Raises ValueError when the shapes differ: nothing is broadcast.
        """
        expected = (forecast.shape[0], *self.squared.shape)
        if forecast.shape != expected or target.shape != expected:
            raise ValueError(
                f"forecast {tuple(forecast.shape)} and target {tuple(target.shape)} must both be {expected}: "
                "(windows, pred_len, target columns)"
            )
        predicted, truth = forecast.double(), target.double()
        error = predicted - truth
        squared, absolute = error.square(), error.abs()
        self.windows += len(error)
        self.squared += squared.sum(0).cpu().numpy()
        self.absolute += absolute.sum(0).cpu().numpy()
        # over the steps of a window: a forecast that only repeats one level per window is flat, however levels differ
        self.forecast_variance += predicted.var(1, correction=0).sum(0).cpu().numpy()
        self.target_variance += truth.var(1, correction=0).sum(0).cpu().numpy()
        return squared.mean(1).cpu().numpy(), absolute.mean(1).cpu().numpy()

    def reduce(self, summed: Callable[[Tensor], Tensor]) -> None:
        """Makes these the sums over all processes. summed: from this process's float64 vector to the sum of all."""
        parts = [self.squared, self.absolute, self.forecast_variance, self.target_variance, np.array(self.windows)]
        total = summed(torch.from_numpy(np.concatenate([part.ravel() for part in parts], dtype=np.float64)))
        ends = np.cumsum([part.size for part in parts])[:-1]
        sums = [s.reshape(p.shape) for s, p in zip(np.split(total.cpu().numpy(), ends), parts, strict=True)]
        self.squared, self.absolute, self.forecast_variance, self.target_variance = sums[:-1]
        self.windows = round(sums[-1].item())

    def by_step(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean squared and mean absolute error (P,) each, scaled units."""
        return self.squared.mean(1) / self._count(), self.absolute.mean(1) / self._count()

    def by_column(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean squared and mean absolute error (T,) each, scaled units."""
        return self.squared.mean(0) / self._count(), self.absolute.mean(0) / self._count()

    def overall(self, std: np.ndarray) -> dict[str, dict[str, float]]:
        """MSE and MAE over all windows, steps and columns, in scaled and in original units.

        std (T,): standard deviation of the train rows. Un-scaling is x * std + mean, so an error in original units is
        the scaled one times std, and the sums need not be kept twice.
        """
        mse, mae = self.by_column()
        return {
            "scaled": {"mse": float(mse.mean()), "mae": float(mae.mean())},
            "original": {"mse": float((mse * std**2).mean()), "mae": float((mae * std).mean())},
        }

    def flat(self, columns: Iterable[str]) -> list[str]:
        """The target columns whose forecasts vary over a window's steps less than FLAT_SHARE of what the truth does."""
        limit = FLAT_SHARE**2 * self.target_variance
        return [name for name, low in zip(columns, self.forecast_variance < limit, strict=True) if low]

    def _count(self) -> int:
        if not self.windows:
            raise ValueError("no windows were evaluated, so there is no mean error")
        return self.windows


def mean_squared_error(forecast: Float[Tensor, "B P T"], target: Float[Tensor, "B P T"]) -> Float[Tensor, ""]:
    """The training loss: mean over windows, steps and columns of (B, P, T), scaled units, a scalar."""
    return torch.nn.functional.mse_loss(forecast, target)
