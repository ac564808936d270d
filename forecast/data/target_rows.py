"""Which rows of each series are forecast for training, for choosing a model, and for judging it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.cells import IntArray
from forecast.data.panel.frame import PanelFrame
from forecast.data.split import PARTS, Split
from forecast.errors import UserError

ANYWHERE = "train", "val", "test"
TAIL = "tail"  # the rows after the test


@dataclass(frozen=True, eq=False)
class TargetRows:
    """The target rows of one split: of series s the rows first[s] to stop[s] of the panel's array, perhaps none."""

    first: IntArray
    stop: IntArray

    @classmethod
    def of(cls, rows: range) -> "TargetRows":
        """Those of one series."""
        return cls(np.array([rows.start]), np.array([rows.stop]))

    @property
    def alone(self) -> range:
        """Those of the one series."""
        (first,), (stop,) = self.first.tolist(), self.stop.tolist()
        return range(first, stop)


def recorded_splits(
    frame: PanelFrame, recorded: Mapping[str, Sequence[int]], *, seq_len: int, pred_len: int, where: str
) -> dict[str, TargetRows]:
    """The splits (first row, end) of one series that a checkpoint names.

    where: the checkpoint. UserError for one that is missing, that the frame does not hold, or that holds no window.
    """
    splits = {name: range(*rows) for name, rows in recorded.items()}
    problems = [f"it has no split {name}" for name in ("train", "val", "test") if name not in splits]
    for name, rows in splits.items():
        split, needed = f"its split {name}, the rows {rows.start} to {rows.stop},", pred_len
        needed += seq_len if name == "train" else 0
        if rows.stop > len(frame.values):
            problems.append(f"{split} goes beyond the {len(frame.values)} rows of {frame.name}")
        elif len(rows) < needed:
            problems.append(f"{split} holds no window: that takes {needed} rows")
    if problems:
        raise UserError(f"{where} was changed by other means: {problems[0]}. Use another checkpoint of its run.")
    return {name: TargetRows.of(rows) for name, rows in splits.items()}


def panel_cuts(split: Split, frame: PanelFrame, *, pred_len: int) -> dict[str, TargetRows]:
    """The target rows of "train", "val", "test" and, when those of a series can hold a window, "tail" in each series.

    UserError as `Split.check` and `Split.cuts`.
    """

    def places(date: pd.Timestamp) -> IntArray:
        if frame.without_calendar:
            raise UserError(
                f"{frame.name}: data/split=dates needs dates, and these rows are steps. Set data/split=last or "
                "data/split=shares."
            )
        row: IntArray = np.clip(frame.calendar().searchsorted(date) - frame.steps, 0, frame.lengths)
        return row

    split.check(frame.lengths, frame.name)
    begin, cuts = frame.offsets[:-1], split.cuts(frame.lengths, places)
    edges = [begin + cut for cut in cuts] + [frame.offsets[1:]]
    parts = map(TargetRows, edges[:-1], edges[1:])
    rows = dict(zip((*ANYWHERE, TAIL), parts, strict=True))
    if not (rows[TAIL].stop - rows[TAIL].first >= pred_len).any():
        del rows[TAIL]
    return rows


@dataclass(frozen=True, eq=False)
class Origins:
    """Where the forecasts of one split begin: of series s at the rows first[s], first[s] + 1, ..., counts[s] of them.

    ends (S,): the windows of all series up to and with s.
    """

    first: IntArray
    counts: IntArray
    ends: IntArray

    @classmethod
    def of(cls, rows: TargetRows, begin: IntArray, *, context: int, pred_len: int) -> "Origins":
        """All origins whose pred_len target rows lie in `rows`, with `context` rows before them, from `begin` on."""
        first = np.maximum(rows.first, begin + context)
        counts = np.maximum(0, rows.stop - pred_len + 1 - first)
        return cls(first, counts, np.cumsum(counts))

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def series(self, windows: npt.NDArray[np.int64]) -> IntArray:
        """The series of each window (W,)."""
        found: IntArray = np.searchsorted(self.ends, windows, side="right")
        return found

    def rows(self) -> IntArray:
        """The origin of every window (W,), in order."""
        return np.repeat(self.first - (self.ends - self.counts), self.counts) + np.arange(len(self))


def usable_windows(
    frame: PanelFrame, origins: Origins, *, seq_len: int, pred_len: int, offset: int = 0, ahead: int = 0
) -> IntArray | None:
    """The numbers (W,) of the windows that the gaps leave; None when they leave all.

    data.gaps=mask forbids a window with a made-up cell in its past, or in what it is told of its horizon: the last
    `ahead` columns. offset: rows between past and targets.
    """
    if frame.measured is None or frame.repair.policy != "mask":
        return None
    series, rows = origins.series(np.arange(len(origins))), origins.rows()
    first = np.maximum(rows - seq_len, frame.offsets[series])
    made_up = np.concatenate([[0], np.cumsum(~frame.measured.all(axis=1))])
    shut = made_up[rows] > made_up[first]
    if ahead:
        of_ahead = np.concatenate([[0], np.cumsum(~frame.measured[:, -ahead:].all(axis=1))])
        shut |= of_ahead[rows + offset + pred_len] > of_ahead[rows + offset]
    return np.flatnonzero(~shut) if shut.any() else None


def check_enough(origins: Mapping[str, Origins], frame: PanelFrame, *, needed: int, lengths: str, pad: bool) -> None:
    """UserError where a split other than the tail has no window in any series.

    needed: rows of one window. pad: whether windows may begin before their series.
    """
    for name in origins:
        if name != TAIL and not len(origins[name]):
            longest = int(frame.lengths.argmax())
            part, of = PARTS.get(name, name), f"the longest of the {len(frame)} series, '{frame.ids[longest]}',"
            raise UserError(
                f"{frame.name}: no series has a window for {part}: one needs {needed} rows ({lengths}), and "
                f"{'it' if frame.id_column is None else of} has {frame.lengths[longest]} in all. Set "
                f"{'a shorter' if pad else 'data.short=pad, a shorter seq_len or'} pred_len, or another data/split."
            )
