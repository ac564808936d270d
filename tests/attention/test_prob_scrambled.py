"""The missing transpose: what it does to the heads, and that it is all that is wrong."""

from functools import partial

import torch
from attention import common
from attention.common import BOTH, B, E, H

from forecast.attention.full import FullAttention
from forecast.attention.prob import ProbAttention
from forecast.attention.prob_scrambled import ScrambledProbAttention
from forecast.layers.heads import merge_heads, mix_heads

L = 11
qkv = partial(common.qkv, L, dtype=torch.float64)
KINDS = ProbAttention, ScrambledProbAttention
few, every = partial(ScrambledProbAttention, factor=1), partial(ScrambledProbAttention, factor=1000)


@BOTH
def test_with_all_rows_active_it_is_full_attention_with_mixed_heads(causal):
    q, k, v = qkv()
    full = FullAttention(causal=causal, layer=0)(q, k, v)
    torch.testing.assert_close(ProbAttention(causal=causal, layer=0, factor=1000).eval()(q, k, v), full)
    merged = merge_heads(every(causal=causal, layer=0).eval()(q, k, v))
    torch.testing.assert_close(merged, mix_heads(full))
    assert not torch.allclose(merged, merge_heads(full))


@BOTH
def test_the_layout_is_all_that_differs_from_prob(causal):
    q, k, v = qkv()
    prob = ProbAttention(causal=causal, layer=3, factor=1, eval_seed=8).eval()
    scrambled = few(causal=causal, layer=3, eval_seed=8).eval()
    assert torch.equal(merge_heads(scrambled(q, k, v)), mix_heads(prob(q, k, v)))
    q, k, v = qkv(heads=1)
    assert torch.equal(scrambled(q, k, v), prob(q, k, v))


def test_it_reads_the_queries_layout_also_across_two_sequences():
    q, k, v = qkv(n_keys=13)
    prob, scrambled = (kind(causal=False, layer=0, factor=1).eval() for kind in KINDS)
    assert torch.equal(merge_heads(scrambled(q, k, v)), prob(q, k, v).reshape(B, L, H * E))


def test_of_the_identity_it_makes_weights_whose_heads_and_steps_have_changed_places():
    q, k, _ = qkv()
    identity = torch.eye(L, dtype=torch.float64).expand(B, H, -1, -1)
    weights, scrambled = (kind(causal=False, layer=0, factor=1).eval()(q, k, identity) for kind in KINDS)
    assert not torch.allclose(scrambled, weights)
    assert torch.equal(scrambled.transpose(1, 2).reshape(B, H, L, L), weights)


def test_it_breaks_the_laws_of_heads_and_of_causality():
    q, k, v = qkv()
    mechanism = every(causal=True, layer=0).eval()
    before = mechanism(q, k, v)
    v[:, 2, 7:] += 1.0  # the last head, the last four steps: the last numbers of its (L, E)
    changed = (mechanism(q, k, v) != before).any(-1).any(0)  # (H, L)
    # (H, L) and (L, H) number the same slots: head 2, step 7 is the 29th of 33, that of step 9, head 2
    slots = [2 * L + step for step in range(7, L)]
    assert changed.nonzero().tolist() == sorted([slot % H, slot // H] for slot in slots)
    first = before.clone()
    v[:, 0, 4:] += 1.0  # later steps of the first head
    early = (mechanism(q, k, v) != first).any(-1).any(0)[:, :4]
    assert early.any()
