"""LSH attention: who meets whom, what a round counts, and what pads, lengths and seeds do."""

import numpy as np
import pytest
import torch
from attention import lsh_oracle
from attention.common import BOTH, B, E, H, LargestTensor, qkv
from torch.nn import functional as F

from forecast.attention import lsh, reference
from forecast.attention.lsh import LshAttention, Rotations, default_bucket, hashed, sorted_steps

L = 29
CPU = torch.device("cpu")


def shared(length=L, dtype=torch.float64, seed=1):
    """Queries, keys of length one in their directions, and values."""
    q, _, v = qkv(length, dtype=torch.float64, seed=seed)
    return q.to(dtype), F.normalize(q, dim=-1).to(dtype), v.to(dtype)


def full(q, k, v, causal):
    allowed = lsh_oracle.dense_allowed(causal, q.shape[2])
    return torch.from_numpy(reference.attention(q.numpy(), k.numpy(), v.numpy(), allowed))


def build(causal=False, **sizes):
    return LshAttention(causal=causal, layer=0, **sizes).eval()


@BOTH
@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize("bucket, length", [(7, 14), (7, 13), (7, 8), (4, 7)], ids=str)
def test_one_pair_of_chunks_is_full_attention_in_any_number_of_rounds_padded_or_not(causal, rounds, bucket, length):
    q, k, v = shared(length)
    out = build(causal, bucket_size=bucket, n_hashes=rounds)(q, k, v)
    torch.testing.assert_close(out, full(q, k, v, causal), rtol=1e-12, atol=1e-12)


@BOTH
@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 13, 16, 17, 24, 31, 39])
@pytest.mark.parametrize("bucket", [1, 3, 4, None])
def test_it_equals_dense_rounds_at_each_length(causal, bucket, length):
    if bucket and bucket > length:
        return
    q, k, v = shared(length)
    mechanism = build(causal, bucket_size=bucket, n_hashes=3)
    expected = lsh_oracle.weights(mechanism, q.numpy(), k.numpy()) @ v.numpy()
    np.testing.assert_allclose(mechanism(q, k, v).numpy(), expected, rtol=1e-10, atol=1e-12)


def test_rounds_one_after_the_other_give_what_they_give_at_once(monkeypatch):
    q, k, v = shared()
    scores = B * H * 30 * 6  # of one round: 29 steps are 30 with pads
    mechanism = build(bucket_size=3, n_hashes=5)
    at_once = mechanism(q, k, v)
    attend, calls = mechanism._attend, []
    mechanism._attend = lambda *args: calls.append(args[3].shape[2]) or attend(*args)
    for limit, expected in ((5 * scores, [5]), (2 * scores, [2, 2, 1]), (scores - 1, [1] * 5)):
        monkeypatch.setattr(lsh, "SCORES_AT_ONCE", limit)
        calls.clear()
        torch.testing.assert_close(mechanism(q, k, v), at_once)
        assert calls == expected


@pytest.mark.parametrize("block", [1, 7, 512])
def test_a_step_is_in_the_bucket_of_the_nearest_direction_or_its_opposite(monkeypatch, block):
    monkeypatch.setattr(lsh, "BLOCK_STEPS", block)
    _, k, _ = shared()
    mechanism = build(bucket_size=4, n_hashes=3)
    rotations = mechanism.rotations(E, 3, 4, CPU).double().numpy()  # 29 steps are 32 with pads, in 8 chunks
    buckets = mechanism.buckets(k)
    for b, h, r, i in np.ndindex(B, H, 3, L):
        along = k[b, h, i].numpy() @ rotations[:, r]
        assert buckets[b, h, r, i] == np.argmax(np.concatenate([along, -along]))


def test_the_length_of_a_key_does_not_change_its_bucket():
    q, k, _ = shared()
    mechanism = build(bucket_size=4, n_hashes=3)
    assert torch.equal(mechanism.buckets(q), mechanism.buckets(k))


def test_a_key_without_a_direction_is_in_the_first_bucket():
    assert hashed(torch.zeros(1, 1, 2, E), torch.randn(E, 3, 4)).eq(0).all()


def test_steps_sort_by_bucket_then_position_and_pads_come_last():
    buckets = torch.tensor([3, 0, 3, 1, 0]).expand(1, 1, 1, -1)
    assert sorted_steps(buckets, 8).flatten().tolist() == [1, 4, 3, 0, 2, 5, 6, 7]


