"""Calendar features of timestamps: what is known of the future without a forecast.

`timeF` agrees with Informer2020 at 29f2a73, utils/timefeatures.py (tests/golden); `fixed` with its timeenc=0.
Differs: the alias table is our own, so that no pandas version changes its meaning, and multiples such as
15min and anchored forms such as W-SUN are understood.
"""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.bounds import CalendarEncoding
from forecast.errors import UserError

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
