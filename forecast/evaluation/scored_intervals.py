"""A model's intervals beside the truth, window after window: how often they hold it, how wide they are, their score.

`WidthTracker` lets them follow a drift: wider after misses, narrower after hits, with no look at what comes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from forecast.data.values.cells import FloatArray
from forecast.data.windows import Batch
from forecast.evaluation.conformal import Calibration, blocks_needed, calibrated_interval, outside_of
from forecast.evaluation.metrics import optional_mean, ratio

# How far one outcome moves the logarithm of a width. Misses move it by RATE times the level, hits by RATE times what is
# left: so over N windows the share of misses lies within (range of the logarithm) / (RATE N) of what it should be.
RATE = 0.05
MOST = 3.0  # of that logarithm, either way: twenty times as wide
# The levels whose ends are the tenths 0.1 to 0.9 but for the median, which is the point forecast.
TENTHS = (20.0, 40.0, 60.0, 80.0)
# How far below its level the coverage of a step lies where that is said.
NARROW = 0.05


def name_of(level: float) -> str:
    """A level in per cent as files and commands write it: 80, 97.5."""
    return f"{level:g}"


def windows_needed(levels: Sequence[float]) -> str:
    """How many windows that do not overlap intervals of each level need: '80 % need 4, of 95 % 19'."""
    of_needs: dict[int, list[str]] = {}
    for level in levels:
        of_needs.setdefault(blocks_needed(level), []).append(name_of(level))
    first, *others = ((", ".join(names), need) for need, names in of_needs.items())
    return ", of ".join([f"{first[0]} % need {first[1]}", *(f"{names} % {need}" for names, need in others)])


Figures = dict[str, Any]  # of the intervals of a target column, or of all: metrics.json has them


class IntervalErrors:
    """Streaming sums over the measured cells of windows, scaled units.

    levels (K,): per cent, ascending; wanted_levels: those of them that are reported in full. mean, std (S, T): what
    brings the scaled values of a series to original units.
    """

    def __init__(
        self,
        levels: Sequence[float],
        wanted_levels: Sequence[float],
        pred_len: int,
        *,
        mean: FloatArray,
        std: FloatArray,
    ) -> None:
        self.levels, self.wanted_levels = tuple(levels), tuple(level for level in wanted_levels if level in levels)
        self.mean, self.std = torch.from_numpy(mean.copy()), torch.from_numpy(std.copy())
        shape = (len(self.levels), pred_len, mean.shape[1])
        self.held, self.width, self.score = (torch.zeros(shape, dtype=torch.float64) for _ in range(3))
        self.cells = torch.zeros(shape[1:], dtype=torch.float64)
        none = torch.zeros(mean.shape, dtype=torch.float64)
        self.series_cells, self.series_crps, self.series_truth = none, none.clone(), none.clone()
        self.series_score = torch.zeros(len(self.wanted_levels), *mean.shape, dtype=torch.float64)
        self.series_held = torch.zeros_like(self.series_score)
        self.series_width = torch.zeros_like(self.series_score)
        # Where each window has a scale of its own: scores and quantile losses over it, and how many windows have one.
        self.ratios: Tensor | None = None
        self._wanted_places = [self.levels.index(level) for level in self.wanted_levels]
        self._tenths = [self.levels.index(level) for level in TENTHS if level in self.levels]
        self.has_tenths = len(self._tenths) == len(TENTHS)  # which quantile losses need
        self._alpha = 1.0 - torch.tensor(self.levels, dtype=torch.float64) / 100.0

    def update(
        self,
        point: Float[Tensor, "B P T"],
        lower: Float[Tensor, "B P T K"],
        upper: Float[Tensor, "B P T K"],
        target: Float[Tensor, "B P T"],
        *,
        series: Tensor | None = None,
        measured: Bool[Tensor, "B P T"] | None = None,
        scale: Float[Tensor, "B T"] | None = None,
    ) -> None:
        """Adds the windows of a batch, scaled units.

        series (B,): None: all are of the first. scale (B, T): the mean absolute seasonal difference of each window,
        scaled units, where MSIS and SQL are by that.
        """
        series = torch.zeros(len(point), dtype=torch.int64) if series is None else series.cpu()
        point, lower, upper, target = (part.double().cpu() for part in (point, lower, upper, target))
        known = torch.ones_like(target) if measured is None else measured.double().cpu()
        inside, weight = ~outside_of(lower, upper, target), known.unsqueeze(-1)
        width, truth = upper - lower, target.unsqueeze(-1)
        beyond = (lower - truth).clamp_min(0) + (truth - upper).clamp_min(0)
        score = (width + beyond * (2.0 / self._alpha)) * weight  # Gneiting and Raftery 2007
        held, width = inside * weight, width * weight
        self.held += held.sum(0).permute(2, 0, 1)
        self.width += width.sum(0).permute(2, 0, 1)
        self.score += score.sum(0).permute(2, 0, 1)
        self.cells += known.sum(0)
        # the pinball losses of both ends are together alpha / 2 of the score; that of the median is half the error
        ends = (score[..., self._tenths] * self._alpha[self._tenths] / 2.0).sum(-1)
        crps = 2.0 * (ends + (point - target).abs() * known / 2.0) / (2 * len(TENTHS) + 1)
        mean, std = (part[series].unsqueeze(1) for part in (self.mean, self.std))
        for total, part in (
            (self.series_cells, known),
            (self.series_crps, crps),
            (self.series_truth, (target * std + mean).abs() * known),
        ):
            total.index_add_(0, series, part.sum(1))
        for total, part in ((self.series_score, score), (self.series_held, held), (self.series_width, width)):
            total.index_add_(1, series, part[..., self._wanted_places].sum(1).permute(2, 0, 1))
        if scale is not None:
            summed = torch.stack([*score[..., self._wanted_places].sum(1).unbind(-1), crps.sum(1)])
            self._add_ratios(summed, known.sum(1), scale, series)

    def _add_ratios(self, summed: Tensor, cells: Tensor, scale: Tensor, series: Tensor) -> None:
        """Of windows with these sums (A + 1, B, T) over so many cells (B, T), each by its own scale (B, T)."""
        there = (cells > 0) & (scale > 0)
        means = torch.where(there, summed / cells / scale, 0.0)
        if self.ratios is None:
            self.ratios = torch.zeros(len(summed) + 1, *self.mean.shape, dtype=torch.float64)
        self.ratios.index_add_(1, series, torch.cat([means, there.double()[None]]))

    def metrics(self, names: Sequence[str], naive: FloatArray | None) -> Figures:
        """The entry `intervals` of metrics.json, but for what made them.

        naive (S, T): the mean absolute seasonal difference by which MASE is scaled, original units, 0 where there is
        none; None: not known, or each window has its own. levels: by level, coverage; width and score, means in
        scaled units; pinball, the mean loss of both ends, which is (1 - level) / 4 of that score; msis, the
        interval score over that difference (M4: Makridakis et al. 2020), each series alike; narrow_from: the
        first step from which on all cover less than NARROW below the level. wql: twice the sum of the pinball
        losses at 0.1 to 0.9 over the sum of absolute truths, mean over these quantiles; sql: the same over that
        difference, each series alike; both are means over the columns that have one. reliability: the coverage
        of all levels.
        """
        blocks, columns = {name: self._column(i, naive) for i, name in enumerate(names)}, range(len(names))
        levels: dict[str, dict[str, float | None]] = {}
        for k, level in zip(self._wanted_places, self.wanted_levels, strict=True):
            of_level = [block["levels"][name_of(level)] for block in blocks.values()]
            levels[name_of(level)] = {
                "coverage": ratio(self.held[k].sum(), self.cells.sum()),
                "width": optional_mean(ratio(self.width[k, :, i].sum(), self.cells[:, i].sum()) for i in columns),
                "score": (
                    score := optional_mean(ratio(self.score[k, :, i].sum(), self.cells[:, i].sum()) for i in columns)
                ),
                "pinball": None if score is None else score * float(self._alpha[k]) / 4.0,
                "msis": optional_mean(entry["msis"] for entry in of_level),
                "narrow_from": self._narrow_from(k, level),
            }
        return {
            "levels": levels,
            "wql": optional_mean(block["wql"] for block in blocks.values()),
            "sql": optional_mean(block["sql"] for block in blocks.values()),
            "reliability": {
                name_of(level): ratio(self.held[k].sum(), self.cells.sum()) for k, level in enumerate(self.levels)
            },
            "columns": blocks,
        }

    def steps(self) -> dict[str, list[float]]:
        """The coverage and the mean width, scaled units, of the wanted levels at each step, P figures each."""
        figures = {}
        cells = self.cells.sum(1).clamp_min(1.0)
        for k, level in zip(self._wanted_places, self.wanted_levels, strict=True):
            figures[f"coverage_{name_of(level)}"] = (self.held[k].sum(1) / cells).tolist()
            figures[f"width_{name_of(level)}_scaled"] = (self.width[k].sum(1) / cells).tolist()
        return figures

    def _column(self, i: int, naive: FloatArray | None) -> Figures:
        """Of a target column: by level coverage, width in original units and MSIS; its quantile losses."""
        std, cells = self.std[:, i], self.series_cells[:, i]
        levels: dict[str, dict[str, float | None]] = {}
        for a, level in enumerate(self.wanted_levels):
            levels[name_of(level)] = {
                "coverage": ratio(self.series_held[a, :, i].sum(), cells.sum()),
                "width": ratio((self.series_width[a, :, i] * std).sum(), cells.sum()),
                "msis": self._scaled(a, i, self.series_score[a, :, i], naive),
            }
        crps = self.series_crps[:, i]
        return {
            "levels": levels,
            "wql": ratio((crps * std).sum(), self.series_truth[:, i].sum()) if self.has_tenths else None,
            "sql": self._scaled(-2, i, crps, naive) if self.has_tenths else None,
        }

    def _scaled(self, place: int, i: int, sums: Tensor, naive: FloatArray | None) -> float | None:
        """The mean over series of their means (S,) over cells, each over its scale; of those that have both.

        place: of these sums among `ratios`, which count in their stead where windows have a scale of their own.
        """
        cells = self.series_cells[:, i]
        if self.ratios is not None:
            means, known = self.ratios[place, :, i] / self.ratios[-1, :, i], self.ratios[-1, :, i] > 0
        elif naive is not None:
            scale = torch.from_numpy(naive[:, i])
            means, known = sums * self.std[:, i] / cells / scale, (cells > 0) & (scale > 0)
        else:
            return None
        return float(means[known].mean()) if known.any() else None

    def _narrow_from(self, k: int, level: float) -> int | None:
        cells = self.cells.sum(1)
        share = torch.where(cells > 0, self.held[k].sum(1) / cells.clamp_min(1.0), 1.0)
        enough = torch.nonzero(share >= level / 100.0 - NARROW)
        first = int(enough[-1]) + 1 if len(enough) else 0
        return first + 1 if first < len(share) else None


class WidthTracker:
    """By what factor intervals are stretched about their point forecast, for each level, step and column.

    As adaptive conformal inference (Gibbs and Candes 2021), on the logarithm of the width in place of the level.
    Windows are asked for in the order of time; when one is forecast, those outcomes alone have had a part that lie
    before it: the miss of an earlier window at step h is known `ceil(h / stride)` windows later. levels (K,): per cent.
    stride: rows from a window to the next one.
    """

    def __init__(self, levels: Sequence[float], *, pred_len: int, n_targets: int, stride: int) -> None:
        self.share = 1.0 - torch.tensor(levels, dtype=torch.float64).view(-1, 1, 1) / 100.0  # of misses (K, 1, 1)
        steps = torch.arange(pred_len)
        self.delay = torch.div(steps + stride, stride, rounding_mode="floor")  # ceil((h + 1) / stride), h from 0
        self.steps, self.memory = steps, int(self.delay.max()) + 1
        self.log_width = torch.zeros(len(levels), pred_len, n_targets, dtype=torch.float64)
        self.missed = torch.zeros(self.memory, len(levels), pred_len, n_targets, dtype=torch.float64)
        self.counted = torch.zeros(self.memory, pred_len, n_targets, dtype=torch.float64)
        self.count = 0

    def reset(self) -> None:
        """For the first window of another series."""
        self.log_width.zero_()
        self.counted.zero_()
        self.count = 0

    def factor(self) -> Float[Tensor, "K P T"]:
        """For the window that comes next."""
        places = (self.count - self.delay) % self.memory
        known = (self.count >= self.delay).double().unsqueeze(-1)
        missed = self.missed[places, :, self.steps].transpose(0, 1)
        counted = self.counted[places, self.steps] * known
        self.log_width += RATE * (missed - self.share) * counted
        self.log_width.clamp_(-MOST, MOST)
        return self.log_width.exp()

    def add(self, missed: Bool[Tensor, "P T K"], measured: Bool[Tensor, "P T"] | None = None) -> None:
        """What became of the window that `factor` was for. measured: False where there is no truth."""
        place = self.count % self.memory
        self.missed[place] = missed.permute(2, 0, 1).double()
        self.counted[place] = 1.0 if measured is None else measured.double()
        self.count += 1


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
        mean: FloatArray,
        std: FloatArray,
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
        point, lower, upper = calibrated_interval(self.calibration, model, batch, rows)
        if self.tracker is not None:
            lower, upper = self._tracked(self.tracker, batch, point, lower, upper)
        self.last = lower, upper
        by = None if scale is None else scale[0]
        self.errors.update(point, lower, upper, batch.target, series=batch.series, measured=batch.measured, scale=by)
        return point

    def keep(self, windows: list[int]) -> None:
        """Keeps the intervals of some windows of the last batch for pictures."""
        columns = [self.levels.index(level) for level in self.errors.wanted_levels]
        self._kept.append(tuple(part[windows][..., columns].float().cpu() for part in self.last))  # type: ignore[arg-type]

    def examples(self, original: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]) -> dict[str, np.ndarray]:
        """Of the windows that were kept levels (A,), lower and upper (W, P, T, A), original units; nothing of no level.

        original: brings (W, P, T) to these units.
        """
        levels = self.errors.wanted_levels
        ends = zip(("lower", "upper"), map(torch.cat, zip(*self._kept, strict=True)), strict=True)
        arrays = {name: [original(end) for end in part.double().numpy().transpose(3, 0, 1, 2)] for name, part in ends}
        return {"levels": np.array(levels), **{k: np.stack(v, axis=-1) for k, v in arrays.items()}} if levels else {}

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


def interval_metrics(scored: ScoredIntervals, names: Sequence[str], naive: npt.NDArray[np.float64] | None) -> Figures:
    """The entries `coverage` and `intervals` of metrics.json; naive (S, T): by what MASE is
    scaled, original units, 0 where there is none; None: not known, or each window has its own.
    """
    calibration, metrics = scored.calibration, scored.errors.metrics(names, naive)
    levels = scored.errors.wanted_levels
    return {
        "coverage": {level: block["coverage"] for level, block in metrics["levels"].items()},
        "intervals": {
            "calibration": "static" if scored.tracker is None else "adaptive",
            "windows": calibration.windows,
            "blocks": calibration.blocks,
            "crossed": calibration.crossed,
            **({"together": True} if any(blocks_needed(level) > calibration.blocks for level in levels) else {}),
            **metrics,
        },
    }
