"""Dropout of attention weights: in training alone, and what is not dropped is scaled up."""

import math
from functools import partial

import pytest
import torch
from attention.test_pattern_forms import cheap

from forecast.attention.fixed import FixedAttention
from forecast.attention.full import FullAttention
from forecast.attention.logsparse import LogSparseAttention
from forecast.attention.lsh import LshAttention
from forecast.attention.prob import ProbAttention
from forecast.attention.strided import StridedAttention
from forecast.attention.topk import TopKAttention

L = 97
# each sees all steps; LSH, in a single pair of chunks, all but the step itself; a pattern its cells
KINDS = {
    "full": FullAttention,
    "topk": partial(TopKAttention, k=L),
    "prob": partial(ProbAttention, factor=1000),
    "lsh": partial(LshAttention, bucket_size=math.ceil(L / 2), n_hashes=1),
    "logsparse": LogSparseAttention,
    "strided": StridedAttention,
    "fixed": FixedAttention,
}


@pytest.mark.parametrize("form", [lambda _: None, cheap], ids=["mask", "cheap"])
@pytest.mark.parametrize("name", KINDS)
def test_half_of_the_weights_are_dropped_in_training_and_none_in_evaluation(monkeypatch, name, form):
    form(monkeypatch)
    mechanism = KINDS[name](causal=False, layer=0, dropout=0.5)
    seen = ~torch.eye(L, dtype=torch.bool) if name == "lsh" else torch.ones(L, L, dtype=torch.bool)
    if name in ("logsparse", "strided", "fixed"):
        seen = mechanism.allowed(L)
    q = k = torch.zeros(1, 1, L, 3)  # the weights of a row are equal
    identity, count = torch.eye(L).expand(1, 1, -1, -1), seen.sum(1, keepdim=True)
    torch.testing.assert_close(mechanism.eval()(q, k, identity)[0, 0] * count, seen.float())
    torch.manual_seed(0)
    weights = (mechanism.train()(q, k, identity)[0, 0] * count)[seen]
    assert set(weights.round(decimals=4).tolist()) == {0.0, 2.0}
    # a binomial count; five standard deviations
    assert abs((weights == 0).float().mean().item() - 0.5) < 5 * 0.5 / math.sqrt(len(weights))
