"""Errors summed over windows in float64, by series: the same figures for any batch size and any number of processes."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from forecast.data.prepare import Prepared
from forecast.data.scaling import ROUNDING, SeasonalDifferences, pieces, seasonal_differences
from forecast.data.values.cells import Flags, FloatArray, IntArray
from forecast.evaluation.baselines import season

CPU = torch.device("cpu")
# Forecasts that vary less than this share of the truth's variation are called flat.
FLAT_SHARE = 0.1
# What is summed for each series and target, in the order of `ErrorSums.sums`, and the metrics that have no unit.
SUMMED = ("squared", "absolute", "signed", "symmetric_percent", "truth", "cells")
UNIT_FREE: Final = ("mase", "rmsse", "smape", "wape")


ColumnErrors = dict[str, Any]  # the metrics of a target column, None where one is not known


class ErrorSums:
    """Streaming sums over the measured cells of windows; a cell that was made up counts nowhere.

    pred_len: P. mean, std (S, T): bring a series' scaled values to original units, x * std + mean. windows (S,): how
    many of each series were added. sums (6, S, T) as in SUMMED: the first three of errors in scaled units, the truth
    is its absolute value in original units. by_step (3, P, T): squared, absolute, cells. variances (2, T): of the
    forecasts and of the truth over the steps of a window, so that one that only repeats a level per window is flat,
    however levels differ. ratios (3, S, T): where each window has a scale of its own the sums of its MASE and RMSSE,
    and how many have them.

    The sums lie where the forecasts do until a figure is asked for: a GPU is not waited for in a batch.
    """

    def __init__(self, pred_len: int, mean: FloatArray, std: FloatArray) -> None:
        n_series, n_targets = mean.shape
        self.mean, self.std = torch.from_numpy(mean.copy()), torch.from_numpy(std.copy())
        self.windows = torch.zeros(n_series, dtype=torch.int64)
        self.sums = torch.zeros(len(SUMMED), n_series, n_targets, dtype=torch.float64)
        self.by_step = torch.zeros(3, pred_len, n_targets, dtype=torch.float64)
        self.variances = torch.zeros(2, n_targets, dtype=torch.float64)
        self.ratios: Tensor | None = None

    @classmethod
    def scaled(cls, pred_len: int, n_targets: int) -> "ErrorSums":
        """Of one series whose original units nobody asks for."""
        return cls(pred_len, np.zeros((1, n_targets)), np.ones((1, n_targets)))

    def update(
        self,
        forecast: Float[Tensor, "B P T"],
        target: Float[Tensor, "B P T"],
        measured: Bool[Tensor, "B P T"] | None = None,
        series: Int[Tensor, " B"] | None = None,
        scale: tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]] | None = None,
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
        """Adds the windows of a batch; returns their own squared and absolute error, mean over steps, (B, T) each.

        forecast, target (B, P, T) in scaled units. measured: False where the target was made up, which is no error in
        what is returned; None: all were measured. series (B,): None: all are of the first. scale: the mean absolute and
        squared seasonal differences of each window, scaled units, where MASE and RMSSE are by these. Raises ValueError
        when the shapes differ: nothing is broadcast.
        """
        expected = (forecast.shape[0], *self.by_step.shape[1:])
        if forecast.shape != expected or target.shape != expected:
            raise ValueError(
                f"forecast {tuple(forecast.shape)} and target {tuple(target.shape)} must both be {expected}: "
                "(windows, pred_len, target columns)"
            )
        self._move(forecast.device)
        series = torch.zeros(len(forecast), dtype=torch.int64, device=forecast.device) if series is None else series
        predicted, truth = forecast.double(), target.double()
        known = torch.ones_like(truth) if measured is None else measured.double()
        if measured is not None:
            truth = torch.where(measured, truth, predicted)
        error = predicted - truth
        squared, absolute = error.square(), error.abs()
        mean, std = (part.index_select(0, series).unsqueeze(1) for part in (self.mean, self.std))
        size = (truth * std + mean).abs()
        both = (predicted * std + mean).abs() + size
        percent = 200.0 * absolute * std / torch.where(both > 0, both, 1.0)
        parts = torch.stack([part.sum(1) for part in (squared, absolute, error, percent, size * known, known)])
        self.sums.index_add_(1, series, parts)
        self.windows.index_add_(0, series, torch.ones_like(series))
        self.by_step += torch.stack([part.sum(0) for part in (squared, absolute, known)])
        self.variances += torch.stack([variance(part, measured).sum(0) for part in (predicted, truth)])
        if measured is None:
            means = squared.mean(1), absolute.mean(1)
        else:
            cells = known.sum(1)  # 0 / 0 is NaN
            means = squared.sum(1) / cells, absolute.sum(1) / cells
        if scale is not None:
            by, by_squared = (part.to(forecast.device) for part in scale)
            self._add_ratios(*means, by, by_squared, series)
        return means

    def _move(self, device: torch.device) -> None:
        """Brings the sums to a device."""
        if self.sums.device != device:
            for name in ("mean", "std", "windows", "sums", "by_step", "variances", "ratios"):
                part: Tensor | None = getattr(self, name)
                setattr(self, name, None if part is None else part.to(device))

    def _add_ratios(self, squared: Tensor, absolute: Tensor, by: Tensor, by_squared: Tensor, series: Tensor) -> None:
        """Of windows with these errors (B, T), each by its own scale (B, T); of those that have both."""
        known = (by > 0) & ~absolute.isnan()
        mase = torch.where(known, absolute / by, 0.0)
        rmsse = torch.where(known, (squared / by_squared).sqrt(), 0.0)
        if self.ratios is None:
            self.ratios = self.sums.new_zeros(3, *self.sums.shape[1:])
        self.ratios.index_add_(1, series, torch.stack([mase, rmsse, known.double()]))

    def reduce(self, summed: Callable[[Tensor], Tensor]) -> None:
        """Makes these the sums over all processes. summed: from this process's float64 vector to the sum of all."""
        self._move(CPU)
        parts = [self.windows, self.sums, self.by_step, self.variances]
        total = summed(torch.cat([part.double().flatten() for part in parts])).cpu()
        for part, sums in zip(parts, torch.split(total, [part.numel() for part in parts]), strict=True):
            part.copy_(sums.view(part.shape))

    def total(self, name: str) -> FloatArray:
        """One of SUMMED by series and target (S, T)."""
        self._move(CPU)
        return self.sums[SUMMED.index(name)].numpy()

    @property
    def n_windows(self) -> int:
        """Of all series."""
        return int(self.windows.sum())

    def evaluated(self) -> Flags:
        """Which series (S,) have a measured cell in some window."""
        return np.asarray((self.total("cells") > 0).any(1))

    def shares(self) -> FloatArray:
        """What each evaluated series (E,) has of the MSE in scaled units, times their number: the mean is the MSE."""
        cells, evaluated = self.total("cells"), self.evaluated()
        columns = cells.any(0)
        parts = self.total("squared")[evaluated][:, columns] / cells[evaluated][:, columns].mean(0)
        return parts.mean(1)

    def steps(self) -> tuple[FloatArray, FloatArray]:
        """Mean squared and mean absolute error (P,) each, scaled units, means over the columns; NaN without a cell."""
        self._move(CPU)
        squared, absolute, cells = self.by_step.numpy()
        if self._all_measured():
            return squared.mean(1) / self.n_windows, absolute.mean(1) / self.n_windows
        return row_means(quotient(squared, cells)), row_means(quotient(absolute, cells))

    def by_column(self) -> tuple[FloatArray, FloatArray]:
        """Mean squared and mean absolute error (T,) each, scaled units; NaN without a cell."""
        self._move(CPU)
        squared, absolute, cells = self.by_step.numpy()
        if self._all_measured():
            return squared.mean(0) / self.n_windows, absolute.mean(0) / self.n_windows
        return quotient(squared.sum(0), cells.sum(0)), quotient(absolute.sum(0), cells.sum(0))

    def _all_measured(self) -> bool:
        """Whether each window has all its cells. Raises ValueError without a window."""
        if not self.n_windows:
            raise ValueError("no windows were evaluated, so there is no mean error")
        return bool((self.by_step[2] == self.n_windows).all())

    def series(self, naive: SeasonalDifferences | None = None) -> dict[str, FloatArray]:
        """The errors of each series and target (S, T), NaN where there is none.

        mse, mae: scaled units. mase: the mean absolute error over that of the seasonal naive forecast, one season back,
        over earlier rows (Hyndman and Koehler 2006), which `naive` holds in scaled units; rmsse: the root of
        the same quotient of mean squared errors (M5; Makridakis et al. 2022); where windows have a scale of
        their own, the means of theirs. smape: the mean of 200 |forecast - truth| / (|forecast| + |truth|) in
        original units, from 0 to 200 %, where 0 / 0 counts 0. wape: the sum of absolute errors over the sum of
        absolute truths.
        """
        cells, std = self.total("cells"), self.std.numpy()
        mse, mae = (quotient(self.total(name), cells) for name in ("squared", "absolute"))
        none = np.zeros_like(cells)
        scale = (none, none) if naive is None else (naive.absolute, naive.squared)
        mase, rmsse = quotient(mae, scale[0]), np.sqrt(quotient(mse, scale[1]))
        if self.ratios is not None:
            mase, rmsse = (quotient(part, self.ratios[2].numpy()) for part in self.ratios[:2].numpy())
        return {
            "mse": mse,
            "mae": mae,
            "mase": mase,
            "rmsse": rmsse,
            "smape": quotient(self.total("symmetric_percent"), cells),
            "wape": quotient(self.total("absolute") * std, self.total("truth")),
        }

    def table(self, naive: SeasonalDifferences | None) -> dict[str, FloatArray]:
        """`series`, each its mean over the targets that have one (S,)."""
        return {name: row_means(values) for name, values in self.series(naive).items()}

    def overall(self, naive: SeasonalDifferences | None = None) -> dict[str, object]:
        """All metrics; None for what is not known.

        scaled: mse, mae, rmse, bias (the mean of forecast less truth), means over the columns that have them. original:
        the same of the one target column; absent for several, whose units differ. UNIT_FREE have no unit;
        they are means over the columns that have one. naive: by what the first two are scaled.
        """
        rows = list(self.columns([str(i) for i in range(self.sums.shape[2])], naive).values())
        mse, mae = map(_known_mean, self.by_column())
        scaled = _errors(mse, mae, optional_mean(row["scaled"]["bias"] for row in rows))
        original = {"original": rows[0]["original"]} if len(rows) == 1 else {}
        return {"scaled": scaled, **original, **{key: optional_mean(row[key] for row in rows) for key in UNIT_FREE}}

    def mse(self) -> float | None:
        """The mean squared error of all columns that have one, scaled units."""
        return _known_mean(self.by_column()[0])

    def columns(self, names: Sequence[str], naive: SeasonalDifferences | None = None) -> dict[str, ColumnErrors]:
        """The metrics of each target column, by its name.

        scaled, original: mse, mae, rmse, bias over all measured cells of all series. mase, rmsse, smape: means over the
        series that have one, each alike; series_without_mase: how many were evaluated and have none.
        wape: the sum of absolute errors of all series over that of absolute truths.
        """
        by_series, (mse, mae), std = self.series(naive), self.by_column(), self.std.numpy()
        cells = self.total("cells").sum(0)
        blocks: dict[str, ColumnErrors] = {}
        for i, name in enumerate(names):
            squared, absolute, signed = (self.total(key)[:, i] for key in SUMMED[:3])
            scale, count = std[:, i], cells[i]
            original = [ratio(v.sum(), count) for v in (squared * scale**2, absolute * scale, signed * scale)]
            none = np.isnan(by_series["mase"][:, i]) & (self.total("cells")[:, i] > 0)
            blocks[name] = {
                "scaled": _errors(_number(mse[i]), _number(mae[i]), ratio(signed.sum(), count)),
                "original": _errors(*original),
                "mase": _known_mean(by_series["mase"][:, i]),
                "rmsse": _known_mean(by_series["rmsse"][:, i]),
                "smape": _known_mean(by_series["smape"][:, i]),
                "wape": ratio((absolute * scale).sum(), self.total("truth")[:, i].sum()),
                "series_without_mase": int(none.sum()),
            }
        return blocks

    def flat(self, names: Iterable[str]) -> list[str]:
        """The target columns whose forecasts vary over a window's steps less than FLAT_SHARE of what the truth does."""
        self._move(CPU)
        forecast, truth = self.variances.numpy()
        return [name for name, low in zip(names, forecast < FLAT_SHARE**2 * truth, strict=True) if low]


