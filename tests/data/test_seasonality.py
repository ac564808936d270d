"""The season that a naive forecast repeats, the one that a file shows, and lengths that go with it."""

import numpy as np
import pytest

from forecast.data.seasonality import Season, autocorrelation, find_season, seasonal_period, suggest_lengths

PERIODS = {"h": 24, "3h": 8, "15min": 96, "min": 1440, "s": 86_400, "D": 7, "B": 5}
PERIODS |= {"W-SUN": 52, "MS": 12, "ME": 12, "QS-OCT": 4}


@pytest.mark.parametrize(("freq", "period"), PERIODS.items())
def test_the_season_is_a_day_a_week_or_a_year_in_steps(freq, period):
    assert seasonal_period(freq) == period


@pytest.mark.parametrize("freq", ["YS-JAN", "100ms", "7min", "5h", "24h", "7D"])
def test_a_step_that_does_not_divide_its_season_or_is_it_has_none(freq):
    assert seasonal_period(freq) is None


def test_the_autocorrelation_is_that_of_the_series_without_its_trend():
    steps = np.arange(2400)
    season = np.sin(2 * np.pi * steps / 24)
    assert autocorrelation(season + steps / 50, 24) == pytest.approx(1, abs=1e-6)
    assert autocorrelation(season, 12) == pytest.approx(-1, abs=0.01)
    assert abs(autocorrelation(np.random.default_rng(0).normal(size=24_000), 24)) < 0.08
    assert autocorrelation(np.ones(2400), 24) == 0


def test_a_longer_season_is_taken_only_when_it_is_clearer():
    steps = np.arange(2400)
    day, week = np.sin(2 * np.pi * steps / 24), np.sin(2 * np.pi * steps / 168)
    assert find_season(day[:, None], "h")[:2] == (24, "a day")
    weekend = np.where(steps // 24 % 7 < 5, day, 0.1 * day)
    assert find_season((weekend + week)[:, None], "h")[:2] == (168, "a week")
    assert find_season(day[:, None], "YS-JAN") is None
    assert find_season(np.c_[np.ones(2400), day], "h").autocorrelation > 0.9  # what never moves has no say


@pytest.mark.parametrize(
    ("rows", "period", "expected"),
    [
        (17420, 24, (96, 48, 24)),
        (69680, 96, (192, 96, 96)),
        (500, 24, (72, 36, 24)),
        (2000, 7, (98, 49, 21)),
        (200, 12, (24, 12, 12)),
        (600, 12, (96, 48, 24)),
        (100_000, 1440, (720, 360, 24)),
        (11, 24, None),
    ],
)
def test_lengths_are_whole_seasons_that_fit_the_rows(rows, period, expected):
    lengths = suggest_lengths(rows, Season(period, "", 0.9))
    assert lengths == expected
    if lengths is not None and period <= 720:
        assert lengths.seq_len % period == lengths.pred_len % period == 0


def test_a_weak_season_does_not_bind_the_lengths():
    assert suggest_lengths(17420, Season(7, "a week", 0.1)) == suggest_lengths(17420, None) == (96, 48, 24)
