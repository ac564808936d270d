"""A model's intervals beside the truth, window after window."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.data.windows import Batch
from forecast.evaluation.adaptive import WidthTracker
from forecast.evaluation.conformal import Calibration, outside_of, own_interval
from forecast.evaluation.interval_errors import ExampleIntervals, IntervalErrors


@dataclass(frozen=True, kw_only=True, eq=False)
class Intervals:
    """Which intervals are wanted. wanted_levels (A,): levels in per cent, of those of the calibration.

    adaptive: whether they follow a drift, wider after misses and narrower after hits.
    """

    calibration: Calibration
    wanted_levels: tuple[float, ...]
    adaptive: bool = False


class ScoredIntervals:
    """The intervals of a model on windows in the order of time, summed; of a panel one series after another.

    mean, std (S, T): of the series. stride: rows from a window to the next one.
    """

    def __init__(
        self,
        intervals: Intervals,
        *,
        pred_len: int,
        mean: npt.NDArray[np.float64],
        std: npt.NDArray[np.float64],
        stride: int = 1,
    ) -> None:
        self.calibration = intervals.calibration
        self.levels = self.calibration.levels
        self.errors = IntervalErrors(self.levels, intervals.wanted_levels, pred_len, mean=mean, std=std)
        self.tracker: WidthTracker | None = None
        if intervals.adaptive:
            self.tracker = WidthTracker(self.levels, pred_len=pred_len, n_targets=mean.shape[1], stride=stride)
        self._series = -1  # of the window before
        self._kept: list[tuple[Tensor, Tensor]] = []

    def add(
        self, model: nn.Module, batch: Batch, rows: int, *, scale: tuple[Tensor, Tensor] | None = None
    ) -> Float[Tensor, "B P T"]:
        """Forecasts a batch and adds what became of its intervals; returns the point forecasts.

        rows: of the past that the model reads. scale: the mean absolute and squared seasonal
        differences (B, T) of each window, scaled units, where its scores are over the first of them.
        """
        point, lower, upper = self.of(model, batch, rows)
        if self.tracker is not None:
            lower, upper = self._tracked(self.tracker, batch, point, lower, upper)
        self.last = lower, upper
        by = None if scale is None else scale[0]
        self.errors.update(point, lower, upper, batch.target, series=batch.series, measured=batch.measured, scale=by)
        return point

    def of(
        self, model: nn.Module, batch: Batch, rows: int
    ) -> tuple[Float[Tensor, "B P T"], Float[Tensor, "B P T K"], Float[Tensor, "B P T K"]]:
        """The point forecasts and the calibrated intervals of a batch, not adapted to anything."""
        point, lower, upper = own_interval(model, batch, rows, self.levels)
        return point, *self.calibration.widened(batch.past[:, -rows:], point, lower, upper)

    def keep(self, windows: list[int]) -> None:
        """Keeps the intervals of some windows of the last batch for pictures."""
        columns = [self.levels.index(level) for level in self.errors.wanted_levels]
        self._kept.append(tuple(part[windows][..., columns].float().cpu() for part in self.last))  # type: ignore[arg-type]

    def examples(self) -> ExampleIntervals:
        """Those that were kept."""
        lower, upper = (torch.cat(parts).numpy() for parts in zip(*self._kept, strict=True))
        return ExampleIntervals(levels=self.errors.wanted_levels, lower=lower, upper=upper)

    def _tracked(
        self, tracker: WidthTracker, batch: Batch, point: Tensor, lower: Tensor, upper: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The intervals stretched about their points, window by window, by what was known before each."""
        lows, highs = torch.empty_like(lower), torch.empty_like(upper)
        for i in range(len(point)):
            if batch.series is not None and int(batch.series[i]) != self._series:
                self._series = int(batch.series[i])
                tracker.reset()
            factor = tracker.factor().permute(1, 2, 0).to(point)
            centre = point[i].unsqueeze(-1)
            lows[i], highs[i] = centre - (centre - lower[i]) * factor, centre + (upper[i] - centre) * factor
            missed = outside_of(lows[i : i + 1], highs[i : i + 1], batch.target[i : i + 1])[0]
            tracker.add(missed.cpu(), None if batch.measured is None else batch.measured[i].cpu())
        return lows, highs


def example_ends(
    scored: ScoredIntervals | None, original: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
) -> dict[str, np.ndarray]:
    """Of the windows that were kept levels (A,), lower and upper (W, P, T, A), original units; nothing of none.

    original: brings (W, P, T) to these units.
    """
    if scored is None or not scored.errors.wanted_levels:
        return {}
    kept = scored.examples()
    ends = {name: np.moveaxis(getattr(kept, name).astype(np.float64), -1, 0) for name in ("lower", "upper")}
    arrays = {name: np.stack([original(end) for end in parts], axis=-1) for name, parts in ends.items()}
    return {"levels": np.array(kept.levels), **arrays}


def interval_metrics(
    scored: ScoredIntervals, names: Sequence[str], naive: npt.NDArray[np.float64] | None
) -> dict[str, object]:
    """The entries `coverage` and `intervals` of metrics.json; naive (S, T): by what MASE is
    scaled, original units, 0 where there is none; None: not known, or each window has its own.
    """
    calibration, metrics = scored.calibration, scored.errors.metrics(names, naive)
    return {
        "coverage": {level: block["coverage"] for level, block in metrics["levels"].items()},
        "intervals": {
            "calibration": "static" if scored.tracker is None else "adaptive",
            "windows": calibration.windows,
            "blocks": calibration.blocks,
            "crossed": calibration.crossed,
            **metrics,
        },
    }