def variance(x: Float[Tensor, "B P T"], measured: Bool[Tensor, "B P T"] | None = None) -> Float[Tensor, "B T"]:
    """Over the measured steps of each window, (B, P, T) -> (B, T); of all in a third of the time of torch's."""
    if measured is None:
        return (x - x.mean(1, keepdim=True)).square_().mean(1)
    count = measured.sum(1, keepdim=True).clamp_min(1)
    mean = (x * measured).sum(1, keepdim=True) / count
    return ((x - mean).square() * measured).sum(1) / count.squeeze(1)


def quotient(values: FloatArray, by: FloatArray) -> FloatArray:
    """NaN where the divisor is 0."""
    return np.where(by > 0, values / np.where(by > 0, by, 1.0), np.nan)


def row_means(values: FloatArray) -> FloatArray:
    """The mean (S,) of the numbers in each row of (S, T); NaN of a row without any."""
    known = ~np.isnan(values)
    return quotient(np.where(known, values, 0.0).sum(1), known.sum(1).astype(np.float64))


def _known_mean(values: FloatArray) -> float | None:
    """Of the numbers among (S,); None without one."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def optional_mean(values: Iterable[float | None]) -> float | None:
    """Of those that are known; None without one."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def ratio(value: float | Tensor, by: float | Tensor) -> float | None:
    """A quotient; None of a divisor that is 0."""
    return float(value / by) if by > 0 else None


