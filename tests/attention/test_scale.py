"""The scale of the scores as an argument: the paper's rule with another factor, none is 1 / sqrt(E)."""

from functools import partial

import numpy as np
import pytest
import torch
from config.composed import composed

from forecast.attention import reference
from forecast.attention.full import FullAttention
from forecast.attention.prob import ProbAttention
from forecast.attention.prob_causal import CausalProbAttention
from forecast.attention.prob_informer2020 import Informer2020ProbAttention
from forecast.attention.prob_scrambled import ScrambledProbAttention
from forecast.attention.topk import TopKAttention
from forecast.config.build import build

B, H, L, E = 2, 3, 11, 5
# all rows active, all keys seen
KINDS = {
    "full": FullAttention,
    "topk": partial(TopKAttention, k=1000),
    **{
        kind.__name__: partial(kind, factor=1000)
        for kind in (ProbAttention, CausalProbAttention, Informer2020ProbAttention, ScrambledProbAttention)
    },
}


def drawn(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(B, H, L, E, generator=generator, dtype=dtype) for _ in range(3)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("scale", [None, 0.2, 3.0])
def test_the_scores_are_multiplied_by_it(name, causal, scale):
    q, k, v = drawn()
    out = KINDS[name](causal=causal, layer=0, scale=scale).eval()(q, k, v)
    if name == "ScrambledProbAttention":
        out = out.transpose(1, 2).reshape(out.shape)
    allowed = reference.causal_mask(L) if causal else None
    factor = E**-0.5 if scale is None else scale
    arrays = [part.numpy() for part in (q, k, v)]
    expected = reference.softmax(
        np.where(True if allowed is None else allowed, arrays[0] @ arrays[1].swapaxes(-2, -1) * factor, -np.inf)
    )
    np.testing.assert_allclose(out, expected @ arrays[2], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(reference.attention(*arrays, allowed, scale=scale), expected @ arrays[2], rtol=1e-12)


def test_rows_one_by_one_and_dropped_weights_have_it_too():
    q, k, v = drawn()
    full = FullAttention(causal=True, layer=0, scale=2.0, dropout=0.5)
    whole = full.eval()(q, k, v)
    torch.testing.assert_close(full.last_rows(q[:, :, -1:], k, v, length=L), whole[:, :, -1:])
    identity = torch.eye(L, dtype=q.dtype).expand(B, H, -1, -1)
    torch.manual_seed(3)
    weights, kept = full.eval()(q, k, identity), full.train()(q, k, identity)
    torch.testing.assert_close(kept[kept > 0], 2 * weights[kept > 0])


def test_the_measure_of_probsparse_has_none():
    q, k, _ = drawn()
    rows = [ProbAttention(causal=False, layer=0, factor=1, scale=scale).eval().selected(q, k) for scale in (None, 9.0)]
    assert torch.equal(*rows)


@pytest.mark.parametrize("name", ["full", "prob", "prob_causal", "prob_informer2020", "prob_scrambled", "topk"])
def test_it_is_a_key_of_the_config(name):
    cfg = composed("model=informer", f"attention={name}", "+attention.mechanism.scale=0.5")
    mechanism = build(cfg.attention.mechanism)(causal=False, layer=0)
    assert mechanism.scale == 0.5
