"""The margins of a model's intervals, from its forecasts of the validation windows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.data.prepare import Prepared
from forecast.data.windows import Batch, Windows
from forecast.evaluation.baselines import season
from forecast.evaluation.conformal import GRID, Calibration, Unrest, blocks_needed, conformal_margins, own_interval
from forecast.evaluation.evaluate import check_finite, chunk_on, exact_float32, in_chunks, look_back_of
from forecast.models.base import FittedModel
from forecast.text.terminal import Meter

MOST_CELLS = 20_000_000  # scores looked at together; of more windows every k-th counts, as neighbours overlap
MOST_FITS = 200  # windows of a model of which each forecast is a fit


@dataclass(frozen=True, kw_only=True, eq=False)
class ValPart:
    """Some validation windows, by their numbers, and the model that is to forecast them, in evaluation mode."""

    model: nn.Module
    windows: range


def block_count(windows: Windows, pred_len: int) -> int:
    """How many windows of a split have targets that no other one has."""
    counts = windows.counts
    return int(((counts[counts > 0] + pred_len - 1) // pred_len).sum())


@torch.inference_mode()
def calibrate(
    parts: Sequence[ValPart],
    data: Prepared,
    *,
    levels: Sequence[float],
    batch_size: int,
    device: torch.device,
    crossed: bool = False,
    together: bool = False,
) -> Calibration | None:
    """The margins at `levels` and those of GRID from the validation windows, in float32.

    The score of a forecast is by how much the truth lies outside of the model's own interval, below zero inside of it:
    conformalised quantile regression (Romano et al. 2019); where a model gives points alone that is the absolute
    error. It is divided by the factor of the window's `Unrest`. Of a panel the scores of all series are taken together,
    in units of the scale of each. together: whether the scores of all steps are, too, as those of too few windows.
    None where the windows are too few for any level.
    """
    data = data.on(device)
    windows = data.windows("val", look_back=max(data.seq_len, *(look_back_of(part.model, data) for part in parts)))
    blocks = block_count(windows, data.pred_len)
    # of these levels and those of GRID the ones that so many blocks can promise
    possible = tuple(sorted({float(level) for level in (*levels, *GRID) if together or blocks_needed(level) <= blocks}))
    if not possible or not len(windows):
        return None
    cells = len(windows) * data.pred_len * len(data.targets)
    distinct = any(getattr(part.model, "spread", None) is not None for part in parts)
    cells *= len(possible) if distinct else 1
    stride = -(-cells // MOST_CELLS)
    if any(isinstance(part.model, FittedModel) and part.model.fits_each_window for part in parts):
        stride = max(stride, -(-len(windows) // MOST_FITS))
    unrest = Unrest(
        rows=min(data.seq_len, *(look_back_of(part.model, data) for part in parts)),
        period=season(data) or 1,
        targets=tuple(data.targets),
        typical=torch.zeros(len(data.targets)),
    )
    scores, sizes = validation_scores(
        parts,
        windows,
        data,
        unrest,
        levels=possible if distinct else possible[:1],
        stride=stride,
        batch_size=batch_size,
    )
    unrest = replace(unrest, typical=sizes.mean(0))
    weighted = [score / unrest.factors_of(sizes) for score in scores]
    if together:
        weighted = [score.flatten(0, 1).unsqueeze(1).expand(-1, data.pred_len, -1) for score in weighted]
    margins = [conformal_margins(weighted[min(i, len(weighted) - 1)], level) for i, level in enumerate(possible)]
    return Calibration(
        levels=possible,
        margins=torch.stack(margins),
        unrest=unrest,
        windows=len(sizes),
        blocks=blocks,
        crossed=crossed,
    )


def validation_scores(
    parts: Sequence[ValPart],
    windows: Windows,
    data: Prepared,
    unrest: Unrest,
    *,
    levels: Sequence[float],
    stride: int,
    batch_size: int,
) -> tuple[list[Float[Tensor, "N P T"]], Float[Tensor, "N T"]]:
    """The scores of validation windows at each level, and the unrest of each window; of every `stride`-th window.

    levels: one where the score is the same at all.
    """
    scores: list[list[Tensor]] = [[] for _ in levels]
    sizes, chunk, done = [], chunk_on(windows.device), 0
    meter = Meter(sum(len(part.windows[::stride]) for part in parts), "windows calibrated")
    with exact_float32():
        for part in parts:
            rows = look_back_of(part.model, data)
            for batch in in_chunks(windows, np.array(part.windows[::stride]), batch_size, chunk):
                for of_level, score in zip(scores, outside_scores(part.model, batch, rows, levels), strict=True):
                    of_level.append(score.cpu())
                sizes.append(unrest.sizes(batch.past).cpu())
                done += len(batch.target)
                meter.show(done)
    meter.end()
    return [torch.cat(of_level) for of_level in scores], torch.cat(sizes)


def outside_scores(
    model: nn.Module, batch: Batch, rows: int, levels: Sequence[float]
) -> Sequence[Float[Tensor, "B P T"]]:
    """The scores of a batch at each level; NaN where no file held the truth. rows: of the past that the model reads."""
    point, lower, upper = own_interval(model, batch, rows, levels)
    check_finite(point, batch.past)
    target = batch.target.unsqueeze(-1)
    outside = torch.maximum(lower - target, target - upper)
    if batch.measured is not None:
        outside = torch.where(batch.measured.unsqueeze(-1), outside, math.nan)
    return outside.unbind(-1)
