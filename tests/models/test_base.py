"""Reversible instance normalisation and what a window may be."""

import pytest
import torch
from models.inputs import B, batch
from models.small import FULL, informer, window_shape

from forecast.layers.window_scale import window_statistics
from forecast.models.base import ForecastModel


class Echo(ForecastModel):
    """Forecasts the targets' last value; stores the window that it reads."""

    def forecast(self, past, past_known, future_known):
        self.window_read = past
        return past[:, -1:, list(self.window.targets)].expand(-1, self.window.pred_len, -1)


def test_statistics_are_each_windows_own_and_each_columns_own():
    past = torch.randn(2, 19, 3) * torch.tensor([1.0, 10.0, 100.0]) + 5
    mean, std = window_statistics(past)
    assert mean.shape == std.shape == (2, 1, 3)
    for window in range(2):
        for column in range(3):
            steps = past[window, :, column].double()
            assert mean[window, 0, column].item() == pytest.approx(steps.sum().item() / 19, rel=1e-4)
            spread = (steps - steps.mean()).square().sum().item() / 19
            assert std[window, 0, column].item() == pytest.approx((spread + 1e-5) ** 0.5, rel=1e-4)


def test_a_model_sees_windows_of_mean_0_and_deviation_1():
    model, (past, *known) = Echo(window_shape(), instance_norm=True), batch()
    model(past * 20 + 300, *known)
    torch.testing.assert_close(model.window_read.mean(1), torch.zeros(B, 3), rtol=0, atol=1e-4)
    torch.testing.assert_close(model.window_read.std(1, unbiased=False), torch.ones(B, 3), rtol=0, atol=1e-4)


@pytest.mark.parametrize("targets", [(0, 1, 2), (2,), (2, 0)])
def test_each_target_is_restored_with_its_own_statistics(targets):
    """So the last value, normalised and restored, is the last value."""
    past, *known = batch()
    past = past * torch.tensor([1.0, 10.0, 100.0]) + torch.tensor([-7.0, 0.0, 500.0])
    out = Echo(window_shape(targets=targets), instance_norm=True)(past, *known)
    torch.testing.assert_close(out, past[:, -1:, list(targets)].expand(-1, 5, -1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("instance_norm", [True, False])
@pytest.mark.parametrize("targets", [(0, 1, 2), (1,)])
@pytest.mark.parametrize(("scale", "level"), [(3.0, 50.0), (0.25, -8.0)])
def test_a_forecast_follows_level_and_scale_only_with_instance_norm(instance_norm, targets, scale, level):
    model = informer(FULL, instance_norm=instance_norm, targets=targets).eval()
    past, *known = batch()
    past = past * 100  # far above what is added to the variance
    moved, expected = model(past * scale + level, *known), model(past, *known) * scale + level
    assert torch.allclose(moved, expected, rtol=1e-3, atol=1e-2) == instance_norm


def test_a_constant_window_is_restored_to_its_level_and_stays_finite():
    past, *known = batch()
    constant = torch.tensor([0.0, -3.0, 1e4]).expand_as(past)
    model = informer(FULL, instance_norm=True)
    out = model(constant, *known)
    out.square().mean().backward()
    # what the model makes of zeros, on the scale of what is added to the variance
    torch.testing.assert_close(out, constant[:, :5], rtol=0, atol=0.05)
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_without_instance_norm_a_model_sees_the_window_as_it_is():
    model, (past, *known) = Echo(window_shape()), batch()
    model(past, *known)
    assert model.window_read is past


def test_the_training_outputs_are_the_forecast_and_the_targets_truth():
    model, (past, *known), future = Echo(window_shape(targets=(2, 0))), batch(), torch.randn(B, 5, 3)
    forecast, truth = model.training_outputs(past, *known, future)
    assert torch.equal(forecast, model(past, *known))
    assert torch.equal(truth, torch.stack([future[:, :, 2], future[:, :, 0]], -1))


def test_only_a_model_with_a_start_token_minds_its_length():
    """An Echo has none; test_model_laws.py asks every real model."""
    assert Echo(window_shape(label_len=20)).window.label_len == 20
    assert not Echo.has_start_token()
    assert window_shape(targets=(2, 0)).n_targets == 2
