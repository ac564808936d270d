"""The parts of ProbSparse attention: what each changes alone, and that together they are the authors' code."""

import math
from itertools import product
from typing import get_args

import numpy as np
import pytest
import torch
from attention import common, oracles
from attention.common import BOTH, B, ChosenKeys, H, LargestTensor

from forecast.attention.key_sampling import (
    AVERAGES,
    KEY_DRAWS,
    CausalMeasureName,
    InactiveName,
    KeySampler,
    draw_by_order,
    draw_with_replacement,
)
from forecast.attention.prob import ProbAttention, n_active
from forecast.attention.prob_informer2020 import Informer2020ProbAttention

L = 29
U = 4  # n_active(29, 1)
CPU = torch.device("cpu")
# (Q, U): a key twice, later keys, in row 0 no key of its past, in odd rows the query's own step
SAMPLE = [[(i + 4 + j * j) % L for j in range(U - 1)] + [i if i % 2 else (i + 4) % L] for i in range(L)]
THEIRS = {"key_sampling": "with_replacement", "divisor": "all", "causal_measure": "all", "inactive": "sum"}


def qkv(n_keys=L, seed=1):
    return common.qkv(L, n_keys, dtype=torch.float64, seed=seed)


def build(causal, sample=None, **parts):
    mechanism = ProbAttention(causal=causal, layer=3, factor=1, eval_seed=8, **parts).eval()
    if sample is not None:
        mechanism.sampler = ChosenKeys(sample)
    return mechanism


def active_rows(mechanism, q, k):
    return mechanism.selected(q, k).sort().values.tolist()


def test_every_option_of_a_part_is_tested_here():
    assert [set(part) for part in (KEY_DRAWS, AVERAGES, get_args(CausalMeasureName), get_args(InactiveName))] == [
        {"per_query", "with_replacement", "per_head"},
        {"sampled", "all"},
        {"past", "all"},
        {"mean", "sum"},
    ]


@BOTH
@pytest.mark.parametrize("keys, divisor, counted", list(product(["per_query", "per_head"], AVERAGES, ["past", "all"])))
def test_the_measure_is_that_of_a_plain_loop_for_every_choice_of_parts(causal, keys, divisor, counted):
    q, k, _ = qkv()
    sample = SAMPLE if keys == "per_query" else [[0, 3, 3, 20], [5, 28, 1, 1], [2, 7, 17, 26]]  # (Q, U), (H, U)
    mechanism = build(causal, sample, key_sampling=keys, divisor=divisor, causal_measure=counted)
    measure = mechanism.measured(q, k)
    for b, h, i in np.ndindex(B, H, L):
        drawn = sample[i] if keys == "per_query" else sample[h]
        scores = [(q[b, h, i] @ k[b, h, j]).item() for j in drawn if not causal or counted == "all" or j <= i]
        by = len(scores) if divisor == "sampled" else L
        expected = max(scores) - sum(scores) / by if scores else -math.inf
        assert measure[b, h, i].item() == pytest.approx(expected)
    rows = measure.topk(n_active(L, 1)).indices
    assert active_rows(mechanism, q, k) == rows.sort().values.tolist()


@pytest.mark.parametrize("part, causal", [({"divisor": "all"}, False), ({"causal_measure": "all"}, True)])
def test_the_parts_of_the_measure_change_which_rows_are_active(part, causal):
    q, k, _ = qkv()
    assert active_rows(build(causal, SAMPLE, **part), q, k) != active_rows(build(causal, SAMPLE), q, k)


@pytest.mark.parametrize("part", [{"causal_measure": "all"}, {"inactive": "sum"}], ids=str)
def test_parts_of_a_causal_layer_change_no_layer_that_is_not_causal(part):
    q, k, v = qkv()
    assert torch.equal(build(False, **part)(q, k, v), build(False)(q, k, v))


