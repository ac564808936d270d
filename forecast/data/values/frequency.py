"""The frequency of timestamps: found, checked to be exact, continued into the future.

Times a little beside a regular grid are taken for its own: a spreadsheet that adds up fractions of a day has such.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import Tick

from forecast.data.values.cells import IntArray, counted
from forecast.errors import UserError

_UNITS = (  # nanoseconds and alias, the coarsest first
    (86_400_000_000_000, "D"),
    (3_600_000_000_000, "h"),
    (60_000_000_000, "min"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
)
_NEAR = 100  # a time within this part of a step is on the grid
_MOST = 0.9  # share of the times that must be so near: fewer are no grid


def infer_frequency(timestamps: pd.DatetimeIndex) -> str | None:
    """The pandas alias f with date_range(timestamps[0], periods=N, freq=f) == timestamps, or None.

    timestamps (N,), N >= 3, increasing. Only aliases that pandas 2.2 and 3 both know without a warning.
    """
    step = _commonest_step(timestamps)
    # pandas 3.1 warns that infer_freq will return an offset; an index that infers its own frequency does both alike.
    own = pd.DatetimeIndex(timestamps.to_numpy(), freq="infer").freqstr
    # Below a day pandas knows hours of business too, of which no calendar has features.
    candidates = [step] if own is None or are_below_a_day(timestamps) else [str(own), step]
    return next((freq for freq in candidates if rows_missing(timestamps, freq) == 0), None)


def are_below_a_day(timestamps: pd.DatetimeIndex) -> bool:
    """Whether two of the timestamps (N,), N >= 2, increasing, are less than the shortest day apart."""
    return bool(np.diff(timestamps.to_numpy()).min() < np.timedelta64(23, "h"))


def is_below_a_day(freq: str | pd.offsets.BaseOffset) -> bool:
    """Whether the steps of a frequency are shorter than a day, so that no clock but UTC has all of them."""
    offset = to_offset(freq)
    return isinstance(offset, Tick) and pd.Timedelta(offset) < pd.Timedelta(days=1)


def rows_missing(timestamps: pd.DatetimeIndex, freq: str) -> int | None:
    """How many timestamps of `freq` are not there between the first and the last; None when one is off its grid.

    timestamps (N,) increasing.
    """
    present, size = _on_grid(timestamps, freq)
    return size - len(timestamps) if present.all() else None


def grid_frequency(timestamps: pd.DatetimeIndex) -> str | None:
    """The pandas alias of the grid that holds all timestamps (N,), increasing, and lacks the fewest rows; or None."""
    missing = {freq: rows_missing(timestamps, freq) for freq in _likely_frequencies(timestamps)}
    counts = {freq: count for freq, count in missing.items() if count is not None}
    return min(counts, key=lambda freq: counts[freq], default=None)


def first_deviation(timestamps: pd.DatetimeIndex) -> tuple[int, str, str]:
    """(row, freq, what it expects): the first row between two steps of the frequency that holds most and lacks fewest.

    timestamps (N,) increasing, on no grid.
    """
    grids = {freq: _on_grid(timestamps, freq) for freq in _likely_frequencies(timestamps)}
    freq = max(grids, key=lambda freq: 2 * grids[freq][0].sum() - grids[freq][1])
    row = int(grids[freq][0].argmin())
    if row == 0:  # within a month, which has nothing to follow
        return 1, freq, f"{timestamps[1] - to_offset(freq)} before it"
    return row, freq, str(timestamps[row - 1] + to_offset(freq))


def _likely_frequencies(timestamps: pd.DatetimeIndex) -> list[str]:
    """The likelier first: of two that lack as many rows the first is taken."""
    step = _commonest_step(timestamps)
    if are_below_a_day(timestamps):
        return [step]
    day, month = f"{timestamps[0]:%a}".upper(), f"{timestamps[0]:%b}".upper()
    anchored = [f"{unit}-{month}" for unit in ("QS", "QE", "YS", "YE")]
    return [f"W-{day}", "MS", "ME", *anchored, "BMS", "BME", step, "B"]


def future_timestamps(last: pd.Timestamp, freq: str, periods: int) -> pd.DatetimeIndex:
    """The `periods` timestamps that follow `last`, itself one of `freq` -> (periods,).

    UserError where they leave the years that pandas knows.
    """
    try:
        steps = pd.date_range(last, periods=periods + 1, freq=freq)
        steps.as_unit("ns")  # pandas 3 counts on in microseconds, which wrap around in a file of nanoseconds
    except (ValueError, OverflowError) as error:  # so are pandas' own errors
        raise UserError(
            f"{periods} steps of the frequency {freq} after {last} go beyond the year {pd.Timestamp.max.year}, the "
            "last that can be counted. Give a time or a frequency that leads less far."
        ) from error
    return steps[1:]


def _commonest_step(timestamps: pd.DatetimeIndex) -> str:
    """The alias of the commonest distance."""
    steps, counts = np.unique(np.diff(timestamps.to_numpy().astype("datetime64[ns]")), return_counts=True)
    counts[steps <= np.timedelta64(0)] = 0  # three centuries overflow
    step = int(steps[counts.argmax()].astype(np.int64))
    size, alias = next((size, alias) for size, alias in _UNITS if step % size == 0)
    return alias if step == size else f"{step // size}{alias}"


def _on_grid(timestamps: pd.DatetimeIndex, freq: str) -> tuple[npt.NDArray[np.bool_], int]:
    """(which of the timestamps (N,) are those of `freq` counted from the first, how many the whole grid has)."""
    offset = to_offset(freq)
    if isinstance(offset, Tick):  # counted, not listed: a wrong guess of nanoseconds would list years of them
        times = timestamps.as_unit("ns").asi8
        since = (times - times[0]).view(np.uint64)  # three centuries overflow an int64
        return since % np.uint64(offset.nanos) == 0, int(since[-1]) // offset.nanos + 1
    try:
        grid = pd.date_range(timestamps[0], timestamps[-1], freq=freq)
    except (pd.errors.OutOfBoundsDatetime, OverflowError):  # the last year of pandas has no further stamp of it
        return np.zeros(len(timestamps), dtype=np.bool_), 0
    return np.asarray(timestamps.isin(grid)), len(grid)


def on_grid(times: IntArray, distances: IntArray) -> tuple[IntArray, str | None]:
    """The times (N,), moved onto the round times of a step, or half a step beside, if nine in ten are near; what was.

    times, distances: in nanoseconds; the latter (M,) between times that follow one another in a series.
    """
    distances = distances[distances > 0]
    median = int(np.median(distances)) if len(distances) else 1
    whole = (round(median / size) * size for size, _ in _UNITS)  # of the coarsest unit that it is within 1 % of
    step = next(near for near in whole if near and abs(median - near) * _NEAR <= near)
    step = min(step, _UNITS[0][0])  # months differ, their days do not
    if any((times % period == times[0] % period).all() for period in (median, step)):
        return times, None
    for anchor in (0, step // 2):
        beside = (times - anchor + step // 2) % step - step // 2
        near = np.abs(beside) * _NEAR <= step
        if near.mean() >= _MOST and beside[near].any():
            result = times - np.where(near, beside, 0)
            first, count = int((result != times).argmax()), np.count_nonzero(result != times)
            return result, (
                f"{count} of {counted(len(times), 'time')} lie within 1 % of a step of a regular one and are "
                f"read as that: {pd.Timestamp(times[first])} as {pd.Timestamp(result[first])}."
            )
    return times, None
