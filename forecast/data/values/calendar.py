"""The frequency of timestamps: found, checked to be exact, continued into the future; and their calendar features.

Times a little beside a regular grid are taken for its own: a spreadsheet that adds up fractions of a day has such.
`timeF` agrees with Informer2020 at 29f2a73, utils/timefeatures.py (tests/golden); `fixed` with its timeenc=0.
Differs: the alias table is our own, so that no pandas version changes its meaning, and multiples such as
15min and anchored forms such as W-SUN are understood.
"""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import Tick

from forecast.bounds import CalendarEncoding
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
    # Below a day pandas knows hours of business too, of which no calendar has features.
    # pandas 3.1 warns that infer_freq will return an offset; an index that infers its own frequency does both alike.
    own = None if are_below_a_day(timestamps) else pd.DatetimeIndex(timestamps.to_numpy(), freq="infer").freqstr
    candidates = filter(None, (own, commonest_step(timestamps)))
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
    """(row, freq, what it expects): the first row between two steps of the frequency that holds most and lacks few.

    timestamps (N,) increasing, on no grid.
    """
    grids = {freq: _on_grid(timestamps, freq) for freq in _likely_frequencies(timestamps)}
    freq = max(grids, key=lambda freq: (grids[freq][1] <= 2 * len(timestamps), grids[freq][0].sum(), -grids[freq][1]))
    row = int(grids[freq][0].argmin())
    if row == 0:  # within a month, which has nothing to follow
        return 1, freq, f"{timestamps[1] - to_offset(freq)} before it"
    return row, freq, str(timestamps[row - 1] + to_offset(freq))


def _likely_frequencies(timestamps: pd.DatetimeIndex) -> list[str]:
    """The likelier first: of two that lack as many rows the first is taken."""
    step = commonest_step(timestamps)
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


def commonest_step(timestamps: pd.DatetimeIndex) -> str:
    """The alias of the commonest distance."""
    counts = pd.Series(np.diff(timestamps.as_unit("ns").asi8)).value_counts().sort_index()
    step = int(counts[counts.index > 0].idxmax())  # three centuries overflow
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


# What is known of the future without a forecast

# Case matters where pandas makes it matter: MS is a month's start, ms a millisecond; M a month, min a minute.
_ALIASES: dict[str, str] = {
    alias: base
    for base, aliases in {
        "subsecond": "ms us ns L U N l u",
        "second": "s S sec",
        "minute": "min t T",
        "hour": "h H",
        "day": "d D",
        "business day": "b B",
        "week": "w W",
        "month": "m M ME MS BM BME BMS SM SME SMS WOM LWOM",
        "quarter": "q Q QE QS BQ BQE BQS",
        "year": "y Y a A YE YS AS BY BA BYE BYS BAS",
    }.items()
    for alias in aliases.split()
}
_DAY = ("day_of_week", "day_of_month", "day_of_year")
_FEATURES: dict[str, tuple[str, ...]] = {
    "subsecond": (),
    "second": ("second_of_minute", "minute_of_hour", "hour_of_day", *_DAY),
    "minute": ("minute_of_hour", "hour_of_day", *_DAY),
    "hour": ("hour_of_day", *_DAY),
    "day": _DAY,
    "business day": _DAY,
    "week": ("day_of_month", "week_of_year"),
    "month": ("month_of_year",),
    "quarter": ("month_of_year",),
    "year": (),
}
_FIXED = ("month", "day", "weekday", "hour")
_FINER_THAN_HOUR = {"subsecond", "second", "minute"}


# What pandas counts of a timestamp; its first and last number; or how many of it make one.
_RULES: dict[str, dict[str, str | int]] = {
    "second_of_minute": {"attribute": "second", "first": 0, "last": 59},
    "minute_of_hour": {"attribute": "minute", "first": 0, "last": 59},
    "hour_of_day": {"attribute": "hour", "first": 0, "last": 23},
    "day_of_week": {"attribute": "day_of_week", "first": 0, "last": 6},
    "day_of_month": {"attribute": "day", "first": 1, "last": 31},
    "day_of_year": {"attribute": "day_of_year", "first": 1, "last": 366},
    "week_of_year": {"attribute": "week", "first": 1, "last": 53},
    "month_of_year": {"attribute": "month", "first": 1, "last": 12},
    "month": {"attribute": "month"},
    "day": {"attribute": "day"},
    "weekday": {"attribute": "day_of_week"},
    "hour": {"attribute": "hour"},
    "quarter_hour": {"attribute": "minute", "every": 15},
}


def base_frequency(freq: str) -> str:
    """The unit of a pandas alias, old or new: '15min', '15T' and 't' -> 'minute', 'W-SUN' -> 'week', 'B' ->
    'business day', 'ms' -> 'subsecond'. UserError for an unknown one.
    """
    base = _ALIASES.get(re.sub(r"^\d+|-[A-Z0-9]+$", "", freq))
    if base is None:
        known = ", ".join(_ALIASES)
        raise UserError(
            f"The frequency '{freq}' is not known. Known are {known}, also with a number (15min) or an anchor (W-SUN)."
        )
    return base


def feature_names(freq: str, encoding: CalendarEncoding) -> tuple[str, ...]:
    """The names of the F features that `time_features` gives, in its order."""
    base = base_frequency(freq)
    fixed = (*_FIXED, "quarter_hour") if base in _FINER_THAN_HOUR else _FIXED
    return _FEATURES[base] if encoding == "timeF" else fixed


def time_features(
    timestamps: pd.DatetimeIndex, freq: str, *, encoding: CalendarEncoding = "timeF"
) -> npt.NDArray[np.float64]:
    """Calendar features of timestamps (N,) -> (N, F) float64, F = len(feature_names(freq, encoding)).

    timeF: each feature spread evenly over [-0.5, 0.5]; a year's and a sub-second's frequency have none (F =
    0). fixed: whole numbers, rows of lookup tables: month 1-12, day 1-31, weekday 0-6 from Monday, hour 0-23
    and, for frequencies finer than an hour, the quarter of the hour 0-3.
    """
    rules = feature_rules(freq, encoding)
    features = np.empty((len(timestamps), len(rules)))
    for column, rule in enumerate(rules):
        calendar = timestamps.isocalendar() if rule["attribute"] == "week" else timestamps
        numbers = np.asarray(getattr(calendar, str(rule["attribute"])), dtype=np.float64)
        if "last" in rule:
            numbers = (numbers - int(rule["first"])) / (int(rule["last"]) - int(rule["first"])) - 0.5
        features[:, column] = numbers // int(rule["every"]) if "every" in rule else numbers
    return features


def feature_rules(freq: str, encoding: CalendarEncoding) -> list[dict[str, str | int]]:
    """How each of the F features is made of a timestamp, in plain values for programs that do without this module.

    attribute: what pandas counts, `week` the ISO week. With first and last: (number - first) / (last - first) - 0.5;
    with every: number // every; else the number itself.
    """
    return [{"name": name, **_RULES[name]} for name in feature_names(freq, encoding)]
