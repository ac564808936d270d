"""The season a naive forecast repeats."""

from pandas.tseries.frequencies import to_offset

from forecast.data.time_features import base_frequency

# Steps of one unit in the season that people expect of it: a day of seconds, minutes and hours, a week of days, a year
# of weeks, months and quarters.
UNITS_PER_SEASON = {
    "second": 86_400,
    "minute": 1_440,
    "hour": 24,
    "day": 7,
    "business day": 5,
    "week": 52,
    "month": 12,
    "quarter": 4,
}


def seasonal_period(freq: str) -> int | None:
    """Steps of a frequency in its season: 24 for 'h', 96 for '15min', 12 for 'ME'; None when it has none.

    None for years and for parts of a second, and when a step does not divide the season ('7min').
    """
    units = UNITS_PER_SEASON.get(base_frequency(freq))
    step = to_offset(freq).n
    return None if units is None or units % step or units == step else units // step
