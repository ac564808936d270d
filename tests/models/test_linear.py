"""DLinear against plain loops, NLinear against its closed form, and PatchTST with them: columns that stand alone.

What they share with all models: test_model_laws.
"""

import re
from functools import partial

import numpy as np
import pytest
import torch
from models.inputs import B, batch
from models.small import window_shape
from models.test_patchtst import patchtst

from forecast.evaluation.baselines import as_weight, linear_model
from forecast.models.dlinear import DLinear, moving_average
from forecast.models.nlinear import NLinear
from forecast.ops.ridge import ridge_maps
from forecast.ops.window_sums import WindowSums


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


@pytest.mark.parametrize("kernel_size", [2, 24])
def test_an_average_without_a_middle_is_refused(kernel_size):
    text = f"model.kernel_size ({kernel_size}) must be odd, as many steps before a step as after it: {kernel_size + 1}"
    with pytest.raises(ValueError, match=re.escape(text)):
        dlinear(kernel_size=kernel_size)


def nlinear(window=None):
    torch.manual_seed(0)
    return NLinear(window=window_shape(**(window or {})))


def test_with_the_closed_forms_weights_it_makes_the_closed_forms_forecast():
    """The column of its weights that meets the last value less itself, zero, may be anything."""
    past, *known = batch()
    weight = torch.randn(5, 19)
    model = nlinear({"targets": (2, 0)})
    with torch.no_grad():
        model.map.weight[:, :-1], model.map.bias[:] = weight[:, :-1], weight[:, -1]
    expected = linear_model(model.window, weight.double())(past, *known)
    torch.testing.assert_close(model(past, *known), expected, rtol=1e-5, atol=1e-5)


def test_trained_to_the_end_it_is_the_closed_form():
    """On windows of a known linear law with noise; the closed form's ridge is what is left between the two."""
    generator = torch.Generator().manual_seed(0)
    past = torch.randn(60, 4, 3, generator=generator).double()
    future = past[:, -2:] + past[:, :2] + torch.randn(60, 2, 3, generator=generator) * 0.1 + 0.5
    empty = torch.empty(60, 4, 0).double(), torch.empty(60, 2, 0).double()
    model = nlinear({"seq_len": 4, "label_len": 0, "pred_len": 2, "n_known": 0}).double()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=200, tolerance_grad=1e-12)

    def loss():
        optimizer.zero_grad()
        error = (model(past, *empty) - future).square().mean()
        error.backward()
        return error

    optimizer.step(loss)
    windows = torch.cat([past, future], 1).transpose(1, 2).reshape(-1, 6)
    sums = WindowSums(windows.T @ windows, windows.sum(0), len(windows))
    closed = as_weight(ridge_maps(sums, 4, naive="last", strengths=[1e-3])[0])
    torch.testing.assert_close(model.map.weight[:, :-1], closed[:, :-1], rtol=0, atol=2e-3)
    torch.testing.assert_close(model.map.bias, closed[:, -1], rtol=0, atol=2e-3)
    truth = (linear_model(model.window, closed)(past, *empty) - future).square().mean()
    assert loss().item() == pytest.approx(truth.item(), rel=1e-3)
    assert loss().item() < truth.item()  # the ridge costs something on the very windows


def test_a_constant_added_to_a_column_is_added_to_its_forecast():
    model, (past, *known) = nlinear(), batch()
    constants = torch.tensor([1.0, -20.0, 300.0])
    torch.testing.assert_close(model(past + constants, *known), model(past, *known) + constants, rtol=1e-5, atol=1e-3)


KINDS = ["dlinear", "nlinear", "patchtst", "patchtst-normed"]


@pytest.fixture(params=[dlinear, nlinear, patchtst, partial(patchtst, instance_norm=True)], ids=KINDS)
def by_column(request):
    """A model whose columns share the weights and stand alone."""
    return request.param


def test_a_column_is_forecast_from_itself_alone(by_column):
    model, (past, *known) = by_column().eval(), batch()
    changed = past.clone()
    changed[:, :, 1] = changed[:, :, 1].flip(1) + torch.randn(B, 19)
    before, after = model(past, *known), model(changed, *known)
    assert torch.equal(before[:, :, [0, 2]], after[:, :, [0, 2]])
    assert not torch.allclose(before[:, :, 1], after[:, :, 1])


@pytest.mark.parametrize("targets", [(2,), (2, 0)])
def test_targets_are_those_columns_of_the_forecast_of_all(by_column, targets):
    model, some = by_column().eval(), by_column({"targets": targets}).eval()
    torch.testing.assert_close(some(*batch()), model(*batch())[:, :, list(targets)])


def test_the_calendar_and_label_len_are_not_used(by_column):
    (past, past_known, future_known), model, other = batch(), by_column().eval(), by_column({"label_len": 0}).eval()
    assert torch.equal(model(past, past_known, future_known), other(past, past_known + 1, future_known - 1))


@pytest.mark.parametrize("sizes", [{"seq_len": 1}, {"pred_len": 31}, {"seq_len": 2, "pred_len": 1, "n_columns": 5}])
@pytest.mark.parametrize("averaged", [{}, {"kernel_size": 25}], ids=str)
def test_any_lengths_and_columns_work_even_a_window_shorter_than_the_average(sizes, averaged):
    out = (dlinear if averaged else nlinear)({"label_len": 0, **sizes}, **averaged)(*batch(sizes))
    assert out.shape == (B, sizes.get("pred_len", 5), 3)
    assert out.isfinite().all()


def test_the_average_changes_the_forecast():
    assert not torch.allclose(dlinear()(*batch()), dlinear(kernel_size=7)(*batch()))


@pytest.mark.parametrize("make, n_maps", [(dlinear, 2), (nlinear, 1)])
def test_parameters_are_one_map_or_two_however_many_the_columns(make, n_maps):
    seven = {"n_columns": 7, "targets": tuple(range(7)), "seq_len": 336, "pred_len": 96}
    assert sum(p.numel() for p in make(seven).parameters()) == n_maps * (336 * 96 + 96)
