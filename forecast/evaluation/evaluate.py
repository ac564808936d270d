"""Evaluating a model and its baselines on every window of a split."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from forecast.bounds import Positive
from forecast.data.prepare import Prepared
from forecast.data.scaling import TOO_FAR
from forecast.data.windows import Batch, Windows
from forecast.errors import UserError
from forecast.evaluation.baselines import make_baselines, season
from forecast.evaluation.metrics import ErrorSums, row_means
from forecast.evaluation.naive_errors import OwnScale, errors_before, scaled_by
from forecast.evaluation.residuals import Residuals
from forecast.evaluation.scored_intervals import Intervals, ScoredIntervals
from forecast.models.base import FittedModel, ForecastModel

log = logging.getLogger(__name__)

# Windows whose forecasts are kept for pictures: at least, at most, and how many numbers they may hold. An odd number of
# them, so that one lies midway.
EXAMPLE_WINDOWS, MOST_EXAMPLES, EXAMPLE_NUMBERS = 5, 25, 30_000
MODEL = "model"
FAR = 1e6  # standard deviations from the train rows: a history that holds more is no test of a training
# A model is called on so many windows, whatever data.batch_size is: matrix products of other shapes round differently,
# and the same checkpoint must give the same figures to the last digit.
CHUNK = 32
# One that is fitted at once is a product with few rows: for it the windows of so many columns. By the data alone, as
# baselines beside it must not change its figures.
CHUNK_COLUMNS = 1024


class Protocol:
    """Which windows of a split count.

    drop_last_of: None counts every window; 32 counts full batches of 32 only, as the authors do, which leaves out the
    latest windows of the split.
    horizon_offsets: steps between a window and its forecast. Beside the forecasts that begin right after their windows,
    which always count, the evaluated split is forecast once more for each offset; see `offset_metrics`.
    stride: of these every so-manieth, from the first on; pred_len leaves none that overlap. mase_scale: MASE and RMSSE
    are scaled by the seasonal differences of the train rows, or for each window of all rows before its forecast.
    Raises UserError when an offset is named twice.
    """

    def __init__(
        self,
        *,
        drop_last_of: Positive | None = None,
        horizon_offsets: Sequence[Positive] = (),
        stride: Positive = 1,
        mase_scale: Literal["train", "before"] = "train",
    ) -> None:
        twice = [offset for offset in horizon_offsets if horizon_offsets.count(offset) > 1]
        if twice:
            raise UserError(
                f"protocol.horizon_offsets={list(horizon_offsets)}: {twice[0]} is named twice; name each offset once"
            )
        self.drop_last_of = drop_last_of
        self.horizon_offsets = tuple(horizon_offsets)
        self.stride, self.mase_scale = stride, mase_scale

    def count(self, windows: int) -> int:
        """How many of a split's windows count: the first, and every `stride`-th after it."""
        whole = windows if self.drop_last_of is None else windows - windows % self.drop_last_of
        return -(-whole // self.stride)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The errors of a model and its baselines on the windows of one split.

    starts (N,): the row of each window's first past step. squared, absolute (N, T): each window's error by column,
    mean over steps, scaled units. examples (W,): the windows whose forecasts (W, P, T), scaled units, are kept.
    own_scale: where each window has a scale of its own, MASE and RMSSE (T,) of each forecaster, and differences (N, T),
    the mean absolute seasonal ones before each window, scaled units. intervals: those of the model, where it has any.
    residuals: its mean error in each window. baseline_squared: of each baseline each window's squared error (N,).
    """

    errors: ErrorSums
    baselines: dict[str, ErrorSums]
    starts: np.ndarray
    squared: np.ndarray
    absolute: np.ndarray
    examples: np.ndarray
    forecasts: dict[str, np.ndarray]
    residuals: Residuals
    baseline_squared: dict[str, np.ndarray]
    own_scale: dict[str, OwnScale] | None = None
    differences: np.ndarray | None = None
    intervals: ScoredIntervals | None = None


def batches(
    windows: Windows, batch_size: int, *, count: int, device: torch.device, chunk: int = CHUNK, stride: int = 1
) -> Iterator[Batch]:
    """`count` windows in order on the device, every `stride`-th, `chunk` at a time; about `batch_size` at once."""
    gathered = max(1, round(batch_size / chunk)) * chunk
    for numbers in torch.split(torch.arange(count, device=windows.home) * stride, gathered):
        for batch in windows.in_batches(numbers, chunk):
            yield batch.to(device)


def evenly_spaced(count: int, most: int) -> list[int]:
    """At most `most` numbers spread evenly over range(count), both ends included."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(most, count))})


def n_examples(numbers: int) -> int:
    """Of how many windows the forecasts are kept, each of so many numbers."""
    most = min(MOST_EXAMPLES, EXAMPLE_NUMBERS // numbers)
    return max(EXAMPLE_WINDOWS, most - 1 + most % 2)


def look_back_of(model: nn.Module, data: Prepared) -> int:
    """Rows of the past that a model is called with."""
    return model.look_back if isinstance(model, ForecastModel) else data.seq_len


def forecast_of(model: nn.Module, batch: Batch, rows: int) -> Tensor:
    """The forecast (B, P, T) of a model that reads the last `rows` of the past."""
    forecast: Tensor = model(batch.past[:, -rows:], batch.past_known[:, -rows:], batch.future_known)
    return forecast


def longest_look_back(forecasters: Iterable[nn.Module], data: Prepared) -> int:
    """Rows of the past that all of these can be called with."""
    return max(data.seq_len, *(look_back_of(model, data) for model in forecasters))


def evaluate(
    model: nn.Module,
    data: Prepared,
    *,
    split: str,
    protocol: Protocol,
    fitted: Mapping[str, Tensor] | None,
    batch_size: int,
    device: torch.device,
    intervals: Intervals | None = None,
) -> Evaluation:
    """Runs a model and the baselines over the windows of a split, in order, in float32.

    The model must be in evaluation mode and on the device. fitted: what `fit_baselines` gave; None leaves all baselines
    out. intervals: which of the model's are wanted. Raises UserError when no window counts, or a forecast is not
    finite.
    """
    data = data.on(device)
    count = counted_windows(data, split, protocol)
    examples = evenly_spaced(count, n_examples(data.pred_len * len(data.targets)))
    forecasters = {MODEL: model}
    if fitted is not None:
        forecasters |= make_baselines(data, fitted={name: weight.to(device) for name, weight in fitted.items()})
    windows = data.windows(split, look_back=longest_look_back(forecasters.values(), data))
    if isinstance(model, FittedModel) and model.fits_each_window:
        log.info("%d windows of %d targets: %d fits", count, len(data.targets), count * len(data.targets))
    chunk = max(CHUNK, CHUNK_COLUMNS // data.n_columns) if isinstance(model, FittedModel) else CHUNK
    every = batches(windows, batch_size, count=count, device=device, chunk=chunk, stride=protocol.stride)
    before_each = protocol.mase_scale == "before"
    scored_intervals = None
    if intervals is not None:
        groups = count if before_each else 1
        scale = dict(zip(("mean", "std"), data.target_scale, strict=True))
        of_groups = {key: np.repeat(one, groups, axis=0) for key, one in scale.items()}
        scored_intervals = ScoredIntervals(intervals, pred_len=data.pred_len, stride=protocol.stride, **of_groups)
    residuals = Residuals(count, len(data.targets))
    scored = score(
        forecasters,
        data,
        every,
        count=count,
        examples=examples,
        intervals=scored_intervals,
        residuals=residuals,
        grouped=before_each,
    )
    starts = windows.rows[:: protocol.stride][:count] - data.seq_len
    own_scale, differences = None, None
    if before_each:
        before = errors_before(data, starts + data.seq_len, season(data) or 1)
        differences = before[0]
        own_scale = {name: scaled_by(before, scores.squared, scores.absolute) for name, scores in scored.items()}
    return Evaluation(
        errors=scored[MODEL].errors,
        baselines={name: scores.errors for name, scores in scored.items() if name != MODEL},
        starts=starts,
        own_scale=own_scale,
        differences=differences,
        intervals=scored_intervals,
        residuals=residuals,
        squared=scored[MODEL].squared,
        absolute=scored[MODEL].absolute,
        baseline_squared={name: row_means(scores.squared) for name, scores in scored.items() if name != MODEL},
        examples=np.array(examples),
        forecasts={name: np.concatenate(scores.forecasts) for name, scores in scored.items()},
    )


class ScoredForecaster:
    """A forecaster and its errors on the first windows of `count`.

    Their arrays are made once: small ones made with each batch would lie between the large ones that come and go, and
    keep their memory from being used again.
    """

    def __init__(self, forecaster: nn.Module, data: Prepared, count: int) -> None:
        self.forecaster, self.look_back = forecaster, look_back_of(forecaster, data)
        self.errors = ErrorSums(data.pred_len, *data.target_scale)
        self.squared, self.absolute = np.empty((count, len(data.targets))), np.empty((count, len(data.targets)))
        self.forecasts: list[np.ndarray] = []  # of the examples alone

    def add(self, batch: Batch, *, examples: list[int], intervals: ScoredIntervals | None, grouped: bool) -> Tensor:
        """Forecasts a batch, and returns the forecast (B, P, T).

        examples: which of its windows to keep. intervals: that are scored with it.

        grouped: whether each window is a group of these.
        """
        if intervals is None:
            forecast = forecast_of(self.forecaster, batch, self.look_back)
        else:
            groups = torch.arange(len(batch.target)) + self.errors.n_windows if grouped else None
            forecast = intervals.add(self.forecaster, batch, self.look_back, groups=groups)
            if examples:
                intervals.keep(examples)
        check_finite(forecast, batch.past)
        done = self.errors.n_windows
        now = slice(done, done + len(forecast))
        self.squared[now], self.absolute[now] = self.errors.update(forecast, batch.target, batch.measured, batch.series)
        if examples:
            self.forecasts.append(forecast[examples].cpu().numpy())
        return forecast


@torch.inference_mode()
def score(
    forecasters: Mapping[str, nn.Module],
    data: Prepared,
    windows: Iterator[Batch],
    *,
    count: int,
    examples: Sequence[int] = (),
    intervals: ScoredIntervals | None = None,
    residuals: Residuals | None = None,
    grouped: bool = False,
) -> dict[str, ScoredForecaster]:
    """Forecasts all batches, `count` windows in order, in float32. examples: the windows whose forecasts are kept.

    intervals, residuals: of the model, to which its windows are added. grouped: see `ScoredForecaster.add`.
    """
    scored = {name: ScoredForecaster(forecaster, data, count) for name, forecaster in forecasters.items()}
    done = 0
    with exact_float32():
        for batch in windows:
            rows = [i - done for i in examples if done <= i < done + len(batch.target)]
            for name, scores in scored.items():
                of_model = intervals if name == MODEL else None
                forecast = scores.add(batch, examples=rows, intervals=of_model, grouped=grouped)
                if residuals is not None and name == MODEL:
                    residuals.add(forecast, batch)
            done += len(batch.target)
    return scored


def counted_windows(data: Prepared, split: str, protocol: Protocol) -> int:
    """How many windows of a split the protocol counts. Raises UserError when it counts none."""
    windows = len(data.windows(split))
    count = protocol.count(windows)
    if not count:
        raise UserError(f"the split {split} has {windows} windows, of which the protocol counts none: use all_windows")
    return count


@contextmanager
def exact_float32() -> Iterator[None]:
    """float32 as it stands: no TF32, and kernels chosen by rule, whatever a training before has set.

    With TF32 a GPU rounds the inputs of products to 10 bits, and cuDNN's benchmark may choose another kernel each time.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def check_finite(forecast: Tensor, past: Tensor) -> None:
    """Raises UserError when a forecast (B, P, T) of a past (B, L, C), scaled, holds NaN or inf."""
    if torch.isfinite(forecast).all():
        return
    farthest = float(past.abs().max())
    if farthest > FAR:
        raise UserError(
            f"the forecasts are not finite numbers: the history holds a value {farthest:.3g} standard deviations from "
            f"the mean of the train rows; forecast check-data FILE names its line. {TOO_FAR}"
        )
    raise UserError(
        "the forecasts are not finite numbers: the training has diverged. Train again with a lower optim.lr or with "
        "trainer.gradient_clip_val=1.0"
    )
