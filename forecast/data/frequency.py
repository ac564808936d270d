"""The frequency of timestamps: found, checked to be exact, continued into the future."""

from collections import Counter

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

_UNITS = (  # nanoseconds and alias, the coarsest first
    (86_400_000_000_000, "D"),
    (3_600_000_000_000, "h"),
    (60_000_000_000, "min"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
)
_SHARE_OF_A_SERIES = 12  # rows; two weekends of business days


def infer_frequency(timestamps: pd.DatetimeIndex) -> str | None:
    """The pandas alias f with date_range(timestamps[0], periods=N, freq=f) == timestamps, or None.

    timestamps (N,), N >= 3, increasing. Only aliases that pandas 2.2 and 3 both know without a warning.
    """
    for freq in (_pandas_frequency(timestamps), _fixed_step(timestamps)):
        if freq is not None and is_exact(timestamps, freq):
            return freq
    return None


def is_exact(timestamps: pd.DatetimeIndex, freq: str) -> bool:
    """Whether the timestamps (N,) are those of `freq`, none missing, none between."""
    try:
        expected = pd.date_range(timestamps[0], periods=len(timestamps), freq=freq)
    except (
        pd.errors.OutOfBoundsDatetime,
        OverflowError,
    ):  # far too coarse a step: past the last year of pandas
        return False
    return bool((expected == timestamps).all())


def first_deviation(timestamps: pd.DatetimeIndex) -> tuple[int, str, pd.Timestamp]:
    """(row, freq, expected): the first row that does not follow its predecessor by the step usual in the
    series.

    timestamps (N,) increasing, of no exact frequency. The usual step is that of most short stretches: so a
    holiday among business days is named, and not the first weekend.
    """
    freq = _usual_frequency(timestamps)
    offset = to_offset(freq)
    assert offset is not None
    for row in range(1, len(timestamps)):
        expected = timestamps[row - 1] + offset
        if expected != timestamps[row]:
            return row, freq, expected
    raise AssertionError(f"the timestamps have the frequency {freq}")


def future_timestamps(last: pd.Timestamp, freq: str, periods: int) -> pd.DatetimeIndex:
    """The `periods` timestamps that follow `last` -> (periods,). `last` must itself be one of `freq`."""
    steps = pd.date_range(last, periods=periods + 1, freq=freq)
    assert steps[0] == last, f"{last} is no timestamp of the frequency {freq}"
    future: pd.DatetimeIndex = steps[1:]
    return future


def _pandas_frequency(timestamps: pd.DatetimeIndex) -> str | None:
    # pandas 3.1 warns that infer_freq will return an offset; an index that infers its own frequency does both
    # alike.
    found = pd.DatetimeIndex(timestamps.to_numpy(), freq="infer")
    return None if found.freq is None else str(found.freqstr)


def _fixed_step(timestamps: pd.DatetimeIndex) -> str:
    """The alias of the commonest distance."""
    steps, counts = np.unique(np.diff(timestamps.to_numpy().astype("datetime64[ns]")), return_counts=True)
    step = int(steps[counts.argmax()].astype(np.int64))
    size, alias = next((size, alias) for size, alias in _UNITS if step % size == 0)
    return alias if step == size else f"{step // size}{alias}"


def _usual_frequency(timestamps: pd.DatetimeIndex) -> str:
    width = max(3, min(_SHARE_OF_A_SERIES, len(timestamps) // 2))
    starts = np.unique(np.linspace(0, len(timestamps) - width, num=64).astype(int))
    found = [infer_frequency(timestamps[s : s + width]) for s in starts]
    votes = Counter(freq for freq in found if freq is not None)
    return votes.most_common(1)[0][0] if votes else _fixed_step(timestamps)
