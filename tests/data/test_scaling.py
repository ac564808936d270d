"""Scaling by the train rows: numpy's numbers, safe on constant columns."""

import numpy as np
import pytest
from data.csv_files import read_frame
from scales import all_rows


@pytest.fixture
def values():
    return np.random.default_rng(3).normal([5, -70, 0.01], [2, 30, 1e-4], size=(101, 3))


def test_mean_and_std_are_those_of_numpy(values):
    scaler = all_rows(values, ["a", "b", "c"])
    np.testing.assert_allclose(scaler.mean[0], values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scaler.std[0], values.std(axis=0, ddof=0), rtol=1e-12)
    assert scaler.mean.dtype == scaler.std.dtype == np.float64


@pytest.mark.parametrize("levels", [(0, 0), (7, 7), (0.1 + 0.2, 0.3)])  # the last two differ by rounding
def test_a_constant_column_gets_std_1(levels):
    values = np.random.default_rng(3).normal(size=(101, 3))
    values[:, 1], values[::2, 1] = levels
    scaler = all_rows(values, ["a", "stuck", "c"])
    assert (scaler.std[0] == 1).tolist() == [False, True, False]
    assert np.abs(values[:, 1] - scaler.mean[0, 1]).max() < 1e-6


def test_ETTh1_train_has_the_published_spread(ett_root):
    frame = read_frame(ett_root / "ETTh1.csv")
    scaler = all_rows(frame.values[:8640], frame.columns)
    np.testing.assert_allclose(scaler.std[0], [5.813, 2.090, 5.519, 1.926, 1.024, 0.630, 9.176], atol=6e-4)
