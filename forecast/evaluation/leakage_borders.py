"""The part of the leakage guard that makes everything anew with noise after the end of a split."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from forecast.data.panel import PanelFrame
from forecast.data.prepare import Prepared, prepare
from forecast.data.target_rows import TargetRows
from forecast.data.values.cells import IntArray
from forecast.errors import UserError
from forecast.evaluation.baselines import fit_nlinear, season
from forecast.evaluation.fitting import train_season
from forecast.evaluation.leakage_windows import NOISE, NOISY_CELLS, NOISY_ROWS, SKIP
from forecast.evaluation.restoring import first_change

VALUE, SCALE = "a value", ("the scale's mean", "the scale's std")
BORDER_SERIES = 30  # of which everything is made anew
BORDER_CELLS = NOISY_CELLS // 10
FITTED_WINDOWS = 64  # train windows of a series, on which the closed-form NLinear is fitted anew


def check_borders(data: Prepared) -> None:
    """Whatever noise takes the place of the values after a split, what is made of the rows up to there is the same.

    Of some series the gaps are filled, the scale, the season and the closed-form NLinear fitted anew with two kinds of
    it, and compared bit by bit.
    """
    generator = np.random.default_rng(0)
    for name, rows in data.splits.items():
        if not (rows.stop < data.frame.offsets[1:]).any():
            continue
        some = some_rows(data, name)
        first, second = (made_anew(some, name, generator) for _ in range(2))
        for subject, before in first.items():
            if change := first_change(before, second[subject]):
                column = f" of column '{data.frame.columns[change[-1]]}'" if subject in (VALUE, *SCALE) else ""
                raise UserError(
                    f"leakage check, borders: {subject}{column} changes when the rows after {name} become other noise: "
                    f"{float(before[change]):.9g}, then {float(second[subject][change]):.9g}. Fill, fit and scale with "
                    "forecast.data.prepare, on rows up to there alone; data.gaps=forward_fill or mask fills no gap "
                    f"from later rows; {SKIP}."
                )


def some_rows(data: Prepared, split: str) -> Prepared:
    """The rows about the end of a split of BORDER_SERIES series that have train rows, one with a whole window among
    them; of long series fewer rows, and fewer series.
    """
    frame, train, border = data.frame, data.splits["train"], data.splits[split].stop
    held = np.flatnonzero(train.stop > train.first)
    chosen = held[:: max(1, len(held) // BORDER_SERIES)][:BORDER_SERIES]
    window = data.seq_len + data.pred_len
    reach = max(window + FITTED_WINDOWS, min(NOISY_ROWS, NOISY_CELLS // len(frame.columns)))
    begin, end = np.maximum(frame.offsets[:-1], border - reach), np.minimum(frame.offsets[1:], border + reach)
    cells = np.cumsum((end - begin)[chosen]) * len(frame.columns)
    whole = held[(train.stop - train.first)[held] >= window]
    shortest = whole[np.argsort(frame.lengths[whole], kind="stable")[:1]]  # of which NLinear can be fitted
    chosen = np.unique([*chosen[:1], *shortest, *chosen[cells <= BORDER_CELLS]])
    begin, end = begin[chosen], end[chosen]
    own = np.concatenate([[0], np.cumsum(end - begin)]).astype(np.int64)
    rows: IntArray = np.repeat(begin - own[:-1], end - begin) + np.arange(own[-1])
    measured = None
    if frame.measured is not None:
        measured = frame.measured[rows]
        measured[own[:-1]] = True  # of a series that was cut: a gap there has nothing before it
    less = replace(
        frame,
        values=frame.values[rows],
        measured=measured,
        offsets=own,
        steps=frame.steps[chosen] + begin - frame.offsets[:-1][chosen],
        ids=frame.ids[chosen],
        facts=None if frame.facts is None else frame.facts.of(chosen),
    )
    shift = own[:-1] - begin

    def moved(edge: IntArray) -> IntArray:
        return np.clip(edge[chosen], begin, end) + shift

    splits = {
        name: TargetRows(moved(target_rows.first), moved(target_rows.stop)) for name, target_rows in data.splits.items()
    }
    return replace(data, frame=less, splits=splits)


def made_anew(data: Prepared, split: str, noise: np.random.Generator) -> dict[str, Tensor]:
    """What is made of the rows up to the end of a split, by its name in words, with noise after it."""
    frame, stop = data.frame, data.splits[split].stop
    late = np.arange(len(frame.values)) >= np.repeat(stop, frame.lengths)
    values = frame.values.copy()
    spread = np.abs(values[~late]).max(axis=0) + 1.0
    values[late] = NOISE * spread * noise.normal(size=values[late].shape)
    anew = prepare(
        refilled(replace(frame, values=values)),
        splits=data.splits,
        targets=data.targets,
        seq_len=data.seq_len,
        pred_len=data.pred_len,
        encoding=data.encoding,
        scaling=data.scaler.how,
        season=data.scaler.period or season(data) or 1,
        covariates=data.covariates,
        hidden=data.hidden,
        pad=data.pad,
        fact_scale=data.fact_scale,
    )
    tensors = {VALUE: torch.from_numpy(anew.frame.values[~late])}
    if split != "train":
        return tensors
    trained = np.flatnonzero(~anew.scaler.own)  # by their train rows
    period = train_season(anew.frame, anew.splits["train"], anew.targets, pred_len=anew.pred_len)
    tensors["the season"] = torch.tensor([period or 0])
    tensors |= {subject: torch.from_numpy(getattr(anew.scaler, subject.split()[-1])[trained]) for subject in SCALE}
    if len(anew.origins("train", context=data.seq_len)):
        train = anew.splits["train"]
        last = TargetRows(
            np.maximum(train.first, train.stop - FITTED_WINDOWS - data.seq_len - data.pred_len + 1), train.stop
        )
        tensors["the closed-form NLinear"] = fit_nlinear(anew.but(splits=anew.splits | {"train": last}))
    return tensors


def refilled(frame: PanelFrame) -> PanelFrame:
    """A frame whose made-up cells are filled from its values, by a reader that knows no splits."""
    if frame.measured is None:
        return frame
    values = frame.values.copy()
    for s, begin in enumerate(frame.offsets[:-1]):
        rows = slice(int(begin), int(frame.offsets[s + 1]))
        for column in range(values.shape[1]):
            cells, known = values[rows, column], np.flatnonzero(frame.measured[rows, column])
            gaps = np.flatnonzero(~frame.measured[rows, column])
            gaps = gaps[gaps > known[0]] if known.size else gaps[:0]
            if frame.repair.policy == "interpolate":
                cells[gaps] = np.interp(gaps, known, cells[known])
            else:
                cells[gaps] = cells[known[np.searchsorted(known, gaps) - 1]]
    return replace(frame, values=values)
