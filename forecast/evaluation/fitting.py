"""What the baselines of a panel, and models that are fitted at once, are fitted to."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from forecast.data.panel import PanelFrame
from forecast.data.prepare import Prepared
from forecast.data.scaling import cell_means
from forecast.data.seasonality import calendar_seasons, rank_seasons
from forecast.data.split import TargetRows
from forecast.data.values.cells import IntArray
from forecast.data.windows import Batch
from forecast.models.base import FittingRows, Gathered, WholeWindows
from forecast.ops.window_sums import run_sums

log = logging.getLogger(__name__)

FITTED_CELLS = 2_000_000  # of a panel with more, a linear map is fitted to whole series drawn by chance
SEASON_SERIES = 100  # are looked at to find the season of a panel
VAL_SHARE = 0.9  # of the val windows that a look-back must reach back in: short series would have no say else
SEED = 0


def rows_to_fit(data: Prepared, *, period: int | None) -> FittingRows:
    """The scaled targets of all series as one array, or of some that are drawn, and where a forecast may begin.

    Not where a target was made up: a map would learn how gaps are filled; nor where the past ends in a gap, which was
    filled towards a target. Where a split has no other window, all of its windows are taken, in a copy of the rows in
    which gaps hold the last value.
    """
    frame, columns = data.frame, list(data.targets)
    chosen = fitted_series(frame, len(columns))
    lengths, begin = frame.lengths[chosen], frame.offsets[:-1][chosen]
    own = np.cumsum(lengths) - lengths  # where each begins here
    if len(chosen) < len(frame):
        log.info("Linear maps are fitted to %d of %d series, %d rows", len(chosen), len(frame), lengths.sum())
    rows = np.repeat(begin - own, lengths) + np.arange(lengths.sum())
    if data.kept is not None:
        values = data.kept[:, columns].cpu().double().numpy()
        values = values if len(chosen) == len(frame) else values[rows]
    else:  # scaled as the windows are, which are float32
        values = frame.values[rows][:, columns]
        values -= np.repeat(data.scaler.mean[chosen][:, columns], lengths, axis=0)
        values /= np.repeat(data.scaler.std[chosen][:, columns], lengths, axis=0)
        values = values.astype(np.float32).astype(np.float64)

    chosen_by_gaps: list[str] = []  # the splits of which windows with a made-up target are left out
    copy = 0  # the first row of a copy of all rows, in which gaps hold the last value
    whole_rows = np.ones(len(rows), dtype=np.int64)
    if frame.measured is not None:
        whole_rows = frame.measured[rows][:, columns].all(axis=1).astype(np.int64)
    before = np.concatenate([[0], np.cumsum(whole_rows)])
    made_up = np.zeros(len(rows) + 1, dtype=np.int64)  # rows that no past may hold
    if frame.measured is not None and frame.repair.policy == "mask":
        made_up[1:] = np.cumsum(~frame.measured[rows].all(axis=1))

    def origins(split: str, look_back: int) -> npt.NDArray[np.int64]:
        panel_origins = data.origins(split, context=look_back)
        first, counts = panel_origins.first[chosen] - begin + own, panel_origins.counts[chosen]
        starts: IntArray = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        past = 0 if frame.since is None else 1
        whole = before[starts + data.pred_len] - before[starts - past] == past + data.pred_len
        whole &= made_up[starts] == made_up[starts - look_back]
        return starts[whole] if split in chosen_by_gaps else starts + copy

    for split in () if frame.measured is None else ("train", "val"):
        chosen_by_gaps.append(split)
        if not len(origins(split, data.context)):
            chosen_by_gaps.remove(split)
            log.warning("Each %s window has a target that was filled in: linear maps are fitted to such windows", split)
            if frame.since is not None and not copy:
                copy = len(values)
                values = np.concatenate([values, held(values, frame.since[rows][:, columns])])
    return FittingRows(
        series=torch.from_numpy(values),
        origins=origins,
        period=period,
        sums=run_sums,
        val_share=VAL_SHARE,
        windows=whole_windows(data),
        train_mean=partial(train_mean, data),
        seasons=tuple(calendar_seasons(frame.freq)),
    )


def train_mean(data: Prepared) -> Float[Tensor, "T"]:
    """The mean of each target over its measured cells in the train rows of all series, scaled.

    It is 0 unless values are not scaled, or the scale is that of other train rows.
    """
    rows, scaler = data.target_rows("train"), data.scaler
    count, mean, _ = cell_means(data.frame, rows.first, rows.stop)
    count[scaler.own] = 0  # those are scaled by rows that may follow the train rows
    total = (count * (mean - scaler.mean) / scaler.std).sum(0)
    return torch.from_numpy((total / np.maximum(1, count.sum(0)))[list(data.targets)])


def held(values: npt.NDArray[np.float64], since: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
    """Values (N, T) with the last measured one in each gap. since (N, T): how many rows before a cell that one is."""
    return np.take_along_axis(values, np.arange(len(values))[:, None] - since, axis=0)


def whole_windows(data: Prepared) -> Callable[[str, int], WholeWindows]:
    """From a split and a look-back to the windows of all series in which no target was made up."""
    frame, made_up = data.frame, None
    if frame.measured is not None:
        made_up = np.cumsum(~frame.measured[:, list(data.targets)].all(1))
        made_up = np.concatenate([[0], made_up])

    def windows(split: str, look_back: int) -> WholeWindows:
        long = replace(data, seq_len=look_back, device=None)
        served = long.windows_of(data.origins(split, context=look_back))
        numbers = np.arange(len(served))
        if made_up is not None:
            _, begin = served.places(numbers)
            numbers = numbers[made_up[begin + data.pred_len] == made_up[begin - look_back]]
        return WholeWindows(numbers, lambda some: gathered(served.__getitems__(torch.from_numpy(some)), data.targets))

    return windows


def gathered(batch: Batch, targets: Sequence[int]) -> Gathered:
    """What a map with covariates is fitted to, of some windows."""
    return Gathered(batch.past[:, :, list(targets)], batch.past_known, batch.future_known, batch.target)


def fitted_series(frame: PanelFrame, n_targets: int) -> IntArray:
    """The numbers of all series, or of so many drawn by chance as have FITTED_CELLS target cells; one at least."""
    drawn = np.random.default_rng(SEED).permutation(len(frame))
    if frame.offsets[-1] * n_targets <= FITTED_CELLS:
        return np.arange(len(frame))
    cells = np.cumsum(frame.lengths[drawn]) * n_targets
    return np.sort(drawn[: max(1, int(np.searchsorted(cells, FITTED_CELLS, side="right")))])


def train_season(frame: PanelFrame, train: TargetRows, targets: Sequence[int], *, pred_len: int) -> int | None:
    """The season that most series show in the train rows of the targets, as `rank_seasons` finds it; None without one.

    Of many series SEASON_SERIES of those that have train rows are looked at.
    """
    columns = list(targets)
    with_rows = np.flatnonzero(train.stop - train.first)
    votes: Counter[int] = Counter()
    for s in with_rows[:: max(1, -(-len(with_rows) // SEASON_SERIES))]:
        rows = slice(int(train.first[s]), int(train.stop[s]))
        values = frame.values[rows, columns]
        if frame.measured is not None:
            values[~frame.measured[rows, columns]] = np.nan
        votes.update(season.period for season in rank_seasons(values, frame.freq, pred_len=pred_len)[:1])
    return min(votes, key=lambda period: (-votes[period], period), default=None)
