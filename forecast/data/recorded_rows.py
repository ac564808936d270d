"""Which rows of each series a training had, and a number of their times and values: is a file the same, and longer?"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from forecast.data.panel import PanelFrame
from forecast.data.scaling import CELLS, pieces
from forecast.data.split import TargetRows
from forecast.data.values.cells import Flags, IntArray

FIRST = "first"


@dataclass(frozen=True, eq=False)
class RecordedRows:
    """Of S series the time of the first row (S,), as `PanelFrame.times` has it, and their splits (S, 3) by name.

    Of a split the first row and the end, counted from the first row of the series, and `row_hashes` of the rows up to
    that end.
    """

    first: IntArray
    splits: Mapping[str, IntArray]

    @classmethod
    def of(cls, frame: PanelFrame, splits: Mapping[str, TargetRows]) -> "RecordedRows":
        """Of a frame that is cut."""
        begin, rows = frame.offsets[:-1], splits.values()
        hashes = row_hashes(frame, begin, np.stack([part.stop for part in rows])).view(np.int64)
        parts = [
            np.stack([part.first - begin, part.stop - begin, numbers], axis=1)
            for part, numbers in zip(rows, hashes, strict=True)
        ]
        return cls(frame.times()[frame.steps], dict(zip(splits, parts, strict=True)))

    @property
    def ends(self) -> IntArray:
        """The end of the last split (S,)."""
        return np.max([rows[:, 1] for rows in self.splits.values()], axis=0)

    def state(self) -> dict[str, Tensor]:
        """Tensors, for a checkpoint."""
        return {FIRST: torch.from_numpy(self.first), **{k: torch.from_numpy(v) for k, v in self.splits.items()}}

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], series: int) -> "RecordedRows":
        """From what `state` gave of so many series. ValueError for those of others."""
        splits = {name: part.numpy() for name, part in state.items() if name != FIRST}
        if {(*state[FIRST].shape, 3), *(rows.shape for rows in splits.values())} != {(series, 3)}:
            raise ValueError(f"is not of {series} series")
        return cls(state[FIRST].numpy(), splits)

    def begins(self, frame: PanelFrame, places: IntArray) -> IntArray:
        """The row of a frame that has the first time of each of its series (S',), perhaps outside of that; -1: none.

        places (S',): the numbers of these series here, -1 of one that was not recorded.
        """
        times, first = frame.times(), self.first[places]
        steps = np.minimum(np.searchsorted(times, first), len(times) - 1)
        rows = frame.offsets[:-1] + steps - frame.steps
        return np.where((places >= 0) & (times[steps] == first) & (rows >= frame.offsets[:-1]), rows, -1)

    def same(self, frame: PanelFrame, places: IntArray, split: str | None = None) -> Flags:
        """Which series (S',) of a frame hold the recorded rows up to the end of a split, None: of the last one."""
        name = split or max(self.splits, key=lambda split: int(self.splits[split][:, 1].sum()))
        begin, recorded = self.begins(frame, places), self.splits[name][places]
        stop = begin + recorded[:, 1]
        held = (begin >= 0) & (stop <= frame.offsets[1:])
        begin, stop = (np.where(held, rows, frame.offsets[:-1]) for rows in (begin, stop))
        return held & (row_hashes(frame, begin, stop).view(np.int64) == recorded[:, 2])

    def placed(self, frame: PanelFrame, places: IntArray) -> dict[str, TargetRows]:
        """The recorded splits in the rows of a frame that has them; none of a series that was not recorded."""
        begin, known = self.begins(frame, places), places >= 0
        placed = {}
        for name, rows in self.splits.items():
            first, stop = (np.where(known, begin + rows[places, i], frame.offsets[:-1]) for i in (0, 1))
            placed[name] = TargetRows(first, stop)
        return placed


def row_hashes(frame: PanelFrame, first: IntArray, stop: IntArray) -> npt.NDArray[np.uint64]:
    """A number of the times and the measured values in rows first[s] to stop[..., s] of each series -> (..., S)."""
    times, hashes = frame.times().view(np.uint64), np.zeros(stop.shape, dtype=np.uint64)
    columns = mixed(np.arange(len(frame.columns), dtype=np.uint64))
    for some in pieces(frame, CELLS):
        low, high = int(frame.offsets[some.start]), int(frame.offsets[some.stop])
        lengths = frame.lengths[some]
        steps = np.arange(high - low) + np.repeat(frame.steps[some] - frame.offsets[:-1][some] + low, lengths)
        cells = (np.asarray(frame.values[low:high]) + 0.0).view(np.uint64)  # no -0.0
        if frame.measured is not None:
            cells = np.where(frame.measured[low:high], cells, columns)
        rows = mixed(mixed(cells ^ columns) + mixed(times[steps])[:, None]).sum(axis=1, dtype=np.uint64)
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(rows)])
        hashes[..., some] = sums[np.maximum(first, stop)[..., some] - low] - sums[first[some] - low]
    return hashes


def mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014): each bit of a number changes half of the bits."""
    x: npt.NDArray[np.uint64] = numbers + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