def _errors(mse: float | None, mae: float | None, bias: float | None) -> dict[str, float | None]:
    return {"mse": mse, "mae": mae, "rmse": None if mse is None else math.sqrt(mse), "bias": bias}


def mean_squared_error(forecast: Float[Tensor, "B P T"], target: Float[Tensor, "B P T"]) -> Float[Tensor, ""]:
    """The training loss: mean over windows, steps and columns of (B, P, T), scaled units, a scalar."""
    return torch.nn.functional.mse_loss(forecast, target)


MaseScale = Literal["train", "split", "window"]


def naive_errors(data: Prepared, split: str, rule: MaseScale = "train") -> SeasonalDifferences:
    """The seasonal differences (S, T), scaled units, by which MASE and RMSSE on a split are scaled.

    rule: train, of each series over its train rows, or over all before its first forecast of the split where those are
    no longer than a season; split, over these in any case, which are M4's train rows;
    window, by which `BeforeEachWindow` divides: as split.
    """
    first, stop, period = data.frame.offsets[:-1], data.origins(split).first, season(data) or 1
    if rule == "train" and (train := data.splits.get("train")) is not None:
        trained = train.stop - train.first > period
        first, stop = np.where(trained, train.first, first), np.where(trained, train.stop, stop)
    std = data.target_scale[1]
    return seasonal_differences(data.frame, first, stop, period=period, targets=data.targets, std=std)


