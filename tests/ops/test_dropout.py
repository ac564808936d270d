"""Dropout of attention weights: in training alone, and what is kept is scaled up."""

from functools import partial

import pytest
import torch

from forecast.attention.full import FullAttention
from forecast.attention.prob import ProbAttention

L = 64


@pytest.mark.parametrize("make", [FullAttention, partial(ProbAttention, factor=1000)], ids=["full", "prob"])
def test_half_of_the_weights_are_dropped_in_training_and_none_in_evaluation(make):
    mechanism = make(causal=False, layer=0, dropout=0.5)
    q = k = torch.zeros(1, 1, L, 3)  # every weight is 1 / L
    identity = torch.eye(L).expand(1, 1, -1, -1)
    torch.testing.assert_close(mechanism.eval()(q, k, identity), torch.full((1, 1, L, L), 1 / L))
    torch.manual_seed(0)
    weights = mechanism.train()(q, k, identity) * L
    assert set(weights.round(decimals=4).flatten().tolist()) == {0.0, 2.0}
    # L^2 = 4096 draws; five standard deviations
    assert abs((weights == 0).float().mean().item() - 0.5) < 5 * 0.5 / L
