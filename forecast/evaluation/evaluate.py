"""Evaluating a model and its baselines on every window of a split."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from forecast.bounds import Positive
from forecast.data.prepare import Prepared
from forecast.data.scaling import TOO_FAR, SeasonalDifferences
from forecast.data.values.cells import FloatArray, IntArray
from forecast.data.windows import Batch, Windows
from forecast.errors import UserError
from forecast.evaluation.baselines import make_baselines
from forecast.evaluation.conformal import calibrated_interval
from forecast.evaluation.metrics import BeforeEachWindow, ErrorSums, MaseScale, naive_errors, row_means
from forecast.evaluation.scored_intervals import Intervals, ScoredIntervals
from forecast.models.base import FittedModel, ForecastModel
from forecast.ops.autocast import float32_products
from forecast.text.terminal import Meter

log = logging.getLogger(__name__)

# Windows whose forecasts are kept for pictures: at least, at most, and how many numbers they may hold. An odd number of
# them, so that one lies midway.
EXAMPLE_WINDOWS, MOST_EXAMPLES, EXAMPLE_NUMBERS = 5, 25, 30_000
NAMED_SERIES = 5  # of the worst, and of the best
BETWEEN_SERIES = 15  # whose forecasts are kept beside theirs
MOST_ERRORS = 10_000_000  # windows times targets whose own errors are kept
MOST_SHARED = 100_000  # windows, the errors of baselines in which other trainings share
MODEL = "model"
FAR = 1e6  # standard deviations from the train rows: a history that holds more is no test of a training
# A model is called on so many windows, whatever data.batch_size is: matrix products of other shapes round differently,
# and the same checkpoint must give the same figures to the last digit.
CHUNK = 32
CHUNK_ON_GPU = 128  # there fewer windows take as long
# One that is fitted at once is a product with few rows: for it the windows of so many columns. By the data alone, as
# baselines beside it must not change its figures.
CHUNK_COLUMNS = 1024


class Protocol:
    """Which windows of a split count.

    drop_last_of: None counts every window; 32 counts full batches of 32 only, as the authors do, which leaves out the
    latest windows of the split.
    horizon_offsets: steps between a window and its forecast. Beside the forecasts that begin right after their windows,
    which always count, the evaluated split is forecast once more for each offset.
    stride: k: every k-th of these counts in each series, from its first on; pred_len leaves none that overlap.
    mase_scale: by which seasonal differences MASE and RMSSE are scaled: of the train rows, of all rows before the
    split, or of all before each window. Raises UserError when an offset is named twice.
    """

    def __init__(
        self,
        *,
        drop_last_of: Positive | None = None,
        horizon_offsets: Sequence[Positive] = (),
        stride: Positive = 1,
        mase_scale: MaseScale = "train",
    ) -> None:
        twice = [offset for offset in horizon_offsets if horizon_offsets.count(offset) > 1]
        if twice:
            raise UserError(
                f"protocol.horizon_offsets={list(horizon_offsets)}: {twice[0]} is named twice; name each offset once"
            )
        self.drop_last_of = drop_last_of
        self.horizon_offsets = tuple(horizon_offsets)
        self.stride: int = stride
        self.mase_scale: MaseScale = mase_scale

    def counted(self, windows: Windows) -> IntArray:
        """The numbers (N,) of the windows that count, in order."""
        count = len(windows)
        numbers = np.arange(count if self.drop_last_of is None else count - count % self.drop_last_of)
        if self.stride > 1:
            first = np.repeat(windows.ends - windows.counts, windows.counts)[: len(numbers)]
            numbers = numbers[(numbers - first) % self.stride == 0]
        return numbers


@dataclass(frozen=True, kw_only=True)
class WindowPass:
    """The windows of a split that count (N,), in order, and who forecasts them. chunk: so many are forecast at once.

    The last digits of a forecast depend on chunk, and on which windows it lies among: all that forecast the same
    windows take whole chunks, counted from the first window.
    """

    data: Prepared
    forecasters: Mapping[str, nn.Module]
    look_backs: Mapping[str, int]
    windows: Windows
    numbers: IntArray
    chunk: int


def in_chunks(windows: Windows, numbers: IntArray, batch_size: int, chunk: int) -> Iterator[Batch]:
    """Windows by their numbers, `chunk` at a time; about `batch_size` are gathered at once."""
    gathered = max(1, round(batch_size / chunk)) * chunk
    for some in torch.split(torch.from_numpy(numbers).to(windows.home), gathered):
        if len(some):
            yield from windows.in_batches(some, chunk)


def window_pass(
    forecasters: Mapping[str, nn.Module],
    data: Prepared,
    *,
    split: str,
    protocol: Protocol,
    device: torch.device,
    offset: int = 0,
) -> WindowPass:
    """A pass of forecasters, in evaluation mode and on the device; the model is called MODEL.

    offset: rows between the past of a window and its targets. Raises UserError when no window counts.
    """
    data, model = data.on(device), forecasters[MODEL]
    windows = data.windows(split, look_back=longest_look_back(forecasters.values(), data), offset=offset)
    return WindowPass(
        data=data,
        forecasters=forecasters,
        look_backs={name: look_back_of(forecaster, data) for name, forecaster in forecasters.items()},
        windows=windows,
        numbers=counted_windows(windows, split, protocol),
        chunk=chunk_of(model, data, device),
    )


def chunk_of(model: nn.Module, data: Prepared, device: torch.device) -> int:
    """How many windows a model forecasts at once, on which its last digits depend."""
    chunk = chunk_on(device)
    return max(chunk, CHUNK_COLUMNS // data.n_columns) if isinstance(model, FittedModel) else chunk


def chunk_on(device: torch.device) -> int:
    """How many windows a model is called on, on a device."""
    return CHUNK_ON_GPU if device.type == "cuda" else CHUNK


def with_baselines(
    model: nn.Module, data: Prepared, fitted: Mapping[str, Tensor] | None, device: torch.device
) -> dict[str, nn.Module]:
    """A model and those that it is compared with. fitted: what `fit_baselines` gave; None leaves all of them out."""
    if fitted is None:
        return {MODEL: model}
    on_device = {name: weight.to(device) for name, weight in fitted.items()}
    return {MODEL: model, **make_baselines(data.on(device), fitted=on_device)}


class WindowErrors:
    """What a model's error is in each window that counts (N,), where these are few enough.

    series: their numbers. start: the row of the first past step in its series. squared, absolute (N, T): means over the
    measured steps, scaled units, NaN of none; measured (N, T): how many. Made once: small arrays made with each batch
    would lie between the large ones that come and go, and keep their memory from being used again.
    """

    def __init__(self, one_pass: WindowPass) -> None:
        numbers, windows, data = one_pass.numbers, one_pass.windows, one_pass.data
        self.series, origins = windows.places(numbers)
        self.start = origins - data.frame.offsets[self.series] - data.seq_len
        self.squared, self.absolute = (np.empty((len(numbers), len(data.targets))) for _ in range(2))
        self.measured = np.full(self.squared.shape, data.pred_len)

    def add(self, first: int, squared: FloatArray, absolute: FloatArray, measured: Tensor | None) -> None:
        """Of the windows of a batch, the first of which is number `first` of those that count."""
        now = slice(first, first + len(squared))
        self.squared[now], self.absolute[now] = squared, absolute
        if measured is not None:
            self.measured[now] = measured.sum(1).cpu().numpy()

    def arrays(self) -> dict[str, np.ndarray]:
        """The content of errors_by_window.npz."""
        return {
            "start": self.start,
            "series": self.series,
            "squared_scaled": self.squared,
            "absolute_scaled": self.absolute,
            "measured": self.measured,
        }


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The errors of a model and its baselines on the windows of one split.

    naive: by what MASE and RMSSE are scaled, unless each window is by its own. windows, squared: the errors of the
    model and the mean squared ones (N,) of each forecaster by window; None where there are too many. worst, best: of
    two series and more the numbers of those with the largest and the least MASE, NAMED_SERIES at most, the utmost
    first; by MSE where no series has a MASE. shown, origins (W,): the series of windows whose forecasts (W, P, T),
    scaled units, are kept, and the rows at which these begin: of one series evenly spaced, of several the last of the
    worst, of the best, and of BETWEEN_SERIES others at most. intervals: those of the model, where it has any.
    """

    errors: ErrorSums
    baselines: dict[str, ErrorSums]
    naive: SeasonalDifferences | None
    windows: WindowErrors | None
    squared: dict[str, FloatArray] | None
    worst: IntArray
    best: IntArray
    shown: IntArray
    origins: IntArray
    forecasts: dict[str, npt.NDArray[np.float32]]
    intervals: ScoredIntervals | None = None


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
    """The forecast (B, P, T) of a model that reads the last `rows` of the past, none below the floor."""
    return batch.bounded(model(batch.past[:, -rows:], batch.past_known[:, -rows:], batch.future_known))


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
    naive: SeasonalDifferences | None = None,
    known: dict[str, "Scored"] | None = None,
) -> Evaluation:
    """Runs a model and the baselines over the windows of a split, in order, in float32.

    The model must be in evaluation mode and on the device. fitted: the weights of the fitted baselines by
    their names; None leaves all baselines out. intervals: which of the model's are wanted. naive: by what MASE is
    scaled, where the data do not tell. known: the scores of baselines in such a pass before; an empty one is filled.
    Raises UserError when no window counts, no cell of them was measured, or a forecast is not finite.
    """
    one_pass = window_pass(
        with_baselines(model, data, fitted, device), data, split=split, protocol=protocol, device=device
    )
    data, windows, numbers = one_pass.data, one_pass.windows, one_pass.numbers
    count, n_targets, alone = len(numbers), len(data.targets), len(data.frame) == 1
    if isinstance(model, FittedModel) and model.fits_each_window:
        log.info("%d windows of %d targets: %d fits", count, n_targets, count * n_targets)
    examples = evenly_spaced(count, n_examples(data.pred_len * n_targets)) if alone else []
    scored_intervals = None
    if intervals is not None:
        scale = dict(zip(("mean", "std"), data.target_scale, strict=True))
        scored_intervals = ScoredIntervals(intervals, pred_len=data.pred_len, stride=protocol.stride, **scale)
    few = count * n_targets <= MOST_ERRORS
    by_window = WindowErrors(one_pass) if few else None
    each = BeforeEachWindow(data) if protocol.mase_scale == "window" else None
    called = {name: forecaster for name, forecaster in one_pass.forecasters.items() if name not in (known or {})}
    scored = score(
        replace(one_pass, forecasters=called),
        batch_size=batch_size,
        each=each,
        examples=examples,
        intervals=scored_intervals,
        by_window=by_window,
    )
    scored |= known or {}
    if known is not None and count <= MOST_SHARED:
        known |= {name: entry for name, entry in scored.items() if name != MODEL}
    errors = scored[MODEL].errors
    if not errors.evaluated().any():
        raise UserError(f"{data.frame.name}: no value of the split {split} was measured. Choose another data.split.")
    if each is not None:
        naive = None
    elif naive is None:
        naive = naive_errors(data, split, protocol.mase_scale)
    if alone:
        worst = best = np.zeros(0, dtype=np.int64)
        shown, forecasts = numbers[examples], {name: np.concatenate(entry.forecasts) for name, entry in scored.items()}
    else:
        worst, best, between = ranked(errors, naive)
        # the last windows that count: a protocol may leave the last of a split out
        places = np.searchsorted(numbers, windows.ends[np.concatenate([worst, best, between])])
        shown = numbers[places - 1]
        forecasts = shown_forecasts(one_pass, shown, scored_intervals)
    series, rows = windows.places(shown)
    return Evaluation(
        errors=errors,
        baselines={name: entry.errors for name, entry in scored.items() if name != MODEL},
        naive=naive,
        windows=by_window,
        squared={name: entry.squared for name, entry in scored.items()} if few else None,
        worst=worst,
        best=best,
        shown=series,
        origins=rows,
        forecasts=forecasts,
        intervals=scored_intervals,
    )


