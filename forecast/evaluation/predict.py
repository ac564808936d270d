"""The steps after the end of every series of a panel, in batches of one size, with the ends of intervals as columns."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.bounds import CalendarEncoding
from forecast.data.panel import PanelFrame
from forecast.data.prepare import frame_calendar
from forecast.data.scaling import Scales
from forecast.data.split import WindowOrigins
from forecast.data.values.cells import Flags, FloatArray, IntArray
from forecast.data.windows import Batch, Windows
from forecast.data.writing import MOST_DIGITS, SeriesForecasts
from forecast.errors import UserError
from forecast.evaluation.conformal import calibrated_interval
from forecast.evaluation.evaluate import check_finite, exact_float32, forecast_of, in_chunks
from forecast.evaluation.history import is_far
from forecast.evaluation.scored_intervals import Intervals, name_of
from forecast.models.base import FittedModel, ForecastModel

# Windows of one call of the model: the last digits of a product depend on its size, and no forecast may depend on how
# many series are beside it.
BATCH = 64
_GATHERED = 32  # batches whose windows are gathered at once, fewer where they take more than
GATHERED_BYTES = 1 << 24
FEW_ROWS = 1000  # of a forecast that is kept once it is made
V = TypeVar("V")


@dataclass(frozen=True, kw_only=True, eq=False)
class Continuation:
    """A model, in evaluation mode and on the device, and the panel whose series it continues.

    scales: of some of the series alone, from their frame. targets: the numbers of the T target columns. pad: whether
    a look-back may begin before its series, whose first row is then repeated, and the model is told so. future
    (S, P, K): what is known of the steps to come, the last K columns of the frame, in original units. facts (S, G): of
    the series, scaled. intervals: which ends are further columns of the forecasts, after the targets.
    """

    model: ForecastModel
    frame: PanelFrame
    scales: Callable[[PanelFrame], Scales]
    targets: tuple[int, ...]
    seq_len: int
    pred_len: int
    encoding: CalendarEncoding
    device: torch.device
    pad: bool = False
    future: FloatArray | None = None
    facts: Tensor | None = None
    intervals: Intervals | None = None

    @property
    def needed(self) -> int:
        """The rows that a series must have."""
        return 1 if self.pad else min(self.seq_len, self.model.look_back)

    @property
    def batch(self) -> int:
        """The windows of one call of the model.

        A file without ids holds one series, whatever file that is: nothing is ever beside it, and it is forecast alone.
        """
        return 1 if self.frame.id_column is None else BATCH

    @property
    def levels(self) -> tuple[float, ...]:
        """Of the intervals, in per cent."""
        return () if self.intervals is None else self.intervals.wanted_levels

    @cached_property
    def series(self) -> IntArray:
        """The series (M,) that are forecast, in the order of the panel: those that are long enough."""
        return np.flatnonzero(self.frame.lengths >= self.needed)

    @cached_property
    def calendar(self) -> Tensor:
        """The known features (steps, F) of all steps, those of the longest forecast among them."""
        return frame_calendar(self.frame, self.encoding, more=self.pred_len)

    @property
    def n_columns(self) -> int:
        """C."""
        return len(self.frame.columns) - (0 if self.future is None else self.future.shape[2])

    @cached_property
    def scale(self) -> Scales:
        """That of all series."""
        return self.scales(self.frame)

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor]:
        """Mean and std (S, C) of `scale`, whose memory they share."""
        return torch.from_numpy(self.scale.mean), torch.from_numpy(self.scale.std)

    @cached_property
    def _windows(self) -> Windows:
        """A window a series, without rows to come: none of another series is read in their place."""
        counts = np.zeros(len(self.frame), dtype=np.int64)
        counts[self.series] = 1
        return Windows(
            self.frame,
            WindowOrigins(self.frame.offsets[1:], counts, np.cumsum(counts)),
            scaler=self.scale,
            calendar=self.calendar,
            targets=self.targets,
            n_columns=self.n_columns,
            seq_len=self.seq_len,
            pred_len=0,
            look_back=max(self.seq_len, self.model.look_back),
            padded=self.pad,
            facts=self.facts,
        )

    def blocks(self, first: int, stop: int) -> Iterator[SeriesForecasts]:
        """The forecasts of `series[first:stop]`, some at a time; `first` is a multiple of BATCH.

        All of them are made once where they are of FEW_ROWS at most. UserError, naming the series, where one is not
        finite.
        """
        few = (first, stop) == (0, len(self.series)) and stop * self.pred_len <= FEW_ROWS
        return iter(self._few) if few else self._blocks(first, stop)

    @cached_property
    def _few(self) -> list[SeriesForecasts]:
        return list(self._blocks(0, len(self.series)))

    def _blocks(self, first: int, stop: int) -> Iterator[SeriesForecasts]:
        """As `blocks`; the last batch is filled up with its last window."""
        assert first % BATCH == 0 or first >= stop
        alone = isinstance(self.model, FittedModel) and self.model.fits_each_window  # whatever is beside it
        rows = self._windows.look_back + self.pred_len  # of a window, and of what is known and forecast after it
        size = BATCH * rows * self._windows.window_bytes // self._windows.look_back
        together = BATCH * max(1, min(_GATHERED, GATHERED_BYTES // size))
        for start in range(first, stop, together):
            end = min(stop, start + together)
            whole = end if alone else start + -(-(end - start) // self.batch) * self.batch
            yield self._ends(torch.arange(start, whole).clamp_(max=end - 1), end - start)

    def some(self, places: Sequence[int]) -> SeriesForecasts:
        """The forecasts of some of `series`, by their places there; with other last digits than in `blocks`."""
        return self._ends(torch.tensor(places), len(places))

    @torch.inference_mode()
    def _ends(self, places: Tensor, count: int) -> SeriesForecasts:
        """The forecasts of the first `count` of these places in `series`."""
        model, read, forecasts, far = self.model, slice(-self.model.look_back, None), [], []
        with exact_float32():
            for batch in in_chunks(self._windows, places.numpy(), len(places), self.batch):
                assert batch.series is not None
                far.append(self._far(batch))
                ahead = {"past_known": batch.past_known[:, read], "future_known": self._future(batch.series)}
                inputs = batch._replace(past=batch.past[:, read], **ahead)
                forecast = with_ends(model, inputs.to(self.device), self.intervals).cpu()
                finite = torch.isfinite(forecast).flatten(1).all(1)
                if not finite.all():
                    row = int((~finite).int().argmax())
                    try:
                        check_finite(forecast[row], inputs.past[row])
                    except UserError as error:
                        raise UserError(f"{self.frame.named(int(batch.series[row]))}: {error}") from error
                forecasts.append(forecast)
        series = self.series[places[:count].numpy()]
        original = self._original(torch.cat(forecasts)[:count].double().numpy(), series)
        return SeriesForecasts(series, original, series[np.concatenate(far)[:count]].tolist())

    def _future(self, series: Tensor) -> Tensor:
        """The known features (B, P, F) of the steps after series (B,)."""
        end = torch.from_numpy(self.frame.steps[series.numpy()] + self.frame.lengths[series.numpy()])
        after = self.calendar[end[:, None] + torch.arange(self.pred_len)]
        parts = [after, after.new_zeros(len(series), self.pred_len, int(self.pad))]
        if self.future is not None:
            mean, std = (part[series][:, None, self.n_columns :] for part in self._tensors)
            parts.append(((torch.from_numpy(self.future[series.numpy()]) - mean) / std).float())
        if self.facts is not None:
            parts.append(self.facts[series][:, None].expand(-1, self.pred_len, -1))
        return torch.cat(parts, dim=2)

    def _far(self, batch: Batch) -> Flags:
        """Which series (B,) are, by the past of their window, of another size than in training."""
        assert batch.series is not None
        series, ahead = batch.series.numpy(), self.calendar.shape[1] + self.pad
        covariates = batch.past_known[..., ahead : ahead + len(self.frame.columns) - self.n_columns]
        past = torch.cat([batch.past, covariates], dim=2)
        if self.scale.how != "series":
            return np.zeros(len(series), dtype=np.bool_)
        mean, std = (part[series] for part in self._tensors)
        return is_far(past, mean / std).numpy()

    def _original(self, scaled: FloatArray, series: IntArray) -> FloatArray:
        """Values (B, P, N) in original units, with as many digits as float32 has of standard deviations."""
        columns = of_each(self.targets, self.levels)
        mean, std = (part[series][:, columns][:, None] for part in (self.scale.mean, self.scale.std))
        digits = MOST_DIGITS - np.ceil(np.log10(std))
        up, down = 10.0 ** np.maximum(0, digits), 10.0 ** np.maximum(0, -digits)  # whole: their product is exact
        rounded: FloatArray = np.rint((scaled * std + mean) * up / down) * down / up
        floor = self.scale.floor  # the last digit of float32 may be below it
        rounded = rounded if floor is None else np.maximum(rounded, floor[columns])
        return rounded + 0.0  # no -0.0

    def past(self, series: int) -> FloatArray:
        """The last rows of a series (L, T), at most seq_len, in original units."""
        rows = self.frame.rows(series)[-self.seq_len :]
        return rows[:, list(self.targets)].astype(np.float64)


def column_names(targets: Sequence[str], levels: Sequence[float]) -> list[str]:
    """The targets, then of each at each level TARGET-lo-LEVEL and TARGET-hi-LEVEL, as Nixtla's libraries call them.

    UserError where a target is called so itself.
    """
    ends = [f"{name}-{end}-{name_of(level)}" for name in targets for level in levels for end in ("lo", "hi")]
    if taken := next((name for name in ends if name in targets), None):
        raise UserError(f"level={list(levels)}: a target is called '{taken}' itself. Rename it in the file.")
    return [*targets, *ends]


def of_each(values: Sequence[V], levels: Sequence[float]) -> list[V]:
    """What belongs to each target (T), for each of its columns in the order of `column_names`."""
    return [*values, *(value for value in values for _ in range(2 * len(levels)))]


def split_ends(
    values: npt.NDArray[np.float64], n_targets: int, levels: Sequence[float]
) -> list[tuple[float, npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """Of values (W, P, N) in the order of `column_names`: each level with its ends (W, P, T), the widest first."""
    ends = values[..., n_targets:].reshape(*values.shape[:-1], n_targets, len(levels), 2)
    return [(level, ends[..., i, 0], ends[..., i, 1]) for i, level in enumerate(levels)][::-1]


def with_ends(model: nn.Module, batch: Batch, intervals: Intervals | None) -> Float[Tensor, "B P N"]:
    """The forecast (B, P, T), scaled, and the calibrated ends of its intervals, in the order of `column_names`."""
    rows = batch.past.shape[1]
    if intervals is None:
        return forecast_of(model, batch, rows)
    calibration = intervals.calibration
    point, *ends = calibrated_interval(calibration, model, batch, rows)
    places = [calibration.levels.index(level) for level in intervals.wanted_levels]
    return torch.cat([point, torch.stack([part[..., places] for part in ends], dim=-1).flatten(2)], dim=2)
