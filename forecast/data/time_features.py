"""Calendar features of timestamps: what is known of the future without a forecast.

`timeF` agrees with Informer2020 at 29f2a73, utils/timefeatures.py (tests/golden); `fixed` with its timeenc=0.
Differs: the alias table is our own, so that no pandas version changes its meaning, and multiples such as
15min and anchored forms such as W-SUN are understood.
"""

import re
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.errors import UserError

Encoding = Literal["timeF", "fixed"]

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
_PLACES = {  # what pandas counts, its first and its last number
    "second_of_minute": ("second", 0, 59),
    "minute_of_hour": ("minute", 0, 59),
    "hour_of_day": ("hour", 0, 23),
    "day_of_week": ("day_of_week", 0, 6),
    "day_of_month": ("day", 1, 31),
    "day_of_year": ("day_of_year", 1, 366),
    "week_of_year": ("week", 1, 53),
    "month_of_year": ("month", 1, 12),
}
_FINER_THAN_HOUR = {"subsecond", "second", "minute"}


def base_frequency(freq: str) -> str:
    """The unit of a pandas alias, old or new: '15min', '15T' and 't' -> 'minute', 'W-SUN' -> 'week', 'B' ->
    'business day', 'ms' -> 'subsecond'. UserError for an unknown one.
    """
    match = re.fullmatch(r"\d*([A-Za-z]+)(-[A-Z0-9]+)?", freq)
    base = _ALIASES.get(match[1]) if match else None
    if base is None:
        known = ", ".join(_ALIASES)
        raise UserError(
            f"The frequency '{freq}' is not known. Known are {known}, also with a number (15min) or an anchor (W-SUN)."
        )
    return base


def feature_names(freq: str, encoding: Encoding) -> tuple[str, ...]:
    """The names of the F features that `time_features` gives, in its order."""
    base = base_frequency(freq)
    if encoding == "timeF":
        return _FEATURES[base]
    if encoding == "fixed":
        return (*_FIXED, "quarter_hour") if base in _FINER_THAN_HOUR else _FIXED
    raise UserError(f"The time features '{encoding}' are not known. Choose timeF or fixed.")


def time_features(timestamps: pd.DatetimeIndex, freq: str, *, encoding: Encoding = "timeF") -> npt.NDArray[np.float64]:
    """Calendar features of timestamps (N,) -> (N, F) float64, F = len(feature_names(freq, encoding)).

    timeF: each feature spread evenly over [-0.5, 0.5]; a year's and a sub-second's frequency have none (F =
    0). fixed: whole numbers, rows of lookup tables: month 1-12, day 1-31, weekday 0-6 from Monday, hour 0-23
    and, for frequencies finer than an hour, the quarter of the hour 0-3.
    """
    names = feature_names(freq, encoding)
    columns = [_feature(name, timestamps) for name in names]
    return np.stack(columns, axis=1) if columns else np.empty((len(timestamps), 0))


def feature_rules(freq: str, encoding: Encoding) -> list[dict[str, str | int]]:
    """How each of the F features is made of a timestamp, in plain values for programs that do without this module.

    attribute: what pandas counts, `week` the ISO week. With first and last: (number - first) / (last - first) - 0.5;
    with every: number // every; else the number itself.
    """
    return [{"name": name, **_rule(name)} for name in feature_names(freq, encoding)]


def _rule(name: str) -> dict[str, str | int]:
    if name in _PLACES:
        attribute, first, last = _PLACES[name]
        return {"attribute": attribute, "first": first, "last": last}
    if name == "quarter_hour":
        return {"attribute": "minute", "every": 15}
    return {"attribute": "day_of_week" if name == "weekday" else name}


def _feature(name: str, timestamps: pd.DatetimeIndex) -> npt.NDArray[np.float64]:
    if name == "quarter_hour":
        return _numbers("minute", timestamps) // 15
    if name in _FIXED:
        return _numbers("day_of_week" if name == "weekday" else name, timestamps)
    unit, first, last = _PLACES[name]
    return (_numbers(unit, timestamps) - first) / (last - first) - 0.5


def _numbers(unit: str, timestamps: pd.DatetimeIndex) -> npt.NDArray[np.float64]:
    numbers = timestamps.isocalendar()["week"] if unit == "week" else getattr(timestamps, unit)
    return np.asarray(numbers, dtype=np.float64)
