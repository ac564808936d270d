"""Which windows may be used beside rows that were filled in."""

import numpy as np
import numpy.typing as npt

from forecast.data.frame import SeriesFrame


def usable_windows(
    frame: SeriesFrame, rows: range, *, seq_len: int, pred_len: int, offset: int = 0
) -> npt.NDArray[np.int64] | None:
    """The numbers (W,) of the windows inside `rows` that the gaps leave; None when they leave all.

    offset: how many rows lie between a window's past and its targets; a filled row among them is not read.
    mask: those that read no filled row. interpolate: those whose last past row is not filled, since its value was
    drawn towards the row after the gap, a row of the future; nor may the values of the split's last rows come from
    rows after the split. forward_fill: all.
    """
    filled = frame.filled
    length = seq_len + offset + pred_len
    count = len(rows) - length + 1
    if filled is None or count < 1 or frame.repair.policy == "forward_fill":
        return None
    filled = filled[rows.start : rows.stop]
    if frame.repair.policy == "mask":
        before = np.concatenate([[0], np.cumsum(filled)])
        past = before[seq_len : seq_len + count] > before[:count]
        shut = past | (before[length:] > before[seq_len + offset : seq_len + offset + count])
    else:
        known = np.flatnonzero(~filled)
        end = int(known[-1]) + 1 if known.size else 0
        shut = filled[seq_len - 1 : seq_len - 1 + count] | (np.arange(count) + length > end)
    return np.flatnonzero(~shut) if shut.any() else None
