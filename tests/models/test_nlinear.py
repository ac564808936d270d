"""NLinear against its closed form. What it shares with all models: test_laws."""

import pytest
import torch
from models.small import window_shape
from models.test_informer import B, batch

from forecast.evaluation.baselines import ClosedFormNLinear, fit_nlinear
from forecast.models.nlinear import NLinear


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
    expected = ClosedFormNLinear((2, 0), 5, weight=weight.double())(past, *known)
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
    closed = fit_nlinear([(past, future)])
    torch.testing.assert_close(model.map.weight[:, :-1], closed[:, :-1], rtol=0, atol=2e-3)
    torch.testing.assert_close(model.map.bias, closed[:, -1], rtol=0, atol=2e-3)
    truth = (ClosedFormNLinear((0, 1, 2), 2, weight=closed)(past, *empty) - future).square().mean()
    assert loss().item() == pytest.approx(truth.item(), rel=1e-3)
    assert loss().item() < truth.item()  # the ridge costs something on the very windows


def test_a_constant_added_to_a_column_is_added_to_its_forecast():
    model, (past, *known) = nlinear(), batch()
    constants = torch.tensor([1.0, -20.0, 300.0])
    torch.testing.assert_close(model(past + constants, *known), model(past, *known) + constants, rtol=1e-5, atol=1e-3)


def test_a_column_is_forecast_from_itself_alone():
    model, (past, *known) = nlinear(), batch()
    changed = past.clone()
    changed[:, :, 1] = changed[:, :, 1].flip(1)
    before, after = model(past, *known), model(changed, *known)
    assert torch.equal(before[:, :, [0, 2]], after[:, :, [0, 2]])
    assert not torch.allclose(before[:, :, 1], after[:, :, 1])


def test_targets_are_those_columns_of_the_forecast_of_all():
    torch.testing.assert_close(nlinear({"targets": (2,)})(*batch()), nlinear()(*batch())[:, :, [2]])


def test_the_calendar_and_label_len_are_not_used():
    past, past_known, future_known = batch()
    other = nlinear({"label_len": 0})
    assert torch.equal(nlinear()(past, past_known, future_known), other(past, past_known + 1, future_known - 1))


@pytest.mark.parametrize("sizes", [{"seq_len": 1}, {"pred_len": 31}, {"seq_len": 2, "pred_len": 1, "n_columns": 5}])
def test_any_lengths_and_columns_work(sizes):
    out = nlinear({"label_len": 0, **sizes})(*batch(sizes))
    assert out.shape == (B, sizes.get("pred_len", 5), 3)
    assert out.isfinite().all()


def test_parameters_are_one_map_however_many_the_columns():
    seven = {"n_columns": 7, "targets": tuple(range(7)), "seq_len": 336, "pred_len": 96}
    assert sum(p.numel() for p in nlinear(seven).parameters()) == 336 * 96 + 96
