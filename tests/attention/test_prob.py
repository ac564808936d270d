"""ProbSparse attention: which keys are sampled, which rows are active, what the others get."""

import itertools
import math

import pytest
import torch
from attention.common import B, ChosenKeys, E, H, qkv

from forecast.attention import key_sampling
from forecast.attention.base import Padding
from forecast.attention.key_sampling import (
    draw_by_order,
    draw_with_replacement,
    draw_without_replacement,
    gather_scores,
    sampled_scores,
)
from forecast.attention.prob import ProbAttention, n_active
from forecast.attention.prob_informer2020 import Informer2020ProbAttention

CPU = torch.device("cpu")
L = 11
# Zhou et al.: u = c ceil(ln L); steps of ceil(ln L) at 3, 8, 21, 55, 149, 404, 1097
TABLE = {24: 20, 25: 20, 48: 20, 49: 20, 72: 25, 96: 25, 144: 25, 168: 30, 336: 30, 384: 30, 480: 35, 720: 35, 1440: 40}


def test_active_rows_follow_the_published_rule_and_are_at_least_one_and_at_most_all():
    assert {length: n_active(length, 5) for length in TABLE} == TABLE
    assert [n_active(length, 5) for length in (1, 2, 3, 4)] == [1, 2, 3, 4]
    assert n_active(96, 3) == 15
    assert n_active(1, 1) == 1  # ln 1 is 0


@pytest.mark.parametrize("draw", [draw_without_replacement, draw_by_order])
def test_keys_drawn_without_replacement_are_distinct_and_uniform(draw):
    drawn = draw(4000, 13, 5, device=CPU, generator=torch.Generator().manual_seed(0))
    assert drawn.shape == (4000, 5)
    assert all(len(set(row)) == 5 for row in drawn.tolist())
    share = torch.bincount(drawn.flatten(), minlength=13) / 4000
    # each key is in a set of 5 of 13 with probability 5 / 13; five standard deviations
    assert (share - 5 / 13).abs().max() < 5 * math.sqrt(5 / 13 * 8 / 13 / 4000)
    pairs = [(drawn == a).any(1) & (drawn == b).any(1) for a, b in ((0, 1), (0, 12), (11, 12))]
    for both in pairs:  # two keys together: 5 * 4 / (13 * 12)
        assert abs(both.float().mean() - 20 / 156) < 5 * math.sqrt(20 / 156 * 136 / 156 / 4000)


@pytest.mark.parametrize("draw", [draw_without_replacement, draw_by_order])
def test_all_keys_are_drawn_when_as_many_are_wanted(draw):
    drawn = draw(7, 5, 5, device=CPU, generator=None)
    assert drawn.sort(1).values.tolist() == [[0, 1, 2, 3, 4]] * 7


def test_keys_drawn_with_replacement_repeat():
    drawn = draw_with_replacement(400, 13, 5, device=CPU, generator=None)
    assert any(len(set(row)) < 5 for row in drawn.tolist())
    assert drawn.min() == 0 and drawn.max() == 12


@pytest.mark.parametrize("dense_keys", [0, 10**6], ids=["gathered", "dense"])
@pytest.mark.parametrize("block", [3, 512])
def test_sampled_scores_equal_a_plain_loop_in_both_forms(monkeypatch, dense_keys, block):
    monkeypatch.setattr(key_sampling, "DENSE_KEYS", dense_keys)
    monkeypatch.setattr(key_sampling, "BLOCK_QUERIES", block)
    q, k, _ = qkv(dtype=torch.float64)
    sample = torch.randint(L, (L, 7), generator=torch.Generator().manual_seed(2))
    expected = torch.empty(B, H, L, 7, dtype=torch.float64)
    for i in range(L):
        for j in range(7):
            expected[:, :, i, j] = (q[:, :, i] * k[:, :, sample[i, j]]).sum(-1)
    torch.testing.assert_close(sampled_scores(q, k, sample), expected)
    torch.testing.assert_close(gather_scores(q, k, sample), expected)  # as on a GPU


def active_rows(mechanism, q, k):
    return [[set(head) for head in item] for item in mechanism.selected(q, k).tolist()]


def test_a_row_that_sampled_no_allowed_key_stays_inactive_unless_all_are_active():
    q, k, _ = qkv(dtype=torch.float64)
    sample = [[L - 1, L - 2]] * (L - 2) + [[0, 1]] * 2  # only the last two rows sampled a key of their past
    for factor, rows in ((1, None), (1000, set(range(L)))):
        mechanism = ProbAttention(causal=True, layer=0, factor=factor)
        mechanism.sampler = ChosenKeys(sample)
        for head in active_rows(mechanism, q, k)[0]:
            assert {L - 1, L - 2} <= head if rows is None else head == rows