def ranked(errors: ErrorSums, naive: SeasonalDifferences | None) -> tuple[IntArray, IntArray, IntArray]:
    """The worst and the best series, the utmost first, and some between; none twice."""
    table = errors.table(naive)
    by = table["mase"] if np.isfinite(table["mase"]).any() else table["mse"]
    order = np.argsort(by, kind="stable")[: int(np.isfinite(by).sum())]  # NaN comes last
    worst = order[::-1][: min(NAMED_SERIES, -(-len(order) // 2))]
    best = order[: min(NAMED_SERIES, len(order) - len(worst))]
    others = order[len(best) : len(order) - len(worst)][::-1]
    return worst, best, others[evenly_spaced(len(others), BETWEEN_SERIES)]


@torch.inference_mode()
def shown_forecasts(
    one_pass: WindowPass, numbers: IntArray, intervals: ScoredIntervals | None
) -> dict[str, npt.NDArray[np.float32]]:
    """What each forecasts of some windows (W, P, T), scaled units; the model's intervals are kept as they stand."""
    look_backs = one_pass.look_backs
    with exact_float32():
        batch = one_pass.windows.__getitems__(numbers)
        if intervals is not None:
            intervals.last = calibrated_interval(
                intervals.calibration, one_pass.forecasters[MODEL], batch, look_backs[MODEL]
            )[1:]
            intervals.keep(list(range(len(numbers))))
        return {
            name: forecast_of(forecaster, batch, look_backs[name]).cpu().numpy()
            for name, forecaster in one_pass.forecasters.items()
        }


@dataclass(frozen=True, eq=False)
class Scored:
    """What a forecaster's errors are. squared (N,): in each window; empty where they are not asked for.

    forecasts: of the examples alone.
    """

    errors: ErrorSums
    squared: FloatArray
    forecasts: list[npt.NDArray[np.float32]]


@torch.inference_mode()
def score(
    one_pass: WindowPass,
    *,
    batch_size: int,
    each: BeforeEachWindow | None = None,
    examples: Sequence[int] = (),
    intervals: ScoredIntervals | None = None,
    by_window: WindowErrors | None = None,
) -> dict[str, Scored]:
    """Forecasts all windows of a pass, in order, in float32, and says how far it is.

    each: by what the errors of a window are scaled, where each has a scale of its own. examples: the windows, by their
    places, whose forecasts are kept. intervals, by_window: of the model, to which its windows are added.
    """
    data, forecasters, look_backs = one_pass.data, one_pass.forecasters, one_pass.look_backs
    count = len(one_pass.numbers) if by_window is not None else 0
    scored = {name: Scored(ErrorSums(data.pred_len, *data.target_scale), np.empty(count), []) for name in forecasters}
    done, meter = 0, Meter(len(one_pass.numbers), "windows evaluated")
    with exact_float32():
        for batch in in_chunks(one_pass.windows, one_pass.numbers, batch_size, one_pass.chunk):
            now = slice(done, done + len(batch.target))
            rows = [i - done for i in examples if now.start <= i < now.stop]
            scale = None
            if each is not None:
                scale = each.at(*one_pass.windows.places(one_pass.numbers[now]))
            for name, forecaster in forecasters.items():
                own = scored[name]
                if name == MODEL and intervals is not None:
                    forecast = intervals.add(forecaster, batch, look_backs[name], scale=scale)
                    if rows:
                        intervals.keep(rows)
                else:
                    forecast = forecast_of(forecaster, batch, look_backs[name])
                check_finite(forecast, batch.past)
                of_windows = own.errors.update(forecast, batch.target, batch.measured, batch.series, scale)
                squared, absolute = (part.cpu().numpy() for part in of_windows)
                if by_window is not None:
                    own.squared[now] = row_means(squared)
                if rows:
                    own.forecasts.append(forecast[rows].cpu().numpy())
                if name == MODEL and by_window is not None:
                    by_window.add(done, squared, absolute, batch.measured)
            done = now.stop
            meter.show(done)
    meter.end()
    return scored


def counted_windows(windows: Windows, split: str, protocol: Protocol) -> IntArray:
    """The numbers (N,) of the windows that the protocol counts. Raises UserError when it counts none."""
    numbers = protocol.counted(windows)
    if not len(numbers):
        raise UserError(
            f"the split {split} has {len(windows)} windows, of which the protocol counts none: use all_windows"
        )
    return numbers


@contextmanager
def exact_float32() -> Iterator[None]:
    """float32 as it stands: no TF32, and kernels chosen by rule, whatever a training before has set.

    With TF32 a GPU rounds the inputs of products to 10 bits, and cuDNN's benchmark may choose another kernel each time.
    """
    flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
    with float32_products("highest"), flags:
        yield


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
