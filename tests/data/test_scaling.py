"""Scaling by the train rows: numpy's numbers, exact state, safe on constant columns."""

import numpy as np
import pytest
from data.csv_files import read_frame
from scales import all_rows, scaler_of


@pytest.fixture
def values():
    return np.random.default_rng(3).normal([5, -70, 0.01], [2, 30, 1e-4], size=(101, 3))


def test_mean_and_std_are_those_of_numpy(values):
    scaler = scaler_of(values, ["a", "b", "c"])
    assert not all_rows(values, ["a", "b", "c"]).constant.any()
    np.testing.assert_allclose(scaler.mean, values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scaler.std, values.std(axis=0, ddof=0), rtol=1e-12)
    assert scaler.mean.dtype == scaler.std.dtype == np.float64


def test_scaled_train_rows_have_mean_0_and_std_1_and_go_back_by_them(values):
    scaler = scaler_of(values[:53], "abc")
    scaled = scaler.transform(values)
    np.testing.assert_allclose(scaled[:53].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled[:53].std(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(scaled * scaler.std + scaler.mean, values, rtol=1e-12)
    assert scaler.transform(values.astype(np.float32)).dtype == np.float64


@pytest.mark.parametrize("levels", [(0, 0), (7, 7), (0.1 + 0.2, 0.3)])  # the last two differ by rounding
def test_a_constant_column_gets_std_1_and_is_named(levels):
    values = np.random.default_rng(3).normal(size=(101, 3))
    values[:, 1], values[::2, 1] = levels
    scaler = scaler_of(values, ["a", "stuck", "c"])
    assert scaler.std[1] == 1
    assert all_rows(values, ["a", "stuck", "c"]).constant.tolist() == [[False, True, False]]
    assert np.abs(scaler.transform(values)[:, 1]).max() < 1e-6


def test_the_wrong_number_of_columns_is_our_own_fault(values):
    scaler = scaler_of(values, "abc")
    with pytest.raises(AssertionError):
        scaler.transform(values[:, :1])  # would broadcast


def test_ETTh1_train_has_the_published_spread(ett_root):
    frame = read_frame(ett_root / "ETTh1.csv")
    scaler = scaler_of(frame.values[:8640], frame.columns)
    np.testing.assert_allclose(scaler.std, [5.813, 2.090, 5.519, 1.926, 1.024, 0.630, 9.176], atol=6e-4)
