"""The error of forecasts over time: means of windows, in bins of successive times."""

import numpy as np
import pytest
import torch

from forecast.data.windows import Batch
from forecast.evaluation.residuals import FEW_BINS, MOST_BINS, Residuals, residual_rows, residuals_csv

P, T = 3, 2


def batch_of(target, measured=None):
    nothing = torch.zeros(len(target), 0, 0)
    return Batch(nothing, nothing, nothing, target, nothing, None, measured)


def hours(numbers):
    return np.datetime64("2020-01-01T00", "ns") + np.asarray(numbers) * np.timedelta64(1, "h")


def test_the_residual_of_a_window_is_the_mean_of_forecast_less_truth_over_what_was_measured():
    forecast, target = torch.randn(5, P, T), torch.randn(5, P, T)
    measured = torch.ones(5, P, T, dtype=torch.bool)
    measured[0, 1:, 0], measured[4, :, 1] = False, False
    residuals = Residuals(5, T)
    for rows in (slice(0, 2), slice(2, 5)):
        residuals.add(forecast[rows], batch_of(target[rows], measured[rows]))
    expected = (forecast - target).mean(1).numpy()
    expected[0, 0], expected[4, 1] = (forecast - target)[0, 0, 0], np.nan
    np.testing.assert_allclose(residuals.signed, expected, atol=1e-6)


def test_of_very_many_windows_a_sample_is_kept_that_is_no_comb(monkeypatch):
    monkeypatch.setattr("forecast.evaluation.residuals.MOST_NUMBERS", 400)
    residuals = Residuals(24_000, T)
    assert len(residuals.numbers) == 200 == len({*residuals.numbers}) and (np.diff(residuals.numbers) > 0).all()
    assert len({*(residuals.numbers % 24)}) > 20  # not one hour of the day
    np.testing.assert_array_equal(residuals.numbers // 120, np.arange(200))  # evenly
    index = torch.arange(24_000.0)[:, None, None].expand(-1, P, T)
    for begin in range(0, 24_000, 640):
        residuals.add(index[begin : begin + 640], batch_of(torch.zeros_like(index[begin : begin + 640])))
    np.testing.assert_array_equal(residuals.signed[:, 1], residuals.numbers)


def test_bins_are_of_successive_times_and_hold_every_window_once():
    draws = np.random.default_rng(0)
    n = 30_000
    times, signed = hours(draws.permutation(np.arange(n) // 3)), draws.normal(size=(n, 1)).astype(np.float32)
    rows = residual_rows(times, signed, ["y"], "y")
    assert len(rows) == MOST_BINS and sum(row[2] for row in rows) == n
    order = np.argsort(times, kind="stable")
    first = signed[order[: rows[0][2]], 0].astype(float)
    assert rows[0][:2] == ("y", "2020-01-01 00:00:00")
    assert rows[0][3:] == pytest.approx((first.mean(), *np.quantile(first, [0.1, 0.9])))
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)


def test_windows_of_one_time_are_never_in_two_bins():
    rows = residual_rows(hours(np.repeat(np.arange(60), 9)), np.zeros((540, 1), np.float32), ["y"], "y")
    assert len(rows) == FEW_BINS and all(row[2] % 9 == 0 for row in rows)


def test_of_several_columns_the_mean_over_them_comes_first_then_the_target():
    signed = np.array([[1.0, 3.0], [np.nan, 5.0]], np.float32)
    rows = residual_rows(hours([0, 1]), signed, ["a", "b"], "b")
    assert [(row[0], row[3]) for row in rows] == [("", 2.0), ("", 5.0), ("b", 3.0), ("b", 5.0), ("a", 1.0)]
    many = residual_rows(hours([0]), np.zeros((1, 30), np.float32), [f"c{i}" for i in range(30)], "c20")
    assert [row[0] for row in many][:3] == ["", "c20", "c0"] and len(many) == 9
    assert residuals_csv(rows[2:3], 1) == "column,begins,windows,mean,low,high\nb,2020-01-01 00:00:00,1,3.0,3.0,3.0\n"
