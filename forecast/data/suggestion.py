"""Lengths of windows, a split and the padding that fit the rows of a file, however few they are."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from forecast.data.panel import PanelFrame
from forecast.data.seasonality import (
    CLEAR,
    Lengths,
    Season,
    calendar_unit,
    label_len_of,
    look_back,
    rank_seasons,
    seasonal_period,
    suggest_lengths,
    usual_pred_len,
)
from forecast.data.split import ANYWHERE, LastSplit, Split, WindowOrigins, panel_cuts
from forecast.data.values.cells import IntArray

# The quantiles of the rows that series learn from, by the first of which that holds a season the look-back is chosen.
NEARLY_ALL = 0.1, 0.5, 1.0


class Suggestion(NamedTuple):
    """cut: in place of the usual shares where these leave a part of the rows, or a series, without a window; None: the
    split stays. seasons: of the train rows, the best first. pad: whether series are shorter than windows.
    """

    lengths: Lengths
    seasons: Sequence[Season]
    cut: LastSplit | None = None
    pad: bool = False

    def settings(self) -> dict[str, object]:
        """Keys of train that choose split and padding."""
        settings: dict[str, object] = {"data.short": "pad"} if self.pad else {}
        if self.cut is not None:
            settings |= {"data/split": "last", "data.split.val": self.cut.val, "data.split.test": self.cut.test}
        return settings


def suggest(
    frame: PanelFrame, split: Split, *, targets: Sequence[int], pred_len: int | None, is_free: bool
) -> Suggestion:
    """What fits the rows of each series. pred_len: None for one that fits them, too.

    is_free: whether the split may be another where it leaves one of its parts without a window of any series, or series
    without a forecast: then the last horizons are judged, as far as there are rows.
    """
    rows, freq = frame.lengths, frame.freq
    seasons = train_seasons(frame, split, targets, pred_len=pred_len or 1)
    lengths = suggest_lengths(int(np.median(rows)), freq, seasons, pred_len=pred_len)
    longest, usual = int(rows.max()), usual_pred_len(freq)
    if lengths is not None:
        has_season = pred_len or lengths.seq_len >= calendar_unit(freq) or longest < 3 * usual
        if not is_free or (has_season and serves(split, frame, lengths)):
            return Suggestion(lengths, seasons, pad=bool((rows < lengths.seq_len).any()))
    if pred_len is None:
        pred_len = usual if longest >= 3 * usual else lengths.pred_len if lengths is not None else max(1, longest // 3)
    cut = last_split(rows, pred_len) if is_free else None
    seasons = train_seasons(frame, cut or split, targets, pred_len=pred_len)
    train = panel_cuts(cut or split, frame, pred_len=pred_len)["train"]
    room = train.stop - train.first - pred_len  # for the past of one window
    periods = [season.period for season in seasons if season.autocorrelation >= CLEAR]
    periods = periods or [seasonal_period(freq) or 1]
    some = [int(most) for most in np.quantile(room, NEARLY_ALL)]
    most = next((most for most in some if most >= min(periods)), some[-1])
    seq_len = look_back(periods, pred_len=pred_len, most=max(1, most // 2, min(most, *periods)))
    lengths = Lengths(seq_len, label_len_of(seq_len=seq_len, pred_len=pred_len), pred_len)
    return Suggestion(lengths, seasons, cut, pad=bool((room < seq_len).any()))


def last_split(rows: IntArray, pred_len: int) -> LastSplit:
    """The last horizon of each series for the test and the one before it for validation, one for both, or none.

    By how many leave half of the series the rows of two horizons to learn from, or any series one window.
    """
    half, longest = int(np.median(rows)), int(rows.max())
    if half >= 4 * pred_len:
        return LastSplit(horizon=pred_len)
    return LastSplit(horizon=pred_len, val=int(longest > 2 * pred_len), test=0)


def train_seasons(frame: PanelFrame, split: Split, targets: Sequence[int], *, pred_len: int) -> list[Season]:
    """The seasons of the train rows of the longest series."""
    cut, longest = panel_cuts(split, frame, pred_len=pred_len)["train"], int(frame.lengths.argmax())
    rows = slice(int(cut.first[longest]), int(cut.stop[longest]))
    return rank_seasons(np.asarray(frame.values[rows], dtype=np.float64)[:, list(targets)], frame.freq)


def serves(split: Split, frame: PanelFrame, lengths: Lengths) -> bool:
    """Whether each part of a split holds a window of these lengths of nearly every series, and all the past of one."""
    parts, begin = panel_cuts(split, frame, pred_len=lengths.pred_len), frame.offsets[:-1]
    sizes = {"context": lengths.seq_len, "pred_len": lengths.pred_len}
    counts = [WindowOrigins.of(parts[name], begin, **sizes).counts for name in ANYWHERE]
    held = all((of_part > 0).mean() > 1 - NEARLY_ALL[0] for of_part in counts)
    return held and bool((frame.lengths >= lengths.seq_len).all())
