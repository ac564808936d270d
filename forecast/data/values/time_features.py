"""Calendar features of timestamps: what is known of the future without a forecast.

`timeF` agrees with Informer2020 at 29f2a73, utils/timefeatures.py (tests/golden); `fixed` with its timeenc=0.
Differs: the alias table is our own, so that no pandas version changes its meaning, and multiples such as
15min and anchored forms such as W-SUN are understood.
"""

import re
from typing import NamedTuple

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


class _Rule(NamedTuple):
    """What pandas counts of a timestamp; its first and last number; or how many of it make one."""

    attribute: str
    first: int | None = None
    last: int | None = None
    every: int | None = None


_RULES = {
    "second_of_minute": _Rule("second", 0, 59),
    "minute_of_hour": _Rule("minute", 0, 59),
    "hour_of_day": _Rule("hour", 0, 23),
    "day_of_week": _Rule("day_of_week", 0, 6),
    "day_of_month": _Rule("day", 1, 31),
    "day_of_year": _Rule("day_of_year", 1, 366),
    "week_of_year": _Rule("week", 1, 53),
    "month_of_year": _Rule("month", 1, 12),
    "month": _Rule("month"),
    "day": _Rule("day"),
    "weekday": _Rule("day_of_week"),
    "hour": _Rule("hour"),
    "quarter_hour": _Rule("minute", every=15),
}


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


def feature_names(freq: str, encoding: CalendarEncoding) -> tuple[str, ...]:
    """The names of the F features that `time_features` gives, in its order."""
    base = base_frequency(freq)
    if encoding == "timeF":
        return _FEATURES[base]
    if encoding == "fixed":
        return (*_FIXED, "quarter_hour") if base in _FINER_THAN_HOUR else _FIXED
    raise UserError(f"The time features '{encoding}' are not known. Choose timeF or fixed.")


def time_features(
    timestamps: pd.DatetimeIndex, freq: str, *, encoding: CalendarEncoding = "timeF"
) -> npt.NDArray[np.float64]:
    """Calendar features of timestamps (N,) -> (N, F) float64, F = len(feature_names(freq, encoding)).

    timeF: each feature spread evenly over [-0.5, 0.5]; a year's and a sub-second's frequency have none (F =
    0). fixed: whole numbers, rows of lookup tables: month 1-12, day 1-31, weekday 0-6 from Monday, hour 0-23
    and, for frequencies finer than an hour, the quarter of the hour 0-3.
    """
    names = feature_names(freq, encoding)
    features = np.empty((len(timestamps), len(names)))
    for column, name in enumerate(names):
        attribute, first, last, every = _RULES[name]
        numbers = timestamps.isocalendar()["week"] if attribute == "week" else getattr(timestamps, attribute)
        numbers = np.asarray(numbers, dtype=np.float64)
        if first is not None and last is not None:
            numbers = (numbers - first) / (last - first) - 0.5
        features[:, column] = numbers if every is None else numbers // every
    return features


def feature_rules(freq: str, encoding: CalendarEncoding) -> list[dict[str, str | int]]:
    """How each of the F features is made of a timestamp, in plain values for programs that do without this module.

    attribute: what pandas counts, `week` the ISO week. With first and last: (number - first) / (last - first) - 0.5;
    with every: number // every; else the number itself.
    """
    rules = {name: _RULES[name]._asdict().items() for name in feature_names(freq, encoding)}
    return [{"name": name, **{key: x for key, x in rule if x is not None}} for name, rule in rules.items()]
