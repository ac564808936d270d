"""Which rows of each series are forecast for training, for choosing a model, and for judging it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.panel import PanelFrame
from forecast.data.split import Split
from forecast.data.values.cells import IntArray
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

    def series(self, windows: npt.NDArray[np.int64]) -> IntArray:
        """The series of each window (W,)."""
        series: IntArray = np.searchsorted(self.ends, windows, side="right")
        return series

    def rows(self) -> IntArray:
        """The origin of every window (W,), in order."""
        return np.repeat(self.first - (self.ends - self.counts), self.counts) + np.arange(len(self))


def usable_windows(
    frame: PanelFrame, origins: WindowOrigins, *, seq_len: int, pred_len: int, offset: int = 0, ahead: int = 0
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
