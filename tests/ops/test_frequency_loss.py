"""The loss of frequencies against a slow sum of cosines and sines."""

import math

import pytest
import torch

from forecast.ops.frequency_loss import FrequencyLoss

B, P, T = 2, 7, 3


def slow(difference):
    """The mean over windows, frequencies and columns of the absolute coefficients."""
    total, count = 0.0, 0
    for b in range(B):
        for frequency in range(P // 2 + 1):
            for t in range(T):
                turns = [2 * math.pi * frequency * step / P for step in range(P)]
                real = sum(difference[b, step, t].item() * math.cos(turns[step]) for step in range(P))
                imaginary = sum(difference[b, step, t].item() * math.sin(turns[step]) for step in range(P))
                total, count = total + math.hypot(real, imaginary) / math.sqrt(P), count + 1
    return total / count


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_it_is_the_coefficients_mean_beside_the_squared_error(share):
    forecast, truth = torch.randn(2, B, P, T, generator=torch.Generator().manual_seed(0))
    expected = share * slow(forecast - truth) + (1 - share) * (forecast - truth).square().mean().item()
    assert FrequencyLoss(share=share)(forecast, truth).item() == pytest.approx(expected, rel=1e-5)


def test_what_is_equal_costs_nothing_and_has_a_gradient():
    forecast = torch.zeros(B, P, T, requires_grad=True)
    loss = FrequencyLoss()(forecast, torch.zeros(B, P, T))
    loss.backward()
    assert loss.item() == 0 and forecast.grad.isfinite().all()
