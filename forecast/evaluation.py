"""Evaluating a model and its baselines on every window of a split."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from forecast.data.prepare import PreparedData
from forecast.data.seasonality import seasonal_period
from forecast.data.windows import Batch, WindowDataset
from forecast.errors import UserError
from forecast.metrics import ErrorSums
from forecast.models.baselines import Baseline, ClosedFormNLinear, LastValue, SeasonalNaive, fit_nlinear

# Windows whose forecasts are kept for pictures.
SHOWN_WINDOWS = 5
MODEL = "model"


class Protocol:
    """Which windows of a split count.

    drop_last_of: None counts every window; 32 counts full batches of 32 only, as the authors do, which leaves out the
    latest windows of the split.
    """

    def __init__(self, *, drop_last_of: int | None = None) -> None:
        self.drop_last_of = drop_last_of

    def count(self, windows: int) -> int:
        """How many of a split's first windows count."""
        return windows if self.drop_last_of is None else windows - windows % self.drop_last_of


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The errors of a model and its baselines on the windows of one split.

    starts (N,): the row of each window's first past step. squared, absolute (N, T): each window's error by column,
    mean over steps, scaled units. shown (W,): the windows whose forecasts (W, P, T), scaled units, are kept.
    """

    errors: ErrorSums
    baselines: dict[str, ErrorSums]
    starts: np.ndarray
    squared: np.ndarray
    absolute: np.ndarray
    shown: np.ndarray
    forecasts: dict[str, np.ndarray]


def batches(windows: WindowDataset, batch_size: int, *, count: int, device: torch.device) -> Iterator[Batch]:
    """The first `count` windows in order, on a device."""
    for start in range(0, count, batch_size):
        batch = windows.__getitems__(range(start, min(start + batch_size, count)))
        yield Batch(*(part.to(device) for part in batch))


def spread(count: int, wanted: int) -> list[int]:
    """At most `wanted` numbers spread evenly over range(count), both ends included."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(wanted, count))})


def make_baselines(data: PreparedData, nlinear_weight: Tensor) -> dict[str, Baseline]:
    """The baselines on a data set. A season longer than the window, or unknown, makes the seasonal one a last value."""
    targets, pred_len = data.targets, data.pred_len
    period = usable_period(data)
    return {
        "last_value": LastValue(targets, pred_len),
        "seasonal_naive": SeasonalNaive(targets, pred_len, period=period or 1),
        "closed_form_nlinear": ClosedFormNLinear(targets, pred_len, weight=nlinear_weight),
    }


def usable_period(data: PreparedData) -> int | None:
    """The season of the data in steps, None when it is unknown or longer than seq_len."""
    period = seasonal_period(data.frame.freq)
    return period if period is not None and period <= data.seq_len else None


def fit_baselines(data: PreparedData) -> Tensor:
    """The weight (P, L) of the closed-form NLinear, fitted on the train windows."""
    targets, windows = list(data.targets), data.windows("train")
    every = batches(windows, 256, count=len(windows), device=torch.device("cpu"))
    return fit_nlinear((batch.past[:, :, targets], batch.target) for batch in every)


@torch.inference_mode()
def evaluate(
    model: nn.Module,
    data: PreparedData,
    *,
    split: str,
    protocol: Protocol,
    nlinear_weight: Tensor,
    batch_size: int,
    device: torch.device,
) -> Evaluation:
    """Runs a model and the baselines over the windows of a split, in order, in float32.

    The model must be in evaluation mode and on the device. Raises UserError when no window counts, or a forecast is
    not finite.
    """
    windows = data.windows(split)
    count = protocol.count(len(windows))
    if not count:
        raise UserError(f"split={split} has {len(windows)} windows, of which the protocol counts none.")
    forecasters: dict[str, nn.Module] = {MODEL: model, **make_baselines(data, nlinear_weight)}
    sums = {name: ErrorSums(data.pred_len, len(data.targets)) for name in forecasters}
    shown = spread(count, SHOWN_WINDOWS)
    kept: dict[str, list[np.ndarray]] = {name: [] for name in forecasters}
    per_window = []
    done = 0
    for batch in batches(windows, batch_size, count=count, device=device):
        rows = [i - done for i in shown if done <= i < done + len(batch.target)]
        for name, forecaster in forecasters.items():
            forecast = forecaster(batch.past, batch.past_known, batch.future_known)
            check_finite(forecast, windows.start_row(done))
            errors = sums[name].update(forecast, batch.target)
            kept[name].append(forecast[rows].cpu().numpy())
            if name == MODEL:
                per_window.append(errors)
        done += len(batch.target)
    return Evaluation(
        errors=sums.pop(MODEL),
        baselines=sums,
        starts=np.array([windows.start_row(i) for i in range(count)]),
        squared=np.concatenate([squared for squared, _ in per_window]),
        absolute=np.concatenate([absolute for _, absolute in per_window]),
        shown=np.array(shown),
        forecasts={name: np.concatenate(parts) for name, parts in kept.items()},
    )


def check_finite(forecast: Tensor, row: int) -> None:
    """Raises UserError when a forecast holds NaN or inf. row: the first past row of its first window."""
    if not torch.isfinite(forecast).all():
        raise UserError(
            f"the model's forecasts are not finite in the windows from row {row} on; the training has diverged "
            "(lower optim.lr, or set trainer.gradient_clip_val=1.0)"
        )


def split_metrics(evaluation: Evaluation, data: PreparedData) -> dict[str, Any]:
    """The block of metrics.json for the evaluated split."""
    overall = evaluation.errors.overall(data.target_std)
    reference = evaluation.baselines["seasonal_naive"].overall(data.target_std)["scaled"]["mse"]
    return {
        "windows": evaluation.errors.windows,
        **overall,
        "skill": 1.0 - overall["scaled"]["mse"] / reference if reference else None,
        "flat": evaluation.errors.flat(data.target_names),
    }


def baseline_metrics(evaluation: Evaluation, data: PreparedData) -> dict[str, Any]:
    """The block `baselines` of metrics.json."""
    blocks: dict[str, Any] = {name: sums.overall(data.target_std) for name, sums in evaluation.baselines.items()}
    blocks["seasonal_naive"] = {"period": usable_period(data), **blocks["seasonal_naive"]}
    return blocks
