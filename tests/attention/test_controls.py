"""The controls, on numbers that a reader can follow."""

import pytest
import torch

from forecast.attention.mean import MeanAttention
from forecast.attention.none import NoAttention

VALUES = torch.tensor([1.0, 2.0, 6.0, 7.0]).view(1, 1, 4, 1)
ROWS = {
    (NoAttention, False): [1.0, 2.0, 6.0, 7.0],
    (NoAttention, True): [1.0, 2.0, 6.0, 7.0],
    (MeanAttention, False): [4.0, 4.0, 4.0, 4.0],
    (MeanAttention, True): [1.0, 1.5, 3.0, 4.0],
}


@pytest.mark.parametrize("kind, causal", ROWS)
def test_four_values_give_these_rows(kind, causal):
    mechanism, q = kind(causal=causal, layer=0), torch.randn(1, 1, 4, 3)
    assert mechanism(q, q, VALUES).flatten().tolist() == ROWS[kind, causal]
    if causal:
        assert mechanism.last_rows(q[:, :, :1], q, VALUES, length=9).flatten().tolist() == ROWS[kind, causal][-1:]


def test_each_query_of_another_sequence_gets_the_mean():
    q = torch.randn(1, 1, 2, 3)
    assert MeanAttention(causal=False, layer=0)(q, torch.randn(1, 1, 4, 3), VALUES).flatten().tolist() == [4.0, 4.0]
