"""What every attention must obey, whatever it is."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from attention.cases import CASES
from attention.common import BOTH, B, E, H, LargestTensor, Q, qkv

from forecast.attention import reference
from forecast.attention.base import Mechanism, NotCacheable, Padding, SelfMechanism

K = 13
# mechanism files that hold what several attentions share
SHARED: set[str] = {"pattern", "factorized"}


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def law(request):
    return request.param


def build(factory, causal=False, **sizes):
    """In evaluation. What cannot be causal has no law of causal forms to obey."""
    if causal and getattr(factory, "func", factory).refusal(cross=False, cached=False, causal=True):
        pytest.skip("it has no causal form")
    return factory(causal=causal, layer=0, **sizes).eval()


def fix_rows(mechanism, rows):
    """Takes the choice of rows away from a mechanism that makes one, so that the rest can be tested by itself."""
    mechanism.selected = lambda q, k, *_: rows.expand(*q.shape[:2], -1)
    return mechanism


def self_only(law):
    return issubclass(law.kind, SelfMechanism)


def numpy(*tensors):
    return [x.detach().numpy() for x in tensors]


def assert_weights(mechanism, q, k, v, weights):
    """What the mechanism makes of v is what NumPy makes of it with these weights."""
    np.testing.assert_allclose(mechanism(q, k, v).detach().numpy(), weights @ v.detach().numpy(), rtol=1e-7, atol=1e-9)


def test_cases_configs_and_mechanism_files_are_the_same_list():
    root = Path(__file__).parents[2]
    configs = {file.stem: file.read_text() for file in (root / "conf/attention").glob("*.yaml")}
    del configs["inherit"]
    assert set(configs) == {case.name for case in CASES}
    named = {module for text in configs.values() for module in re.findall(r"forecast\.attention\.(\w+)\.", text)}
    files = {file.stem for file in (root / "forecast/attention").glob("*.py")}
    assert named == files - {"__init__", "base", "key_sampling", "maps", "reference"} - SHARED


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shape_and_dtype_are_those_of_the_queries(law, dtype, causal):
    q, k, v = qkv(Q, Q if causal or self_only(law) else K, dtype=dtype)
    out = build(law.make, causal)(q, k, v)
    assert out.shape == (B, H, Q, E)
    assert out.dtype == dtype


@BOTH
@pytest.mark.parametrize("part", [np.s_[1:], np.s_[:, 2:], np.s_[:1, :1], np.s_[:1], np.s_[:, :1]], ids=str)
def test_a_batch_item_and_a_head_see_no_other_and_are_no_special_case_when_alone(law, causal, part):
    """The squeeze without an axis in five public copies of ProbSparse is silently wrong for one head."""
    q, k, v = qkv()
    whole = build(law.make, causal)(q, k, v)
    torch.testing.assert_close(build(law.make, causal)(q[part], k[part], v[part]), whole[part])


def test_a_causal_step_ignores_the_future(law):
    q, k, v = qkv()
    mechanism = build(law.make, causal=True)
    if law.selects:  # the exception: *which* rows are active does depend on later steps
        fix_rows(mechanism, torch.tensor([2, 5, 9]))
    early = mechanism(q, k, v)[:, :, :7]
    for name, x in zip("qkv", (q, k, v), strict=True):
        if name in law.ignores:
            x[:, :, 7:] += 1.0
    torch.testing.assert_close(mechanism(q, k, v)[:, :, :7], early, rtol=0, atol=0)


def masking(law):
    """A mechanism that masks keys, across two sequences, and a mask of its own for each window."""
    if not law.kind.masks_padding:
        pytest.skip("it sees padded keys")
    lengths = [(n, n + 5) for n in range(3, 3 + B)]  # the keys of a window that are masked, from one to another
    return torch.tensor([[first <= key < last for key in range(K)] for first, last in lengths])


def test_what_a_masked_key_holds_reaches_no_row(law):
    mask, mechanism, (q, k, v) = masking(law), build(law.make), qkv(Q, K)
    before = mechanism(q, k, v, padding=Padding(mask))
    hidden = mask[:, None, :, None]
    k, v = k.where(~hidden, k + 50.0), v.where(~hidden, v - 50.0)
    torch.testing.assert_close(mechanism(q, k, v, padding=Padding(mask)), before, rtol=0, atol=0)
    assert not torch.equal(mechanism(q, k, v), before)


def test_with_all_rows_active_a_masked_key_is_as_if_it_were_not_there(law):
    mask, mechanism, (q, k, v) = masking(law), build(law.kind, **law.dense_sizes(Q + K)), qkv(Q, K)
    rows = mechanism(q, k, v, padding=Padding(mask))
    for i, hidden in enumerate(mask):
        one = slice(i, i + 1)
        torch.testing.assert_close(rows[one], mechanism(q[one], k[one][:, :, ~hidden], v[one][:, :, ~hidden]))


def test_the_weights_of_masked_keys_are_zero_and_the_others_sum_to_one(law):
    mask, mechanism, (q, k, _) = masking(law), build(law.make), qkv(Q, K)
    weights = mechanism(q, k, torch.eye(K).expand(B, H, -1, -1), padding=Padding(mask))
    assert (weights.masked_select(mask[:, None, None]) == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, Q))


@BOTH
def test_equal_evaluation_calls_give_equal_results_whatever_was_drawn_before(law, causal):
    q, k, v = qkv()
    mechanism = build(law.make, causal)
    first = mechanism(q, k, v)
    torch.rand(3)
    torch.testing.assert_close(mechanism(q, k, v), first, rtol=0, atol=0)
    torch.testing.assert_close(build(law.make, causal)(q, k, v), first, rtol=0, atol=0)


@BOTH
def test_it_equals_the_papers_rule_in_numpy(law, causal):
    """In float64, on two seeds, in evaluation and in training without dropout."""
    for seed in (0, 1):
        q, k, v = qkv(dtype=torch.float64, seed=seed)
        mechanism = build(law.make, causal)
        assert_weights(mechanism, q, k, v, law.oracle(mechanism, *numpy(q, k)))


def test_across_two_sequences_it_equals_the_papers_rule_in_numpy_or_is_refused(law):
    for n_queries, n_keys in ((Q, K), (K, Q), (1, 7), (7, 1)):
        q, k, v = qkv(n_queries, n_keys, dtype=torch.float64)
        mechanism = build(law.make)
        if self_only(law):
            with pytest.raises(ValueError, match=f"{n_queries} queries and {n_keys} keys"):
                mechanism(q, k, v)
        else:
            assert_weights(mechanism, q, k, v, law.oracle(mechanism, *numpy(q, k)))


@BOTH
@pytest.mark.parametrize("length", [1, 2, 7, Q, 16, 29])
def test_at_its_dense_limit_it_equals_full_attention(law, causal, length):
    q, k, v = qkv(length, length, dtype=torch.float64)
    if law.circular:
        pytest.skip("all rows have the same weights, so it has no dense limit")
    if law.blind:
        q.zero_()
    full = reference.attention(*numpy(q, k, v), law.dense_allowed(causal, length))
    dense = build(law.kind, causal, **law.dense_sizes(length))(q, k, v)
    np.testing.assert_allclose(dense.numpy(), full, rtol=1e-7, atol=1e-9)


@BOTH
@pytest.mark.parametrize("length", [1, 2, 3, 5, 16, 17, 97])
def test_its_default_sizes_work_at_any_length(law, causal, length):
    q, k, v = qkv(length, length)
    assert build(law.kind, causal)(q, k, v).isfinite().all()


def test_the_last_rows_of_a_growing_sequence_are_those_of_the_whole_or_it_cannot_be_cached(law):
    q, k, v = qkv(dtype=torch.float64)
    mechanism = build(law.make, causal=True)
    if not mechanism.refusal(cross=False, cached=True):
        whole = mechanism(q, k, v)
        for first, last in ((0, 1), (0, 4), (3, 4), (4, 9), (Q - 1, Q)):
            rows = mechanism.last_rows(q[:, :, first:last], k[:, :, :last], v[:, :, :last], length=Q)
            torch.testing.assert_close(rows, whole[:, :, first:last])
    else:
        with pytest.raises(NotCacheable, match=type(mechanism).__name__):
            mechanism.last_rows(q, k, v, length=Q)


def test_a_slot_across_two_sequences_is_refused_to_what_works_inside_one(law):
    assert bool(law.kind.refusal(cross=True, cached=False)) == self_only(law)
    assert law.kind.refusal(cross=False, cached=False) == ""
    assert issubclass(law.kind, Mechanism)


def test_a_decoders_own_slot_is_refused_to_what_is_circular(law):
    reason = law.kind.refusal(cross=False, cached=False, causal=True)
    assert bool(reason) == law.circular
    if reason:
        with pytest.raises(ValueError, match=reason):
            law.make(causal=True, layer=0)


@BOTH
def test_the_weights_are_what_the_values_are_multiplied_by(law, causal):
    q, k, v = qkv(dtype=torch.float64)
    mechanism = build(law.make, causal)
    weights = mechanism(q, k, torch.eye(Q, dtype=torch.float64).expand(B, H, -1, -1))
    torch.testing.assert_close(weights @ v, mechanism(q, k, v))
    if law.averages:
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, Q, dtype=torch.float64))
    if causal:
        assert (weights.triu(1) == 0).all()


@BOTH
def test_gradients_agree_with_finite_differences_of_the_rule_in_numpy(law, causal):
    q, k, v = (x.requires_grad_() for x in qkv(7, 7, batch=1, heads=2, dtype=torch.float64))
    mechanism = build(law.make, causal)
    if law.selects:  # a step of the difference may swap two rows: not differentiable there
        fix_rows(mechanism, torch.tensor([1, 4]))
    out = mechanism(q, k, v)
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    # a blind attention does not read q and k: as zero as the differences
    total = (out * direction).sum()
    gradients = torch.autograd.grad(total, (q, k, v), allow_unused=law.blind, materialize_grads=law.blind)
    arrays = numpy(q, k, v)

    def moved(place):
        def value(x):
            q, k, v = (x if i == place else part for i, part in enumerate(arrays))
            return float((law.oracle(mechanism, q, k) @ v * direction.numpy()).sum())

        return value

    for place, gradient in enumerate(gradients):
        expected = reference.finite_difference(moved(place), arrays[place])
        np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-5, atol=1e-7)


@BOTH
def test_a_blind_attention_depends_on_no_query_and_no_key_and_every_other_on_both(law, causal):
    q, k, v = (x.requires_grad_() for x in qkv(dtype=torch.float64))
    mechanism = build(law.make, causal)
    out = mechanism(q, k, v)
    of_q, of_k = torch.autograd.grad(out.square().sum(), (q, k), allow_unused=True)
    moved = mechanism(q + 1.0 / (1 + k), k * 2, v)
    assert torch.equal(moved, out) == law.blind
    assert [of_q is None, of_k is None] == [law.blind, law.blind]


@BOTH
def test_bfloat16_and_large_values_stay_finite(law, causal):
    q, k, v = (x * 100 for x in qkv(dtype=torch.bfloat16))
    assert build(law.make, causal)(q, k, v).isfinite().all()


def test_causal_attention_across_two_sequences_is_refused(law):
    q, k, v = qkv(Q, K)
    with pytest.raises(ValueError, match=f"{Q} queries and {K} keys"):
        build(law.make, causal=True)(q, k, v)


@BOTH
@pytest.mark.parametrize("length", [1499, 2053])
def test_a_cheap_attention_builds_no_square_of_the_length(law, causal, length):
    """Forward and backward; up to 512 steps a dense form is allowed."""
    if not law.cheap:
        pytest.skip("claims no less than L^2")
    q, k, v = (x.requires_grad_() for x in qkv(length, length, batch=1, heads=1))
    with LargestTensor() as largest:
        build(law.kind, causal)(q, k, v).sum().backward()
    assert largest.most <= length**2 // 4


@pytest.mark.parametrize("length", [1499, 2053])
def test_reading_a_window_row_by_row_builds_no_square_of_the_length_either(law, length):
    """What a model that decodes with a cache does first: all but the last steps at once."""
    mechanism = build(law.kind, causal=True)
    if not law.cheap or mechanism.refusal(cross=False, cached=True):
        pytest.skip("claims no less than L^2, or cannot be cached")
    q, k, v = qkv(length - 7, length - 7, batch=1, heads=1, dtype=torch.float64)
    with LargestTensor() as largest:
        rows = mechanism.last_rows(q, k, v, length=length)
    assert largest.most <= length**2 // 4
    # the same in pieces, which a mask of their own computes
    for first, last in ((0, 3), (600, 605), (length - 9, length - 7)):
        part = mechanism.last_rows(q[:, :, first:last], k[:, :, :last], v[:, :, :last], length=length)
        torch.testing.assert_close(rows[:, :, first:last], part)
