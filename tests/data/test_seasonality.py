"""The season that a naive forecast repeats, the one that a file shows, and lengths that go with it."""

import numpy as np
import pytest

from forecast.data.seasonality import (
    Season,
    autocorrelation,
    rank_seasons,
    seasonal_period,
    suggest_lengths,
    usual_pred_len,
)

PERIODS = {"h": 24, "3h": 8, "15min": 96, "min": 1440, "s": 86_400, "D": 7, "B": 5}
PERIODS |= {"W-SUN": 52, "MS": 12, "ME": 12, "QS-OCT": 4}


def best_period(values, freq, **keys):
    return next((season.period for season in rank_seasons(values, freq, **keys)), None)


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


STEPS = np.arange(2411)
DAY, WEEK = np.sin(2 * np.pi * STEPS / 24), np.where(STEPS // 24 % 7 < 5, 1.0, 0.1)
SLOW = np.random.default_rng(3).normal(size=2411).cumsum() / 8


def test_the_best_period_is_that_whose_repetition_errs_least():
    assert best_period((DAY + SLOW)[:, None], "h") == 24  # a week repeats a day, too, but is staler
    assert best_period((DAY * WEEK + SLOW / 20)[:, None], "h") == 168
    assert best_period((DAY * WEEK)[:, None].repeat(2, axis=0), "30min") == 336
    assert best_period(np.c_[DAY + SLOW, DAY + SLOW, DAY * WEEK], "h") == 24  # two columns against one


def test_the_error_of_a_season_is_that_of_a_naive_forecast_from_every_origin():
    x = (DAY * WEEK + SLOW)[:1201]
    rows, by_hand = range(168, len(x)), {}
    for period in (24, 168):
        lags = [period * -(-(step + 1) // period) for step in range(53)]
        start = max(168, 72)  # the first row that both can forecast at all 53 steps
        by_hand[period] = np.mean([(x[row] - x[row - lag]) ** 2 for lag in lags for row in rows if row >= start])
    found = {s.period: s.error for s in rank_seasons(x[:, None] * 7 + 5, "h", pred_len=53)}
    assert found == {period: pytest.approx(error / x.var()) for period, error in by_hand.items()}


def test_a_longer_forecast_takes_the_longer_season():
    x = (DAY * WEEK + SLOW / 4)[:, None]
    assert best_period(x, "h", pred_len=24) == 24
    assert best_period(x, "h", pred_len=168) == 168


@pytest.mark.parametrize("seed", range(5))
def test_a_week_that_only_repeats_the_day_is_not_taken_by_chance(seed):
    noise = np.random.default_rng(seed).normal(size=(2411, 1)) / 5
    assert [best_period((DAY[:rows, None] + noise[:rows]), "h") for rows in (427, 2411)] == [24, 24]


def test_a_season_counts_from_two_of_it_on_one_longer_than_usual_from_three():
    assert best_period(DAY[:48, None], "h") == 24
    assert best_period(DAY[:47, None], "h") is None
    assert [s.period for s in rank_seasons(DAY[:504, None], "h", pred_len=500)] == [24, 168]
    assert [s.period for s in rank_seasons(DAY[:503, None], "h", pred_len=500)] == [24]
    assert {s.period for s in rank_seasons(DAY[:192, None], "15min")} == {4, 96}


@pytest.mark.parametrize(
    ("values", "freq"),
    [(DAY, "YS-JAN"), (DAY, "100ms"), (DAY, "5h"), (DAY[:0], "h"), (DAY[:3], "h"), (DAY * 0, "h"), (DAY * np.nan, "h")],
)
def test_without_a_season_there_is_no_period(values, freq):
    assert best_period(values[:, None], freq) is None


def test_what_is_missing_or_never_moves_has_no_say():
    x = np.c_[DAY * WEEK + SLOW / 20, np.ones(2411), np.full(2411, np.nan)]
    x[::7, 0] = np.nan
    best = rank_seasons(x, "h")[0]
    assert best.period == 168 and best.autocorrelation > 0.9


def clear(*periods):
    return [Season(period, "", 0.9, 0.1) for period in periods]


@pytest.mark.parametrize(
    ("rows", "freq", "periods", "expected"),
    [
        (17_420, "h", [24], (96, 48, 24)),
        (17_544, "h", [168, 24], (336, 48, 24)),
        (17_544, "h", [24, 168], (336, 48, 24)),  # what repeats best may not be the longest that a model can use
        (1_000, "h", [24, 168], (96, 48, 24)),  # too few rows for two weeks
        (10_320, "30min", [336, 48], (672, 48, 48)),
        (18_721, "5min", [288, 2016], (576, 288, 288)),
        (100_000, "min", [60], (120, 60, 60)),
        (2_000, "D", [7], (98, 48, 28)),
        (144, "MS", [12], (24, 12, 12)),
        (2_284, "W-SAT", [52], (104, 52, 52)),
        (600, "YS-JAN", [], (96, 48, 24)),
        (11, "h", [24], None),
    ],
)
def test_lengths_are_whole_seasons_that_fit_the_rows(rows, freq, periods, expected):
    assert suggest_lengths(rows, freq, clear(*periods)) == expected


@pytest.mark.parametrize(
    ("rows", "freq"),
    [
        *((rows, freq) for rows in (24, 50_021) for freq in ("s", "h", "W-SUN", "YS-JAN")),
        *((89, "10s"), (144, "5min"), (337, "5h"), (1009, "D"), (89, "B"), (144, "MS"), (337, "QS-OCT")),
    ],
)
def test_every_part_holds_windows_of_the_lengths(rows, freq):
    lengths = suggest_lengths(rows, freq, rank_seasons(DAY[:rows, None], freq))
    train, val, test = int(0.7 * rows), rows - int(0.7 * rows) - int(0.2 * rows), int(0.2 * rows)
    assert lengths.seq_len + lengths.pred_len < train and lengths.pred_len < min(val, test)
    assert lengths.label_len <= lengths.seq_len


def test_a_weak_season_does_not_bind_the_lengths():
    assert suggest_lengths(17420, "h", [Season(168, "a week", 0.1, 1.8)]) == suggest_lengths(17420, "h", [])


USUAL = {"h": 24, "3h": 24, "2h": 12, "15min": 96, "10s": 360, "7min": 24, "D": 28, "B": 25, "W-SUN": 52, "ME": 12}


@pytest.mark.parametrize(("freq", "steps"), USUAL.items())
def test_a_forecast_is_a_day_four_weeks_or_a_year_long(freq, steps):
    assert usual_pred_len(freq) == steps