class BeforeEachWindow:
    """The seasonal differences over all rows before the forecast of a window, those of other splits too.

    Made-up cells have no part. A few series at a time: windows are asked for in the order of the series.
    """

    def __init__(self, data: Prepared) -> None:
        self.data, self.period = data, season(data) or 1
        self._pieces = list(pieces(data.frame))
        self._first, self._sums = 0, np.zeros((3, 0, len(data.targets)))  # of the rows from there on

    def at(self, series: IntArray, origins: IntArray) -> tuple[Tensor, Tensor]:
        """Mean absolute and mean squared differences (B, T), scaled units, of windows of series (B,).

        origins (B,): the row of the frame at which the forecast of each begins. Zero where there are no two rows a
        season apart, or no difference between them.
        """
        differences = np.zeros((2, len(series), len(self.data.targets)))
        for piece, first, _ in self._pieces:
            here = np.flatnonzero((series >= piece.start) & (series < piece.stop))
            if not here.size:
                continue
            if first != self._first or not self._sums.size:
                self._first, self._sums = first, self._summed(piece)
            absolute, squared, pairs = self._sums[:, origins[here] - 1 - first]
            differences[:, here] = np.stack([absolute, squared]) / np.maximum(1.0, pairs)
        return torch.from_numpy(differences[0]), torch.from_numpy(differences[1])

    def _summed(self, piece: slice) -> FloatArray:
        """The differences of some series, their squares and how many there are, summed up to each row (3, N, T)."""
        frame, columns = self.data.frame, list(self.data.targets)
        borders, std = frame.offsets[piece.start : piece.stop + 1], self.data.target_scale[1][piece]
        parts = []
        for first, stop, scale in zip(borders[:-1], borders[1:], std, strict=True):
            values = frame.values[first:stop, columns] / scale
            known = np.ones(values.shape) if frame.measured is None else frame.measured[first:stop, columns]
            size, counted = np.zeros_like(values), np.zeros_like(values)
            size[self.period :] = np.abs(values[self.period :] - values[: -self.period])
            size[size <= ROUNDING * np.abs(values).max(0, initial=0.0)] = 0.0
            counted[self.period :] = known[self.period :] * known[: -self.period]
            size = np.where(counted > 0, size, 0.0)
            parts.append(np.cumsum(np.stack([size, size**2, counted]), axis=1))
        return np.concatenate(parts, axis=1)
