"""Errors of a backtest by step of the forecast and by series, added up part by part of its table."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.comparison.backtests import MODEL, Cells, forecast_columns, scale_places

Floats = npt.NDArray[np.float64]


class FoldSums:
    """Means over the folds. scales: std and naive of each target, of a panel of each id and target."""

    def __init__(self, scales: pd.DataFrame, *, pred_len: int) -> None:
        self.scales, self.pred_len = scales, pred_len
        self.levels: list[str] = []
        self.apart = False  # whether the series of a panel end at different times, so that a fold is no one day
        self._steps: dict[tuple[str, str], Floats] = {}  # (2, P): sums and counts
        self._series: dict[str, Floats] = {}  # (2, S)

    def add(self, table: pd.DataFrame, cells: Cells) -> None:
        """A part of the table, windows of pred_len rows one below another; cells: the errors of its rows."""
        _, self.levels = forecast_columns(table)
        for key, values in cells.items():
            windows = values.reshape(-1, self.pred_len)
            known = np.isfinite(windows)
            totals = np.stack([np.where(known, windows, 0.0).sum(0), known.sum(0)])
            self._steps[key] = self._steps[key] + totals if key in self._steps else totals
        self.apart = self.apart or bool((table.groupby("fold")["cutoff"].nunique() > 1).any())
        place = scale_places(table, self.scales)
        for metric in ("mase", "mse", "mae"):
            values = cells[MODEL, metric]
            known = np.isfinite(values)
            sums = [np.bincount(place[known], weights, len(self.scales)) for weights in (values[known], None)]
            totals = np.stack(sums)
            self._series[metric] = self._series[metric] + totals if metric in self._series else totals

    def by_step(self, baselines: Sequence[str]) -> dict[str, list[float]]:
        """As metrics_by_step.csv has them: MSE and MAE, scaled, of the model and baselines, and coverage by level."""
        columns = {}
        for name in (MODEL, *baselines):
            for metric in ("mse", "mae"):
                columns[f"{'' if name == MODEL else name + '_'}{metric}_scaled"] = self._mean(name, metric)
        for level in self.levels:
            if np.isfinite(coverage := self._mean("coverage", level)).any():
                columns[f"coverage_{level}"] = coverage
        return columns

    def by_series(self) -> dict[str, Floats]:
        """The model's MASE, MSE and MAE of each row of `scales`; NaN where none is known."""
        return {metric: _divided(sums) for metric, sums in self._series.items()}

    def original_mae(self, target: str) -> float:
        """The model's mean absolute error of a target in the file's units; NaN where no truth is known."""
        of = (self.scales["target"] == target).to_numpy()
        sums, counts = self._series["mae"][:, of]
        return float((sums * self.scales["std"].to_numpy()[of]).sum() / counts.sum()) if counts.sum() else float("nan")

    def _mean(self, name: str, metric: str) -> list[float]:
        means: list[float] = _divided(self._steps[name, metric]).tolist()
        return means


def _divided(sums: Floats) -> Floats:
    means: Floats = np.divide(sums[0], sums[1], out=np.full(sums.shape[1], np.nan), where=sums[1] > 0)
    return means
