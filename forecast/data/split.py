"""Which rows of each series are forecast for training, for choosing a model, and for judging it.

A `Split` cuts one series or many; `TargetRows` are the rows of a split that can be forecast, for each series.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from forecast.bounds import SHARE_ABOVE_0, Positive, at_least
from forecast.data.panel import PanelFrame
from forecast.data.reading.layout import time_of
from forecast.data.values.cells import IntArray
from forecast.errors import UserError

ANYWHERE = "train", "val", "test"
TAIL = "tail"  # the rows after the test


@dataclass(frozen=True, kw_only=True)
class Split(ABC):
    """A rule that cuts series into train, val, test and, if rows are left, tail. The config's check has ranges."""

    @abstractmethod
    def cuts(self, lengths: IntArray, frame: PanelFrame | None = None) -> IntArray:
        """Of series with so many rows (S,) the first row of train, of val and of test, and the end of the test (4, S).

        They are counted from the first row of each. frame: of the series, for a rule that asks its calendar.
        """

    def for_intervals(self, windows: int, lengths: IntArray, *, least: int, pred_len: int) -> str | None:
        """Overrides with which validation holds so many windows that do not overlap, and train `least` rows somewhere.

        A fifth of the rows at most is for the test. None where there are too few for that.
        """
        for test in range(max(1, int(np.median(lengths)) // (5 * pred_len)), 0, -1):
            for val in range(1, windows + 1):
                first, middle, last, _ = LastSplit(horizon=pred_len, val=val, test=test).cuts(lengths)
                if ((last - middle) // pred_len).sum() >= windows and (middle - first).max() >= least:
                    return f"data/split=last data.split.val={val} data.split.test={test}"
        return None


@dataclass(frozen=True, kw_only=True)
class RowSplit(Split):
    """Numbers of rows: the ETT files are cut so, into 12, 4 and 4 months of 30 days (Informer2020)."""

    train: int
    val: int
    test: int

    def cuts(self, lengths: IntArray, frame: PanelFrame | None = None) -> IntArray:
        """The first `train` rows, then `val`, then `test`: of a shorter series what there is. UserError if all are."""
        ends, longest = np.cumsum([0, self.train, self.val, self.test]), int(lengths.max())
        if ends[-1] > longest:
            raise UserError(
                f"data.split needs {self.train} + {self.val} + {self.test} = {ends[-1]} rows, and the longest series "
                f"has {longest}. Give smaller data.split.train, val and test, set data/split=shares, or evaluate with "
                "split=all."
            )
        return np.minimum(lengths, ends[:, None])


@dataclass(frozen=True, kw_only=True)
class ShareSplit(Split):
    """Shares of the rows; train and test are rounded down, val is the rest (Informer2020, Dataset_Custom)."""

    train: float = 0.7
    val: float = 0.1
    test: float = 0.2

    def cuts(self, lengths: IntArray, frame: PanelFrame | None = None) -> IntArray:
        """The first share is train, the last test; no tail is left."""
        val, test = (self.train * lengths).astype(np.int64), lengths - (self.test * lengths).astype(np.int64)
        return np.stack([np.zeros_like(lengths), val, test, lengths])


@dataclass(frozen=True, kw_only=True)
class DateSplit(Split):
    """Dates: the first timestamp of val, the first of test, and the first that is not forecast any more."""

    val_start: str
    test_start: str
    end: str | None = None

    def cuts(self, lengths: IntArray, frame: PanelFrame | None = None) -> IntArray:
        """Each part begins at the first row not before its date. UserError if unreadable or unordered."""
        assert frame is not None
        keys = [key for key in ("val_start", "test_start", "end") if getattr(self, key) is not None]
        dates = [time_of(getattr(self, key), f"data.split.{key}") for key in keys]
        if dates != sorted(set(dates)):
            raise UserError(
                f"data.split has the dates {' then '.join(map(str, dates))}; val_start must be before test_start, and "
                "test_start before end."
            )
        rows = np.clip(frame.shown(frame.calendar()).searchsorted(dates)[:, None] - frame.steps, 0, lengths)
        return np.stack([np.zeros_like(lengths), *rows, lengths][:4])


@dataclass(frozen=True, kw_only=True)
class LastSplit(Split):
    """The last rows for the test, those before them for validation: horizons of `horizon` steps (M4: one of each).

    test=0: the rows of validation are the test, too. val=0 beside it: no row is judged.
    """

    horizon: Positive
    val: Annotated[int, at_least(0)] = 1
    test: Annotated[int, at_least(0)] = 1

    def cuts(self, lengths: IntArray, frame: PanelFrame | None = None) -> IntArray:
        """Val and test end with the series; train is what is left before them, perhaps nothing."""
        test = np.maximum(0, lengths - self.test * self.horizon)
        return np.stack([np.zeros_like(lengths), np.maximum(0, test - self.val * self.horizon), test, lengths])


@dataclass(frozen=True, kw_only=True)
class FoldSplit(Split):
    """A fold of a backtest: `horizon` rows are the test; those before them, and none after, are learned from.

    The test of the last fold is the end of the series, that of each fold before begins `step` rows earlier. fold:
    which, from 0 on; None: all are the test, and the rows before the first are learned from. val: the share of these
    that choose the checkpoint, at least one horizon. window: sliding leaves out the oldest rows, so that each fold
    learns from as many as the first.
    """

    folds: Positive
    step: Positive
    horizon: Positive
    fold: Annotated[int, at_least(0)] | None = None
    window: Literal["expanding", "sliding"] = "expanding"
    val: Annotated[float, SHARE_ABOVE_0] = 0.125

    def cuts(self, lengths: IntArray, frame: PanelFrame | None = None) -> IntArray:
        """The rows after the test, of a later fold, are the tail. Train is empty where a series is too short."""
        fold = self.fold or 0
        test = lengths - self.horizon - (self.folds - 1 - fold) * self.step
        end = lengths if self.fold is None else test + self.horizon
        train = np.full_like(lengths, fold * self.step if self.window == "sliding" else 0)
        learned = np.maximum(0, test - train)
        val = test - np.minimum(learned, np.maximum(self.horizon, (self.val * learned).astype(np.int64)))
        return np.maximum(0, [np.minimum(train, val), val, test, end])

    def for_intervals(self, windows: int, lengths: IntArray, *, least: int, pred_len: int) -> str | None:
        """As `Split`, of the first fold: the share of the rows before it that a backtest keeps for validation."""
        learned = int(self.cuts(lengths)[2].max())
        share = math.ceil(1000 * windows * pred_len / max(1, learned)) / 1000
        return f"backtest.val={share:g}" if learned - int(share * learned) >= least else None


@dataclass(frozen=True, eq=False)
class TargetRows:
    """The target rows of one split: of series s the rows first[s] to stop[s] of the panel's array, perhaps none."""

    first: IntArray
    stop: IntArray

    @classmethod
    def of(cls, rows: range) -> "TargetRows":
        """Those of one series."""
        return cls(np.array([rows.start]), np.array([rows.stop]))


def panel_cuts(split: Split, frame: PanelFrame, *, pred_len: int) -> dict[str, TargetRows]:
    """The target rows of "train", "val", "test" and, when those of a series can hold a window, "tail" in each series.

    UserError as `Split.cuts`.
    """
    edges = np.vstack([split.cuts(frame.lengths, frame) + frame.offsets[:-1], frame.offsets[1:]])
    assert (np.diff(edges, axis=0) >= 0).all(), f"the parts of {split} share rows"
    rows = dict(zip((*ANYWHERE, TAIL), map(TargetRows, edges[:-1], edges[1:]), strict=True))
    if isinstance(split, LastSplit) and not split.test:
        rows["test"] = rows["val"]
    if not (rows[TAIL].stop - rows[TAIL].first >= pred_len).any():
        del rows[TAIL]
    return rows


@dataclass(frozen=True, eq=False)
class WindowOrigins:
    """Where the forecasts of one split begin: of series s at the rows first[s], first[s] + 1, ..., counts[s] of them.

    ends (S,): the windows of all series up to and with s.
    """

    first: IntArray
    counts: IntArray
    ends: IntArray

    @classmethod
    def of(cls, rows: TargetRows, begin: IntArray, *, context: int, pred_len: int) -> "WindowOrigins":
        """All origins whose pred_len target rows lie in `rows`, with `context` rows before them, from `begin` on."""
        first = np.maximum(rows.first, begin + context)
        counts = np.maximum(0, rows.stop - pred_len + 1 - first)
        return cls(first, counts, np.cumsum(counts))

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def places(self, windows: IntArray) -> tuple[IntArray, IntArray]:
        """The series of windows (W,), and the rows at which they begin."""
        series = np.searchsorted(self.ends, windows, side="right")
        return series, (self.first - (self.ends - self.counts))[series] + windows


def usable_windows(
    frame: PanelFrame, origins: WindowOrigins, *, seq_len: int, pred_len: int, offset: int = 0, ahead: int = 0
) -> IntArray | None:
    """The numbers (W,) of the windows that the gaps leave; None when they leave all.

    data.gaps=mask forbids a window with a made-up cell in its past, or in what it is told of its horizon: the last
    `ahead` columns. offset: rows between past and targets.
    """
    if frame.measured is None or frame.repair.policy != "mask":
        return None
    series, rows = origins.places(np.arange(len(origins)))
    first = np.maximum(rows - seq_len, frame.offsets[series])
    made_up = np.concatenate([[0], np.cumsum(~frame.measured.all(axis=1))])
    shut = made_up[rows] > made_up[first]
    if ahead:
        of_ahead = np.concatenate([[0], np.cumsum(~frame.measured[:, -ahead:].all(axis=1))])
        shut |= of_ahead[rows + offset + pred_len] > of_ahead[rows + offset]
    return np.flatnonzero(~shut) if shut.any() else None
