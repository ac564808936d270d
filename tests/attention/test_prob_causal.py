"""Causal ProbSparse attention: which rows are active, and that no later step has a say in it."""

import math

import numpy as np
import pytest
import torch
from attention import common, prob_causal_oracle
from attention.common import B, E, H
from attention.prob_causal_oracle import active_count, active_rows

from forecast.attention import prob_causal
from forecast.attention.prob import ProbAttention
from forecast.attention.prob_causal import CausalProbAttention, candidates, first_rows

L = 61


def qkv(length=L, dtype=torch.float64, seed=1):
    return common.qkv(length, dtype=dtype, seed=seed)


def measured(values):
    """A causal mechanism whose measure the test chose, factor 1 and budget 2."""
    mechanism = CausalProbAttention(causal=True, layer=0, factor=1, budget=2).eval()
    mechanism.measured = lambda q, k: torch.as_tensor(values).expand(*q.shape[:2], -1)
    return mechanism


@pytest.mark.parametrize("block", [1, 7, 60, 61, 256])
@pytest.mark.parametrize("factor, budget", [(1, 1), (1, 100), (3, 2)])
def test_active_rows_follow_the_rule_in_a_plain_loop_whatever_the_blocks(monkeypatch, block, factor, budget):
    monkeypatch.setattr(prob_causal, "BLOCK_ROWS", block)
    q, k, _ = qkv()
    mechanism = CausalProbAttention(causal=True, layer=0, factor=factor, budget=budget).eval()
    slots = mechanism.selected(q, k)
    assert slots.shape == (B, H, min(budget * active_count(L, factor), L))
    measure = prob_causal_oracle.measures(mechanism, q.numpy(), k.numpy())
    for b, h in np.ndindex(B, H):
        expected = active_rows(measure[b, h], factor, budget)
        unused = slots.shape[2] - len(expected)
        assert slots[b, h].tolist() == expected + [-1] * unused


@pytest.mark.parametrize("block", [3, 256])
def test_on_a_tie_the_earlier_row_wins(monkeypatch, block):
    monkeypatch.setattr(prob_causal, "BLOCK_ROWS", block)
    measure = torch.randint(4, (B, H, L), generator=torch.Generator().manual_seed(0)).double()
    chosen = candidates(measure, 1)
    for b, h in np.ndindex(B, H):
        expected = active_rows(measure[b, h].numpy(), 1, budget=L)
        assert chosen[b, h].nonzero().flatten().tolist() == expected
    # equal measures, -inf among them: row 0 alone, and row i while fewer than ceil(ln(i + 1)) rows are before it
    for level in (0.0, -math.inf):
        assert candidates(torch.full((1, 1, L), level), 1).flatten().nonzero().flatten().tolist() == [0]


def test_the_budget_is_spent_first_come_first_served_and_late_rows_starve():
    """A measure that grows with time makes each row a candidate."""
    q, k, v = qkv()
    mechanism = measured(torch.arange(L).double())
    first = 2 * active_count(L, 1)
    assert mechanism.selected(q, k).tolist() == [[list(range(first))] * H] * B
    out = mechanism(q, k, v)
    mean = v.cumsum(2) / torch.arange(1, L + 1).unsqueeze(-1)
    torch.testing.assert_close(out[:, :, first:], mean[:, :, first:])
    assert ((out - mean)[:, :, 1:first].abs().amax(-1) > 1e-6).all()


def test_first_rows_fill_the_slots_in_the_order_of_time():
    chosen = torch.tensor([[[0, 1, 0, 1, 1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]]).bool()
    assert first_rows(chosen, 2).tolist() == [[[1, 3], [-1, -1], [0, 1]]]
    assert first_rows(chosen, 4).tolist() == [[[1, 3, 4, -1], [-1, -1, -1, -1], [0, 1, 2, 3]]]


@pytest.mark.parametrize("seed", range(20))
def test_a_later_step_never_changes_an_earlier_row(seed):
    """The law without the exception of ProbAttention: neither values nor which rows are active, to the last bit."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = qkv(64, torch.float32, seed)
    mechanism = CausalProbAttention(causal=True, layer=seed, factor=1, budget=2).eval()
    whole, slots = mechanism(q, k, v), mechanism.selected(q, k)
    first = int(torch.randint(1, 64, (1,), generator=generator))
    for x in (q, k, v):
        x[:, :, first:] = 30 * torch.randn(B, H, 64 - first, E, generator=generator)
    assert torch.equal(mechanism(q, k, v)[:, :, :first], whole[:, :, :first])
    for before, after in zip(slots.flatten(0, 1), mechanism.selected(q, k).flatten(0, 1), strict=True):
        early = [slot[(slot >= 0) & (slot < first)] for slot in (before, after)]
        assert torch.equal(*early)


def test_not_causal_it_is_prob_attention_to_the_last_bit():
    q, k, v = qkv(dtype=torch.float32)
    ours, theirs = (kind(causal=False, layer=2, factor=2).eval() for kind in (CausalProbAttention, ProbAttention))
    assert torch.equal(ours.selected(q, k), theirs.selected(q, k))
    assert torch.equal(ours(q, k, v), theirs(q, k, v))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_unused_slots_change_nothing(dtype, dropout):
    """Neither rows nor gradients: every row but those that the slots name is the mean of its past."""
    q, k, v = (x.requires_grad_() for x in qkv(dtype=dtype))
    mechanism = measured(-torch.arange(L).double())  # falling: few candidates
    mechanism.dropout = dropout
    slots = mechanism.train().selected(q, k)
    used = int((slots[0, 0] >= 0).sum())
    assert 0 < used < slots.shape[2]
    active = slots[0, 0, :used]
    out = mechanism(q, k, v)
    mean = (v.float().cumsum(2) / torch.arange(1, L + 1).unsqueeze(-1)).to(dtype)
    idle = [i for i in range(L) if i not in active]
    assert out.isfinite().all()
    torch.testing.assert_close(out[:, :, idle], mean[:, :, idle])
    gradient, *_ = torch.autograd.grad(out.float().square().sum(), (q, k, v))
    assert (gradient[:, :, idle] == 0).all()


def test_about_half_of_factor_times_the_squared_logarithm_are_candidates_of_independent_measures():
    length, factor = 3000, 5
    measure = torch.randn(1, 20, length, generator=torch.Generator().manual_seed(0))
    count = candidates(measure, factor).sum(-1).float().mean().item()
    # the expectation: row i is a candidate with probability n_active(i + 1) / (i + 1)
    expected = sum(active_count(i + 1, factor) / (i + 1) for i in range(length))
    assert count == pytest.approx(expected, rel=0.05)
    assert expected == pytest.approx(factor * math.log(length) ** 2 / 2, rel=0.15)
