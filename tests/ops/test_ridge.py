"""Ridge regression from sums against least squares on the windows themselves."""

import numpy as np
import pytest
import torch

from forecast.ops.ridge import (
    LinearMap,
    intercept_share,
    mean_map,
    mean_squared_error,
    naive_forecast,
    ridge_maps,
)
from forecast.ops.window_sums import window_sums

N, L, P, PERIOD = 307, 13, 7, 5
SERIES = 3 + torch.randn(N, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(0)
STARTS = np.arange(N - L - P + 1)
WINDOWS = torch.cat([column.unfold(0, L + P, 1) for column in SERIES.T])
PAST, FUTURE = WINDOWS[:, :L], WINDOWS[:, L:]
SUMS = window_sums(SERIES, STARTS, L + P)
NAIVES = ("last", "mean", "season")


@pytest.mark.parametrize("naive", NAIVES)
def test_a_naive_forecast_as_a_map(naive):
    weight, level = naive_forecast(naive, L, P, PERIOD)
    expected = {
        "last": [PAST[3, -1]] * P,
        "mean": [PAST[3].mean()] * P,
        "season": [PAST[3, L - PERIOD + step % PERIOD] for step in range(P)],
    }[naive]
    torch.testing.assert_close(weight @ PAST[3], torch.stack(expected))
    assert (weight @ PAST[3]).mean() == pytest.approx(PAST[3].mean().item(), rel=9)
    levels = {"last": PAST[3, -1], "mean": PAST[3].mean(), "season": PAST[3, -PERIOD:].mean()}
    torch.testing.assert_close(level @ PAST[3], levels[naive])


@pytest.mark.parametrize("naive", NAIVES)
@pytest.mark.parametrize("strength, share", [(1e-4, 1.0), (0.3, 1.0), (100.0, 1.0), (0.3, 0.0), (0.3, 0.4)])
def test_it_is_least_squares_with_extra_rows_for_the_ridge(naive, strength, share):
    forecast, level = naive_forecast(naive, L, P, PERIOD)
    x, y = PAST - (PAST @ level)[:, None], FUTURE - PAST @ forecast.T
    x_mean, y_mean = share * x.mean(0), share * y.mean(0)
    x, y = x - x_mean, y - y_mean
    ridge = strength * x.square().mean()
    stacked = torch.cat([x / len(x) ** 0.5, ridge.sqrt() * torch.eye(L)])
    expected = torch.linalg.lstsq(stacked, torch.cat([y / len(x) ** 0.5, torch.zeros(L, P)]), driver="gelsd").solution.T
    (linear,) = ridge_maps(SUMS._replace(intercept=share), L, naive=naive, period=PERIOD, strengths=[strength])
    out = forecast @ PAST[29] + expected @ (PAST[29] - level @ PAST[29] - x_mean) + y_mean
    torch.testing.assert_close(linear.weight @ PAST[29] + linear.bias, out, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("naive", NAIVES)
def test_of_a_share_of_nothing_there_is_no_intercept(naive):
    for linear in ridge_maps(SUMS._replace(intercept=0.0), L, naive=naive, period=PERIOD):
        assert not linear.bias.any()


def test_a_trend_is_kept_and_chance_is_not():
    """Of a random walk the share is that of a step no larger than its standard error; of a trend nearly all of it."""
    drawn = torch.randn(41, 2003, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    origins, lengths = np.arange(29, 1973), {"look_back": 29, "pred_len": 31}
    walks = [intercept_share(one.cumsum(0), origins, **lengths) for one in drawn]
    trends = [intercept_share(one + 0.05 * torch.arange(2003.0)[:, None], origins, **lengths) for one in drawn]
    assert np.mean(walks) < 0.35 and np.median(walks) < 0.1
    assert min(trends) > 0.99
    assert intercept_share(drawn[0], origins[:43], **lengths) == 1.0  # one window and a half: nobody can say


@pytest.mark.parametrize("naive", NAIVES)
def test_without_bound_it_becomes_the_naive_forecast_and_its_mean_error(naive):
    (linear,) = ridge_maps(SUMS, L, naive=naive, period=PERIOD, strengths=[1e9])
    forecast, _ = naive_forecast(naive, L, P, PERIOD)
    torch.testing.assert_close(linear.weight, forecast, rtol=0, atol=1e-6)
    torch.testing.assert_close(linear.bias, (FUTURE - PAST @ forecast.T).mean(0), rtol=0, atol=1e-4)


def test_the_error_from_sums_is_that_of_the_forecasts():
    for linear in ridge_maps(SUMS, L, naive="season", period=PERIOD, strengths=[1e-4, 1.0, 100.0]):
        errors = (PAST @ linear.weight.T + linear.bias - FUTURE).square().mean()
        assert mean_squared_error(SUMS, linear) == pytest.approx(errors.item(), rel=1e-9)
        longer = window_sums(SERIES, np.arange(N - L - P - 10 + 1), L + P + 10)  # the same map on longer windows
        later = (PAST @ linear.weight.T + linear.bias - FUTURE).square().reshape(2, -1, P)[:, 10:].mean()
        assert mean_squared_error(longer, linear) == pytest.approx(later.item(), rel=1e-9)


@pytest.mark.parametrize("naive", NAIVES)
def test_a_shifted_window_is_forecast_shifted(naive):
    for linear in ridge_maps(SUMS, L, naive=naive, period=PERIOD):
        torch.testing.assert_close(linear.weight.sum(1), torch.ones(P, dtype=torch.float64))


def test_the_mean_of_maps_of_unequal_length_forecasts_the_mean():
    short = LinearMap(torch.randn(P, 3, dtype=torch.float64), torch.randn(P, dtype=torch.float64))
    long = LinearMap(torch.randn(P, L, dtype=torch.float64), torch.randn(P, dtype=torch.float64))
    both = mean_map([short, long], [0.3, 0.1])
    expected = 0.75 * (short.weight @ PAST[0, -3:] + short.bias) + 0.25 * (long.weight @ PAST[0] + long.bias)
    torch.testing.assert_close(both.weight @ PAST[0] + both.bias, expected)


def test_columns_that_do_not_move_have_a_map():
    constant = torch.full((101, 2), 7.0, dtype=torch.float64)
    maps = ridge_maps(window_sums(constant, np.arange(80), L + P), L, naive="mean")
    assert maps
    for linear in maps:
        torch.testing.assert_close(linear.weight @ constant[:L, 0] + linear.bias, constant[:P, 0])


@pytest.mark.parametrize("naive", ["last", "mean"])
@pytest.mark.parametrize("level", [-0.14153751730918884, 0.1, 1 / 3, 0.0])
def test_of_a_constant_column_the_round_off_makes_no_map(naive, level):
    """Its covariance is nothing else: with no floor under that the weights were 1e286, or no strength was solvable."""
    series = torch.full((1009, 1), level, dtype=torch.float64)
    maps = ridge_maps(window_sums(series, np.arange(900), 109), 103, naive=naive)
    assert len(maps) == 7
    for weight, bias, _ in maps:
        assert weight.abs().max() < 2
        torch.testing.assert_close(weight @ series[:103, 0] + bias, series[:6, 0])
