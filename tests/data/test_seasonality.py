"""The season that a naive forecast repeats."""

import pytest

from forecast.data.seasonality import seasonal_period


@pytest.mark.parametrize(
    "freq, period",
    [
        ("h", 24),
        ("3h", 8),
        ("15min", 96),
        ("min", 1440),
        ("s", 86_400),
        ("D", 7),
        ("B", 5),
        ("W-SUN", 52),
        ("MS", 12),
        ("ME", 12),
        ("QS-OCT", 4),
    ],
)
def test_the_season_is_a_day_a_week_or_a_year_in_steps(freq, period):
    assert seasonal_period(freq) == period


@pytest.mark.parametrize("freq", ["YS-JAN", "100ms", "7min", "5h", "24h", "7D"])
def test_a_step_that_does_not_divide_its_season_or_is_it_has_none(freq):
    assert seasonal_period(freq) is None
