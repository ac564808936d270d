"""Which rows of each series are forecast for training, for choosing a model, and for judging it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from forecast.data.cells import IntArray
from forecast.data.panel.frame import PanelFrame
from forecast.data.split import PARTS, DateSplit, FoldSplit, LastSplit, RowSplit, ShareSplit, Split
from forecast.errors import UserError

ANYWHERE = "train", "val", "test"


@dataclass(frozen=True, eq=False)
class PanelRows:
    """The target rows of one split: of series s the rows first[s] to stop[s] of the panel's array, perhaps none."""

    first: IntArray
    stop: IntArray


def panel_cuts(split: Split, frame: PanelFrame) -> dict[str, PanelRows]:
    """The target rows of "train", "val" and "test" in each series, by the rule of a split of one series.

    UserError for a split of a class that panels do not know.
    """
    lengths, begin = frame.lengths, frame.offsets[:-1]
    train, end = np.zeros_like(lengths), lengths
    if isinstance(split, RowSplit):
        val = np.minimum(lengths, split.train)
        test = np.minimum(lengths, val + split.val)
        end = np.minimum(lengths, test + split.test)
    elif isinstance(split, ShareSplit):
        val, test = (split.train * lengths).astype(np.int64), lengths - (split.test * lengths).astype(np.int64)
    elif isinstance(split, DateSplit):
        if frame.without_calendar:
            raise UserError(
                f"{frame.name}: data/split=dates needs dates, and these rows are steps. Set data/split=last or "
                "data/split=shares."
            )
        calendar = frame.calendar()
        places = [int(calendar.searchsorted(date)) for date in split.dates()]
        val, test, *ends = (np.clip(place - frame.steps, 0, lengths) for place in places)
        end = ends[0] if ends else lengths
    elif isinstance(split, LastSplit):
        test = np.maximum(0, lengths - split.test * split.horizon)
        val = np.maximum(0, test - split.val * split.horizon)
    elif isinstance(split, FoldSplit):
        train, val, test, end = split.cuts(lengths)
    else:
        raise UserError(
            f"data.split is a {type(split).__name__}, which cuts one series. For a panel: data/split=shares, dates or "
            "last."
        )
    cuts = {"train": (train, val), "val": (val, test), "test": (test, end)}
    return {name: PanelRows(begin + first, begin + stop) for name, (first, stop) in cuts.items()}


@dataclass(frozen=True, eq=False)
class Origins:
    """Where the forecasts of one split begin: of series s at the rows first[s], first[s] + 1, ..., counts[s] of them.

    ends (S,): the windows of all series up to and with s.
    """

    first: IntArray
    counts: IntArray
    ends: IntArray

    @classmethod
    def of(cls, rows: PanelRows, frame: PanelFrame, *, context: int, pred_len: int) -> "Origins":
        """All origins whose pred_len target rows lie in `rows`, with `context` rows of their series before them."""
        first = np.maximum(rows.first, frame.offsets[:-1] + context)
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


def check_enough(origins: Mapping[str, Origins], frame: PanelFrame, *, needed: int, lengths: str, pad: bool) -> None:
    """UserError where a split of train, val and test has no window in any series.

    needed: rows of one window. pad: whether windows may begin before their series.
    """
    for name in ANYWHERE:
        if not len(origins[name]):
            longest = int(frame.lengths.argmax())
            raise UserError(
                f"{frame.name}: no series has a window for {PARTS[name]}: one needs {needed} rows ({lengths}), and the "
                f"longest of the {len(frame)} series, '{frame.ids[longest]}', has {frame.lengths[longest]} in all. Set "
                f"{'a shorter' if pad else 'data.short=pad, a shorter seq_len or'} pred_len, or another data/split."
            )
