"""The part of a panel's leakage guard that makes everything anew with noise after the end of a split."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from forecast.data.cells import IntArray
from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.prepare import PanelData, made_panel
from forecast.data.panel.splits import PanelRows
from forecast.errors import UserError
from forecast.evaluation.baselines import fit_nlinear
from forecast.evaluation.leakage_windows import NOISE, NOISY_CELLS, SKIP
from forecast.evaluation.panel_baselines import panel_season
from forecast.evaluation.restoring import first_change

BORDER_SERIES = 30  # of which everything is made anew
BORDER_CELLS = NOISY_CELLS // 10


def check_panel_borders(data: PanelData) -> None:
    """Whatever noise takes the place of the values after a split, what is made of the rows up to there is the same.

    Of some series the gaps are filled, the scale, the season and the closed-form NLinear fitted anew with two kinds of
    it, and compared bit by bit.
    """
    some, generator = some_series(data), np.random.default_rng(0)
    for name in ("train", "val"):
        stop = some.splits[name].stop
        if not (stop < some.frame.offsets[1:]).any():
            continue
        one, other = (made_anew(some, name, generator) for _ in range(2))
        for what, before in one.items():
            if change := first_change(before, other[what]):
                raise UserError(
                    f"leakage check, borders: {what} changes when the rows of all series after {name} become other "
                    f"noise: {float(before[change]):.9g}, then {float(other[what][change]):.9g}. Fill, fit and "
                    f"scale with forecast.data.panel.prepare, on rows up to there alone; {SKIP}."
                )


def some_series(data: PanelData) -> PanelData:
    """BORDER_SERIES series that have train rows, fewer where they are long; one with a whole window among them."""
    frame, train = data.frame, data.splits["train"]
    held = np.flatnonzero(train.stop > train.first)
    chosen = held[:: max(1, len(held) // BORDER_SERIES)][:BORDER_SERIES]
    cells = np.cumsum(frame.lengths[chosen]) * len(frame.columns)
    whole = held[(train.stop - train.first)[held] >= data.seq_len + data.pred_len]
    shortest = whole[np.argsort(frame.lengths[whole], kind="stable")[:1]]  # of which NLinear can be fitted
    chosen = np.unique([*chosen[:1], *shortest, *chosen[cells <= BORDER_CELLS]])
    begin, lengths = frame.offsets[:-1][chosen], frame.lengths[chosen]
    own = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows: IntArray = np.repeat(begin - own[:-1], lengths) + np.arange(own[-1])
    less = replace(
        frame,
        values=frame.values[rows],
        measured=None if frame.measured is None else frame.measured[rows],
        offsets=own,
        steps=frame.steps[chosen],
        ids=frame.ids[chosen],
        facts=None if frame.facts is None else frame.facts.of(chosen),
    )
    shift = own[:-1] - begin
    splits = {name: PanelRows(one.first[chosen] + shift, one.stop[chosen] + shift) for name, one in data.splits.items()}
    return replace(data, frame=less, splits=splits)


def made_anew(data: PanelData, split: str, noise: np.random.Generator) -> dict[str, Tensor]:
    """What is made of the rows up to the end of a split, by its name in words, with noise after it."""
    frame, stop = data.frame, data.splits[split].stop
    late = np.arange(len(frame.values)) >= np.repeat(stop, frame.lengths)
    values = frame.values.copy()
    spread = np.abs(values).max(axis=0) + 1.0
    values[late] = NOISE * spread * noise.normal(size=values[late].shape)
    same = ("targets", "encoding", "pad", "seq_len", "pred_len", "covariates", "hidden", "fact_scale")
    options: dict[str, Any] = {key: getattr(data, key) for key in same}
    period = data.scaler.period
    noisy = refilled(replace(frame, values=values))
    anew = made_panel(noisy, data.splits, scaling=data.scaler.how, season=period, **options)
    made = {"a value": torch.from_numpy(anew.frame.values[~late])}
    if split != "train":
        return made
    trained = np.flatnonzero(~anew.scaler.own)  # by their train rows
    made["the season"] = torch.tensor([panel_season(anew) or 0])
    made |= {f"the scale's {what}": torch.from_numpy(getattr(anew.scaler, what)[trained]) for what in ("mean", "std")}
    if len(anew.origins("train", context=data.seq_len)):
        made["the closed-form NLinear"] = fit_nlinear(anew)
    return made


def refilled(frame: PanelFrame) -> PanelFrame:
    """A frame whose made-up cells are filled from its values, by a reader that knows no splits."""
    if frame.measured is None:
        return frame
    values = frame.values.copy()
    for s, begin in enumerate(frame.offsets[:-1]):
        rows = slice(int(begin), int(frame.offsets[s + 1]))
        for column in range(values.shape[1]):
            one, known = values[rows, column], np.flatnonzero(frame.measured[rows, column])
            gaps = np.flatnonzero(~frame.measured[rows, column])
            gaps = gaps[gaps > known[0]] if known.size else gaps[:0]
            if frame.repair.policy == "interpolate":
                one[gaps] = np.interp(gaps, known, one[known])
            else:
                one[gaps] = one[known[np.searchsorted(known, gaps) - 1]]
    return replace(frame, values=values)
