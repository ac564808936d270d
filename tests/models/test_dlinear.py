"""DLinear against plain loops. What it shares with all models: test_laws."""

import re

import numpy as np
import pytest
import torch
from models.small import window_shape
from models.test_informer import B, batch

from forecast.models.dlinear import DLinear, moving_average


def dlinear(window=None, kernel_size=5):
    torch.manual_seed(0)
    return DLinear(window=window_shape(**(window or {})), kernel_size=kernel_size)


def plain_average(column, kernel_size):
    """Step by step; steps before the first count as the first, those after the last as the last."""
    beside, end = kernel_size // 2, len(column) - 1
    return np.array(
        [
            np.mean([column[min(max(step + shift, 0), end)] for shift in range(-beside, beside + 1)])
            for step in range(len(column))
        ]
    )


@pytest.mark.parametrize("kernel_size", [1, 3, 25, 51])
@pytest.mark.parametrize("seq_len", [1, 2, 19])
def test_the_moving_average_is_that_of_a_plain_loop(kernel_size, seq_len):
    columns = torch.randn(2, 3, seq_len)
    expected = np.apply_along_axis(plain_average, -1, columns.double().numpy(), kernel_size)
    np.testing.assert_allclose(moving_average(columns, kernel_size).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_the_forecast_is_a_matrix_on_the_trend_plus_one_on_the_remainder():
    model, (past, *known) = dlinear({"targets": (2, 0)}), batch()
    weights = {name: value.detach().double().numpy() for name, value in model.named_parameters()}
    out = model(past, *known).detach().numpy()
    assert out.shape == (B, 5, 2)
    for window in range(B):
        for place, target in enumerate((2, 0)):
            column = past[window, :, target].double().numpy()
            trend = plain_average(column, 5)
            expected = weights["trend.weight"] @ trend + weights["trend.bias"]
            expected += weights["remainder.weight"] @ (column - trend) + weights["remainder.bias"]
            np.testing.assert_allclose(out[window, :, place], expected, rtol=1e-4, atol=1e-5)


def test_a_column_is_forecast_from_itself_alone():
    model, (past, *known) = dlinear(), batch()
    changed = past.clone()
    changed[:, :, 1] += 1.0
    before, after = model(past, *known), model(changed, *known)
    assert torch.equal(before[:, :, [0, 2]], after[:, :, [0, 2]])
    assert not torch.allclose(before[:, :, 1], after[:, :, 1])


def test_targets_are_those_columns_of_the_forecast_of_all():
    torch.testing.assert_close(dlinear({"targets": (2,)})(*batch()), dlinear()(*batch())[:, :, [2]])


def test_the_calendar_and_label_len_are_not_used():
    past, past_known, future_known = batch()
    other = dlinear({"label_len": 0})
    assert torch.equal(dlinear()(past, past_known, future_known), other(past, past_known + 1, future_known - 1))


@pytest.mark.parametrize("sizes", [{"seq_len": 1}, {"pred_len": 31}, {"seq_len": 2, "pred_len": 1, "n_columns": 5}])
def test_any_lengths_and_columns_work_even_a_window_shorter_than_the_average(sizes):
    model = dlinear({"label_len": 0, **sizes}, kernel_size=25)
    out = model(*batch(sizes))
    assert out.shape == (B, sizes.get("pred_len", 5), 3)
    assert out.isfinite().all()


def test_the_average_changes_the_forecast_and_parameters_are_two_maps_however_many_the_columns():
    assert not torch.allclose(dlinear()(*batch()), dlinear(kernel_size=7)(*batch()))
    seven = {"n_columns": 7, "targets": tuple(range(7)), "seq_len": 336, "pred_len": 96}
    assert sum(p.numel() for p in dlinear(seven, 25).parameters()) == 2 * (336 * 96 + 96)


@pytest.mark.parametrize("kernel_size", [2, 24])
def test_an_average_without_a_middle_is_refused(kernel_size):
    says = f"model.kernel_size ({kernel_size}) must be odd, as many steps before a step as after it: {kernel_size + 1}"
    with pytest.raises(ValueError, match=re.escape(says)):
        dlinear(kernel_size=kernel_size)
