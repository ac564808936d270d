"""Batch normalisation of sequences against its formula."""

import pytest
import torch

from forecast.models.patchtst import BatchNorm

B, L, D = 3, 5, 7


def batch_norm():
    norm = BatchNorm(D)
    torch.nn.init.uniform_(norm.norm.weight, 0.5, 1.5)
    torch.nn.init.uniform_(norm.norm.bias, -1, 1)
    return norm


def scaled(norm, x, mean, variance):
    return (x - mean) / (variance + 1e-5).sqrt() * norm.norm.weight + norm.norm.bias


def test_in_training_an_element_is_normalised_over_all_steps_of_the_batch():
    norm, x = batch_norm().train(), torch.randn(B, L, D) * 4 + 9
    expected = scaled(norm, x, x.mean((0, 1)), x.var((0, 1), unbiased=False))
    torch.testing.assert_close(norm(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(B, L), (1, 1)])
def test_in_evaluation_it_is_normalised_with_what_training_has_seen(shape):
    norm = batch_norm().train()
    for _ in range(50):
        norm(torch.randn(B, L, D) * 4 + 9)
    x = torch.randn(*shape, D)
    expected = scaled(norm, x, norm.norm.running_mean, norm.norm.running_var)
    torch.testing.assert_close(norm.eval()(x), expected)
    assert norm.norm.running_mean.mean().item() == pytest.approx(9, abs=1)


def test_a_single_step_in_training_is_normalised_as_in_evaluation_and_is_no_statistic():
    norm = batch_norm().train()
    norm(torch.randn(B, L, D) * 4 + 9)
    before, x = norm.norm.running_var.clone(), torch.randn(1, 1, D)
    trained = norm(x)
    assert torch.equal(norm.norm.running_var, before)
    torch.testing.assert_close(trained, norm.eval()(x))
