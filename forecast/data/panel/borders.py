"""What a panel has filled in before the end of a split owes nothing to the rows after it."""

import mmap
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from forecast.data.cells import FloatArray
from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.splits import PanelRows


def filled_within(frame: PanelFrame, splits: Iterable[PanelRows]) -> PanelFrame:
    """With data.gaps=interpolate a gap over the end of a split is on a line to a row of the next one.

    Its cells up to that end get the value before the gap instead, as they would if the file ended there.
    """
    if frame.measured is None or frame.repair.policy != "interpolate":
        return frame
    begin, end = frame.offsets[:-1], frame.offsets[1:]
    found = []
    for rows in splits:
        inside = (rows.stop > begin) & (rows.stop < end)
        last = rows.stop[inside] - 1
        found += [(int(last[place]), int(column)) for place, column in np.argwhere(~frame.measured[last])]
    if not found:
        return frame
    values = private(frame.values)
    for last_row, column in found:
        row = last_row
        begin_row = int(begin[np.searchsorted(begin, row, side="right") - 1])
        while not frame.measured[row, column] and row > begin_row:
            row -= 1
        values[row + 1 : last_row + 1, column] = values[row, column]
    return replace(frame, values=values)


def private(values: FloatArray) -> FloatArray:
    """The same numbers in memory of one's own; of a file that is mapped its pages, which are copied when written to."""
    if isinstance(values, np.memmap) and isinstance(values.base, mmap.mmap):
        where = {"dtype": values.dtype, "offset": values.offset, "shape": values.shape}
        mapped: FloatArray = np.memmap(values.filename, mode="c", **where)
        return mapped
    copied: FloatArray = values.copy()
    return copied