@pytest.mark.parametrize("per_head", [False, True])
def test_of_the_sampled_keys_the_masked_ones_count_in_no_measure(per_head):
    q, k, _ = qkv(dtype=torch.float64)
    mask = torch.zeros(B, L, dtype=torch.bool)
    mask[0, :4], mask[1:, 7] = True, True
    sample = [[0, 7, 5], [3, 8, 9], [9, 7, 4]][:H] if per_head else [[i, (i + 4) % L, (i + 5) % L] for i in range(L)]
    sampling = "per_head" if per_head else "per_query"
    mechanism = ProbAttention(causal=False, layer=0, factor=1, key_sampling=sampling)
    mechanism.sampler = ChosenKeys(sample)
    measures = mechanism.measured(q, k, padding=Padding(mask))
    for b, h, row in itertools.product(range(B), range(H), range(L)):
        keys = [key for key in sample[h if per_head else row] if not mask[b, key]]
        scores = [float(q[b, h, row] @ k[b, h, key]) for key in keys]
        assert measures[b, h, row].item() == pytest.approx(max(scores) - sum(scores) / len(scores))


def test_a_later_step_can_change_which_earlier_rows_are_active():
    """The stated exception to causality: rows compete."""
    q, k, _ = qkv(dtype=torch.float64)
    mechanism = ProbAttention(causal=True, layer=0, factor=1).eval()
    before = mechanism.selected(q, k).sort().values
    q[:, :, 7:] *= 50.0
    assert not torch.equal(mechanism.selected(q, k).sort().values, before)


def test_the_divisor_changes_which_rows_are_active():
    """Numbers from the authors' code: dividing by all keys is not the same as by the sampled ones."""
    n = torch.arange(2 * 8 * 2 * 4, dtype=torch.float32).reshape(2, 8, 2, 4).transpose(1, 2)
    q, k, v = torch.sin(0.7 * n), torch.cos(1.3 * n), torch.sin(0.9 * n + 1)
    sample = [[4, 7, 5], [0, 3, 3], [3, 7, 1], [3, 5, 2], [4, 7, 6], [0, 0, 4], [2, 1, 6], [7, 7, 6]]
    kinds = Informer2020ProbAttention, ProbAttention
    theirs, ours = (kind(causal=False, layer=0, factor=1) for kind in kinds)
    theirs.sampler = ours.sampler = ChosenKeys(sample)
    assert active_rows(theirs, q, k) == [[{5, 6, 7}, {2, 5, 6}], [{3, 4, 6}, {2, 3, 6}]]
    assert active_rows(ours, q, k) == [[{2, 6, 7}, {0, 2, 5}], [{2, 4, 6}, {3, 5, 6}]]
    out = theirs(q, k, v)
    assert out.sum().item() == pytest.approx(2.917259, abs=1e-5)
    assert out.abs().sum().item() == pytest.approx(13.133692, abs=1e-5)
    assert out[1, 1, :, 3].tolist() == pytest.approx(
        [0.11974, 0.11974, 0.20056, 0.17995, 0.11974, 0.11974, 0.04337, 0.11974], abs=1e-5
    )
    causal = Informer2020ProbAttention(causal=True, layer=0, factor=1)
    causal.sampler = ChosenKeys(sample)
    assert causal(q, k, v).sum().item() == pytest.approx(5.080353, abs=1e-5)


def test_dropout_acts_on_active_rows_in_training_alone():
    q, k, v = qkv(dtype=torch.float64)
    mechanism = ProbAttention(causal=False, layer=0, factor=1, dropout=0.5)
    mechanism.sampler = ChosenKeys([[i, (i + 1) % L, (i + 5) % L] for i in range(L)])
    calm = mechanism.eval()(q, k, v)
    torch.manual_seed(0)
    dropped = mechanism.train()(q, k, v)
    changed = (dropped != calm).any(-1)
    active = torch.zeros(B, H, L, dtype=torch.bool).scatter(2, mechanism.selected(q, k), True)
    assert changed.any()
    assert not (changed & ~active).any()


def test_the_running_sum_of_the_prefix_mean_does_not_overflow_float16():
    v = torch.full((1, 1, 1024, E), 200.0, dtype=torch.float16)
    q = k = torch.zeros_like(v)
    out = ProbAttention(causal=True, layer=0, factor=1).eval()(q, k, v)
    torch.testing.assert_close(out, v)
