"""Times a little beside those of a regular grid, as a spreadsheet that adds up fractions of a day has them."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from forecast.data.values.cells import IntArray
from forecast.data.values.findings import counted
from forecast.data.values.frequency import is_even

_NEAR = 100  # a time within this part of a step is on the grid
_MOST = 0.9  # share of the times that must be so near: fewer are no grid
_SAMPLE = 100_000  # distances that tell the step
_RUN = 12  # of them that are looked at together
_UNITS = (86_400_000_000_000, 3_600_000_000_000, 60_000_000_000, 1_000_000_000, 1_000_000, 1_000, 1)  # nanoseconds


class Moved(NamedTuple):
    """How many times were moved to the grid, and the first of them, before and after, in nanoseconds since 1970."""

    times: int
    before: int
    after: int

    def note(self, total: int) -> str:
        """A sentence. total: of how many times."""
        return (
            f"{self.times} of {counted(total, 'time')} lie within 1 % of a step of a regular one and are "
            f"read as that: {pd.Timestamp(self.before)} as {pd.Timestamp(self.after)}."
        )


def on_grid(times: IntArray, distances: IntArray) -> tuple[IntArray, Moved | None]:
    """The times (N,), those near a step of the grid that most are near moved onto it; themselves where none is moved.

    times, distances: in nanoseconds; the latter (M,) between times that follow one another in a series.
    """
    distances = distances[:_SAMPLE]
    distances = distances[distances > 0]
    if not len(distances):
        return times, None
    if any((times % step == times[0] % step).all() for step in (int(np.median(distances)), _unit(distances))):
        return times, None
    runs = np.diff(np.concatenate([[0], np.cumsum(distances)])[::_RUN]) // _RUN  # steadier, but for gaps
    for unit in dict.fromkeys(map(_unit, (distances, runs) if len(runs) else (distances,))):
        phases = times % unit
        kinds, counts = np.unique(phases, return_counts=True)
        commonest = counts.argmax()
        size = next(size for size in _UNITS[3:] if size * 60 <= unit or size == 1)
        usual = round(int(kinds[commonest]) / size) * size % unit
        # A grid of its own, as ten seconds past each hour, or times that drift from the round ones.
        for anchor in (usual, 0) if counts[commonest] * 2 > len(times) else (0, usual):
            beside = (phases - anchor + unit // 2) % unit - unit // 2
            near = np.abs(beside) * _NEAR <= unit
            if near.mean() < _MOST:
                continue
            moved = np.flatnonzero(near & (beside != 0))
            if not len(moved):
                return times, None
            result = times - np.where(near, beside, 0)
            return result, Moved(len(moved), int(times[moved[0]]), int(result[moved[0]]))
    return times, None


def _unit(distances: IntArray) -> int:
    """The step, at most a day: months differ, their days do not."""
    step = int(np.median(distances))
    whole = (round(step / size) * size for size in _UNITS)  # of the coarsest unit that it is within 1 % of
    return min(next(near for near in whole if near and abs(step - near) * _NEAR <= near), _UNITS[0])


def stamps_on_grid(stamps: pd.DatetimeIndex) -> tuple[pd.DatetimeIndex, Moved | None]:
    """The timestamps (N,) of one series, in any order, as `on_grid`; themselves where one is NaT."""
    if stamps.hasnans or is_even(stamps):
        return stamps, None
    times = stamps.to_numpy().astype("datetime64[ns]").astype(np.int64)
    distances = np.diff(times)
    if (distances < 0).any():
        distances = np.diff(np.sort(times))
    result, moved = on_grid(times, distances)
    if moved is None:
        return stamps, None
    index: pd.DatetimeIndex = pd.DatetimeIndex(result.astype("datetime64[ns]")).as_unit(stamps.unit)
    return index, moved
