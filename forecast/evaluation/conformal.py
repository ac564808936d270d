"""Conformal intervals: how far forecasts of the validation windows missed says how far the next ones may."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from forecast.data.windows import Batch
from forecast.models.base import ForecastModel

CALIBRATION = "calibration"  # the entry of a checkpoint's record
# Levels in per cent that every calibration has beside those that were asked for: the reliability curve, and of 20, 40,
# 60 and 80 the ends are the nine tenths of which the quantile losses are means.
GRID = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 98.0, 99.0)


def blocks_needed(level: float) -> int:
    """The least number of exchangeable scores that bound the next one with a probability of `level` per cent."""
    # rounded first: 99.9 / (100 - 99.9) comes out just above 999, and ceil would ask for one more
    return math.ceil(round(level / (100.0 - level), 9))


def conformal_margins(scores: Float[Tensor, "N P T"], level: float) -> Float[Tensor, "P T"]:
    """Of scores (N, P, T), NaN where there is none, those of the rank of `level`, for each step and column.

    The largest where the rank is beyond their number. A cell without any has the largest margin of its column, and 0
    where the column has none either.
    """
    ordered = scores.sort(dim=0).values  # NaN comes last
    counts = (~torch.isnan(scores)).sum(0)
    # as in `blocks_needed`: round-off must not lift a whole rank to the next
    ranks = ((counts + 1).double() * level / 100.0 - 1e-9).ceil().long()
    places = (torch.minimum(ranks, counts) - 1).clamp_min(0)
    margins = ordered.gather(0, places.unsqueeze(0)).squeeze(0)
    # -inf marks a column without any score, for the last line
    largest = torch.nan_to_num(margins, nan=-math.inf).amax(0, keepdim=True)
    margins = torch.where(torch.isnan(margins), largest, margins)
    return torch.where(torch.isinf(margins), 0.0, margins)


@dataclass(frozen=True, kw_only=True, eq=False)
class Unrest:
    """How restless the past of a window is beside that of others: forecasts from a restless past miss by more.

    The mean absolute difference to `period` rows before, over the last `rows` rows of each target, over its mean
    `typical` (T,) of the validation windows. targets: their numbers among the columns. Half of a margin follows it:
    locally weighted conformal prediction (Lei et al. 2018), shrunk towards margins that are the same for all.
    """

    rows: int
    period: int
    targets: tuple[int, ...]
    typical: Float[Tensor, " T"]

    def sizes(self, past: Float[Tensor, "B L C"]) -> Float[Tensor, "B T"]:
        """The mean absolute differences of windows."""
        some = past[:, -self.rows :, list(self.targets)]
        period = self.period if some.shape[1] > self.period else 1
        # one row has no difference: zeros of its dtype and device
        return (some[:, period:] - some[:, :-period]).abs().mean(1) if some.shape[1] > 1 else some[:, 0] * 0

    def factors(self, past: Float[Tensor, "B L C"]) -> Float[Tensor, "B 1 T"]:
        """By what the margins of windows are multiplied: 1 on average, 1/2 at least."""
        return self.factors_of(self.sizes(past))

    def factors_of(self, sizes: Float[Tensor, "B T"]) -> Float[Tensor, "B 1 T"]:
        """The same from the `sizes` of windows."""
        typical = self.typical.to(sizes)
        # a column that never moved says nothing of a window: factor 1
        share = torch.where(typical > 0, sizes / torch.where(typical > 0, typical, 1.0), 1.0)
        return (0.5 + 0.5 * share).unsqueeze(1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """By how much the intervals of a model are widened at each level.

    levels (K,): per cent, ascending. margins (K, P, T): scaled units, for a window of usual unrest; they may be below
    zero where a model's own quantiles are too wide. windows: how many forecasts they come from. blocks: how many of
    these do not overlap, which is what counts as the number of independent ones. crossed: whether the windows of each
    half of the validation rows were forecast with the epoch that the other half chose.
    """

    levels: tuple[float, ...]
    margins: Float[Tensor, "K P T"]
    unrest: Unrest
    windows: int
    blocks: int
    crossed: bool

    def state(self) -> dict[str, object]:
        """Plain values, for a checkpoint."""
        return {
            "levels": list(self.levels),
            "margins": self.margins.float().cpu().clone(),
            "typical": self.unrest.typical.float().cpu().clone(),
            "rows": self.unrest.rows,
            "period": self.unrest.period,
            "windows": self.windows,
            "blocks": self.blocks,
            "parts": 2 if self.crossed else 1,
        }

    def widened(
        self,
        past: Float[Tensor, "B L C"],
        point: Float[Tensor, "B P T"],
        lower: Float[Tensor, "B P T K"],
        upper: Float[Tensor, "B P T K"],
    ) -> tuple[Float[Tensor, "B P T K"], Float[Tensor, "B P T K"]]:
        """The intervals of a model at `levels`, calibrated: each holds the point forecast and those of lower levels."""
        margins = self.margins.permute(1, 2, 0).to(point) * self.unrest.factors(past).unsqueeze(-1)
        # levels ascend, but margins of few scores need not: running extremes nest the intervals
        low = torch.minimum(lower - margins, point.unsqueeze(-1)).unbind(-1)
        high = torch.maximum(upper + margins, point.unsqueeze(-1)).unbind(-1)
        # level by level and not by cummin, which ONNX has not
        return torch.stack([*accumulate(low, torch.minimum)], -1), torch.stack([*accumulate(high, torch.maximum)], -1)


def own_interval(
    model: nn.Module, batch: Batch, rows: int, levels: Sequence[float]
) -> tuple[Float[Tensor, "B P T"], Float[Tensor, "B P T K"], Float[Tensor, "B P T K"]]:
    """The point forecast and the lower and upper ends that a model itself gives; the point where it gives none.

    None is below the floor. rows: of the past that it reads. levels (K,): per cent.
    """
    inputs = (batch.past[:, -rows:], batch.past_known[:, -rows:], batch.future_known)
    if isinstance(model, ForecastModel):
        point, lower, upper = model.interval(*inputs, levels)
    else:
        point = model(*inputs)
        lower = upper = point.unsqueeze(-1).expand(*point.shape, len(levels))
    return batch.bounded(point), batch.bounded(lower), batch.bounded(upper)


def calibrated_interval(
    calibration: Calibration, model: nn.Module, batch: Batch, rows: int
) -> tuple[Float[Tensor, "B P T"], Float[Tensor, "B P T K"], Float[Tensor, "B P T K"]]:
    """The point forecast of a model and its calibrated interval at each level, none below the floor.

    rows: of the past that it reads.
    """
    point, lower, upper = own_interval(model, batch, rows, calibration.levels)
    lower, upper = calibration.widened(batch.past[:, -rows:], point, lower, upper)
    return point, batch.bounded(lower), batch.bounded(upper)


def outside_of(
    lower: Float[Tensor, "B P T K"], upper: Float[Tensor, "B P T K"], target: Float[Tensor, "B P T"]
) -> Bool[Tensor, "B P T K"]:
    """Which intervals do not hold the truth."""
    truth = target.unsqueeze(-1)
    return (truth < lower) | (truth > upper)