def test_rows_without_a_counted_key_stay_inactive_whatever_the_divisor():
    q, k, _ = qkv()
    sample = [[L - 1] * U] * (L - U) + [[0] * U] * U
    for divisor in AVERAGES:
        assert build(True, sample, divisor=divisor).selected(q, k).min() == L - U


def test_inactive_rows_of_a_causal_layer_are_sums_where_set_and_active_ones_stay():
    q, k, v = qkv()
    mean, total = build(True, SAMPLE), build(True, SAMPLE, inactive="sum")
    active = mean.selected(q, k)
    assert torch.equal(total.selected(q, k), active)
    np.testing.assert_allclose(total(q, k, v), oracles.prob_informer2020(total, q.numpy(), k.numpy()) @ v.numpy())
    changed = ((total(q, k, v) - mean(q, k, v)).abs() > 1e-9).any(-1)
    expected = torch.ones(B, H, L, dtype=torch.bool).scatter(2, active, False)
    expected[:, :, 0] = False  # one value is its own sum
    assert torch.equal(changed, expected)


@BOTH
def test_keys_with_replacement_are_drawn_with_replacement_and_nothing_else_changes(causal):
    q, k, v = qkv()
    mechanism = build(causal, key_sampling="with_replacement")
    drawn = mechanism.sampler(L, L, U, CPU)
    assert torch.equal(drawn, KeySampler(draw=draw_with_replacement, eval_seed=8, layer=3).eval()(L, L, U, CPU))
    assert any(len(set(row)) < U for row in drawn.tolist())
    assert torch.equal(build(causal, drawn.tolist())(q, k, v), mechanism(q, k, v))
    assert active_rows(mechanism, q, k) != active_rows(build(causal), q, k)


@pytest.mark.parametrize("n_keys", [L, 37])
def test_keys_per_head_are_one_set_a_head_drawn_without_replacement_by_seed_and_layer(n_keys):
    q, k, v = qkv(n_keys)
    mechanism = build(False, key_sampling="per_head")
    drawn = KeySampler(draw=draw_by_order, eval_seed=8, layer=3).eval()(H, n_keys, U, CPU)
    assert len({tuple(head) for head in drawn.tolist()}) == H
    by_query = build(False)
    for h in range(H):  # a head alone, whose queries are all given the same keys
        by_query.sampler = ChosenKeys([drawn[h].tolist()] * L)
        head = [x[:, h : h + 1] for x in (q, k, v)]
        torch.testing.assert_close(mechanism(q, k, v)[:, h : h + 1], by_query(*head))
    assert active_rows(mechanism, q, k) != active_rows(build(False), q, k)


@BOTH
def test_keys_per_head_are_not_copied_for_each_query(causal):
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(B, H, 2053, 2, generator=generator) for _ in range(2))
    with LargestTensor() as largest:
        build(causal, key_sampling="per_head").selected(q, k)
    assert largest.most == B * H * 2053 * n_active(2053, 1)  # the scores; a copy of the keys has twice as many


@BOTH
@pytest.mark.parametrize("training", [False, True])
def test_all_parts_of_the_authors_together_are_the_authors_attention_to_the_last_bit(causal, training):
    theirs = Informer2020ProbAttention(causal=causal, layer=3, factor=1, eval_seed=8).train(training)
    parts = build(causal, **THEIRS).train(training)
    for seed in range(5):
        q, k, v = qkv(seed=seed)
        torch.manual_seed(seed)
        expected = theirs(q, k, v)
        torch.manual_seed(seed)
        assert torch.equal(parts(q, k, v), expected)


@pytest.mark.parametrize("left_out", THEIRS)
def test_without_any_one_of_them_it_is_not(left_out):
    q, k, v = qkv()
    theirs = Informer2020ProbAttention(causal=True, layer=3, factor=1, eval_seed=8).eval()
    parts = build(True, **{name: option for name, option in THEIRS.items() if name != left_out})
    assert not torch.allclose(parts(q, k, v), theirs(q, k, v))