@BOTH
def test_the_first_chunk_meets_the_last_of_its_round_and_no_other_two_apart(causal):
    """Eight steps in four chunks of two, the buckets given."""
    mechanism = build(causal, bucket_size=2, n_hashes=1)
    mechanism.buckets = lambda k: torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]).expand(B, H, 1, -1)
    q, k, _ = shared(8)
    weights = mechanism(q, k, torch.eye(8, dtype=torch.float64).expand(B, H, -1, -1))
    expected = [{6, 7, 0, 1}, {0, 1, 2, 3}, {2, 3, 4, 5}, {4, 5, 6, 7}]
    for i in range(8):
        seen = {j for j in expected[i // 2] if (j < i if causal else j != i)} or {i}
        assert {j for j in range(8) if weights[0, 0, i, j] > 0} == seen


@BOTH
@pytest.mark.parametrize("bucket", [4, 7])
def test_pads_have_no_influence(monkeypatch, causal, bucket):
    q, k, v = shared()
    mechanism = build(causal, bucket_size=bucket, n_hashes=2)
    whole = mechanism(q, k, v)
    monkeypatch.setattr(lsh.F, "pad", lambda x, pads: torch.constant_pad_nd(x, pads, 50.0))
    torch.testing.assert_close(mechanism(q, k, v), whole, rtol=0, atol=0)


def test_the_first_causal_row_is_the_first_value_and_a_lone_step_is_its_value():
    for bucket, rounds in ((2, 1), (4, 4), (7, 3), (None, 8)):
        q, k, v = shared()
        torch.testing.assert_close(build(True, bucket_size=bucket, n_hashes=rounds)(q, k, v)[:, :, 0], v[:, :, 0])
        q, k, v = shared(1)
        torch.testing.assert_close(build(n_hashes=rounds)(q, k, v), v)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_a_round_in_which_a_row_sees_only_itself_counts_only_if_every_round_is_so(dtype, scale):
    """Chunks of one step, causal: a row sees the step before it in sorted order, if that is an earlier one."""
    buckets = torch.tensor([[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 1, 0, 5, 4, 3]])
    mechanism = build(True, bucket_size=1, n_hashes=3)
    mechanism.buckets = lambda k: buckets.expand(B, H, -1, -1)
    q, k, v = shared(6, dtype)
    out = mechanism(q * scale, k, v)
    # sorted, round 0 is 0 1 2 3 4 5, round 1 is 5 4 3 2 1 0, round 2 is 2 1 0 5 4 3; the first chunk wraps
    torch.testing.assert_close(out[:, :, 0], v[:, :, 0])  # alone in all three
    torch.testing.assert_close(out[:, :, 1], v[:, :, 0])  # sees 0 in round 0 and itself in the others
    assert out.isfinite().all()


def test_a_later_value_or_query_never_changes_an_earlier_row_but_a_later_key_may():
    """The stated exception: keys decide which steps share a chunk."""
    mechanism = build(True, bucket_size=3)
    for seed in range(10):
        q, k, v = shared(dtype=torch.float32, seed=seed)
        early = mechanism(q, k, v)[:, :, :20]
        v[:, :, 20:] = 1e6
        q[:, :, 20:] *= -30
        assert torch.equal(mechanism(q, k, v)[:, :, :20], early)
    k[:, :, 20:] *= -1.0
    assert not torch.equal(mechanism(q, k, v)[:, :, :20], early)


def test_directions_are_standard_normal_and_differ_from_round_to_round():
    drawn = Rotations(eval_seed=0, layer=0).eval()(50, 4, 50, CPU)
    assert abs(drawn.mean()) < 0.05 and abs(drawn.std() - 1) < 0.05
    assert not torch.equal(drawn[:, 0], drawn[:, 1])


def test_under_autocast_it_takes_what_a_projection_gives_there():
    """Queries and values in bfloat16, normalised keys in float32."""
    q, k, v = shared(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = build(bucket_size=15)(q.bfloat16(), k, v.bfloat16())
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.double(), full(*(x.double() for x in (q, k, v)), False), rtol=0, atol=5e-2)


@BOTH
def test_a_long_sequence_needs_memory_for_its_chunks_alone(causal):
    """No tensor is larger than all scores, 2 * rounds * bucket a step and head, forward and backward."""
    length = 4096
    q, k, v = (torch.randn(1, 2, length, 16, requires_grad=True) for _ in range(3))
    with LargestTensor() as largest:
        build(causal)(q, k, v).sum().backward()
    assert largest.most <= 2 * length * 4 * 2 * default_bucket(length)
    assert largest.most < length**2


def test_the_default_bucket_is_a_power_of_two_that_grows_as_the_logarithm():
    sizes = {1: 4, 2: 4, 4: 4, 5: 8, 16: 8, 17: 16, 96: 16, 256: 16, 257: 32, 720: 32, 65536: 32, 65537: 64}
    assert {length: default_bucket(length) for length in sizes} == sizes
    assert [build(bucket_size=None).chunk_steps(n) for n in (96, 720)] == [16, 32]


@pytest.mark.parametrize("length, padded", [(1, 6), (6, 6), (7, 12), (12, 12), (13, 18)])
def test_the_length_is_padded_to_pairs_of_chunks(length, padded):
    mechanism = build()
    mechanism.chunk_steps = lambda length: 3
    assert mechanism.padded(length) == padded


def test_a_bucket_larger_than_the_sequence_is_refused_with_the_fix():
    mechanism = build(bucket_size=12)
    mechanism(*shared(12))
    with pytest.raises(ValueError, match=r"bucket_size=12 and a sequence of 11 steps.*distilled encoder halves"):
        mechanism(*shared(11))
