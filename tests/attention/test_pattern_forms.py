"""The static patterns: their cheap form is their mask, and it is cheap."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
import torch
from attention import pattern_oracles as oracles
from attention.common import BOTH, LargestTensor, qkv
from saved_tensors import saved_bytes

from forecast.attention import factorized, pattern
from forecast.attention.fixed import FixedAttention
from forecast.attention.logsparse import LogSparseAttention
from forecast.attention.strided import StridedAttention

VARIANTS = {
    "logsparse": (LogSparseAttention, {}),
    "logsparse canonical": (LogSparseAttention, {"window": 1}),
    "logsparse restart": (LogSparseAttention, {"sub_len": 5}),
    "logsparse narrow restart": (LogSparseAttention, {"sub_len": 7, "window": 1}),
    "strided": (StridedAttention, {}),
    "strided per head": (StridedAttention, {"heads": "per_head"}),
    "strided narrow": (StridedAttention, {"window": 3}),
    "strided narrow per head": (StridedAttention, {"window": 3, "heads": "per_head"}),
    "fixed": (FixedAttention, {}),
    "fixed per head": (FixedAttention, {"heads": "per_head"}),
    "fixed wide summary": (FixedAttention, {"block": 5, "summary": 2}),
    "fixed wide summary per head": (FixedAttention, {"block": 5, "summary": 2, "heads": "per_head"}),
    "fixed all summary": (FixedAttention, {"block": 4, "summary": 4}),
}
LENGTHS = (7, 16, 29, 50, 97)
# of the cheap form each head has chunks of its own; four tell halves from turns, in chunks from 16 steps on
HEADS = {7: 4, 16: 2, 29: 4, 50: 2, 97: 2}
EVERY = pytest.mark.parametrize("kind, sizes", VARIANTS.values(), ids=VARIANTS)
KINDS = pytest.mark.parametrize("kind", [LogSparseAttention, StridedAttention, FixedAttention])


def cheap(monkeypatch):
    """Every length takes the cheap form, in many chunks."""
    monkeypatch.setattr(pattern, "DENSE_STEPS", 0)
    monkeypatch.setattr(factorized, "CHUNK_SCORES", 50)


@BOTH
@EVERY
def test_the_mask_is_the_papers_rule_at_many_lengths(kind, sizes, causal):
    mechanism = kind(causal=causal, layer=0, **sizes)
    for length in LENGTHS:
        expected = oracles.allowed(mechanism, 2, length)
        assert np.array_equal(np.broadcast_to(mechanism.allowed(length), expected.shape), expected)


@BOTH
@EVERY
def test_the_cheap_form_and_its_gradients_are_those_of_the_mask(monkeypatch, kind, sizes, causal):
    def results(length):
        q, k, v = (x.requires_grad_() for x in qkv(length, length, heads=HEADS[length], dtype=torch.float64))
        out = kind(causal=causal, layer=0, **sizes)(q, k, v)
        return out, *torch.autograd.grad(out.sin().sum(), (q, k, v))

    dense = [results(length) for length in LENGTHS]
    cheap(monkeypatch)
    for length, expected in zip(LENGTHS, dense, strict=True):
        torch.testing.assert_close(results(length), expected, rtol=0, atol=1e-9)
        mechanism = kind(causal=causal, layer=0, **sizes)
        q, k, _ = qkv(length, length, heads=HEADS[length], dtype=torch.float64)
        weights = mechanism(q, k, torch.eye(length, dtype=torch.float64).expand(2, HEADS[length], -1, -1))
        assert np.array_equal(weights[0].numpy() > 0, oracles.allowed(mechanism, HEADS[length], length))


@BOTH
@KINDS
@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_the_cheap_form_works_at_the_shortest_lengths(monkeypatch, kind, causal, length):
    q, k, v = qkv(length, length)
    dense = kind(causal=causal, layer=0)(q, k, v)
    cheap(monkeypatch)
    torch.testing.assert_close(kind(causal=causal, layer=0)(q, k, v), dense)


@BOTH
@EVERY
def test_above_the_threshold_it_is_still_the_mask(kind, sizes, causal):
    length = pattern.DENSE_STEPS + 9
    mechanism = kind(causal=causal, layer=0, **sizes)
    q, k, v = qkv(length, length, batch=1, heads=2, dtype=torch.float64)
    dense = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mechanism.allowed(length))
    torch.testing.assert_close(mechanism(q, k, v), dense, rtol=0, atol=1e-9)


@EVERY
@pytest.mark.parametrize("length", [97, pattern.DENSE_STEPS + 9])
def test_last_rows_have_the_sizes_of_the_whole_length(kind, sizes, length):
    mechanism = kind(causal=True, layer=0, **sizes)
    q, k, v = qkv(length, length, batch=1, heads=2, dtype=torch.float64)
    whole = mechanism(q, k, v)
    for first, last in ((0, 1), (2, 9), (40, 41), (70, 97), (length - 1, length)):
        rows = mechanism.last_rows(q[:, :, first:last], k[:, :, :last], v[:, :, :last], length=length)
        torch.testing.assert_close(rows, whole[:, :, first:last])


@BOTH
@KINDS
def test_half_precision_keeps_its_dtype_and_is_finite_in_the_cheap_form(monkeypatch, kind, causal):
    cheap(monkeypatch)
    mechanism = kind(causal=causal, layer=0)
    for dtype in (torch.bfloat16, torch.float16):
        inputs = [x.requires_grad_() for x in qkv(50, 50, dtype=dtype)]
        out = mechanism(*inputs)
        assert out.dtype == dtype
        torch.testing.assert_close(out.float(), mechanism(*(x.detach().float() for x in inputs)), rtol=2e-2, atol=2e-2)
        gradients = torch.autograd.grad(mechanism(*(x * 50 for x in inputs)).sum(), inputs)
        assert all(g.dtype == dtype and g.isfinite().all() for g in gradients)


@BOTH
@pytest.mark.parametrize(
    "make, per_step",
    [(LogSparseAttention, 64)]
    + [
        (partial(kind, heads=heads), 8 * 64)  # the root of the length
        for kind in (StridedAttention, FixedAttention)
        for heads in ("merged", "per_head")
    ],
    ids=["logsparse", "strided", "strided per head", "fixed", "fixed per head"],
)
def test_neither_a_tensor_nor_what_is_saved_for_the_backward_pass_is_large(make, per_step, causal):
    """Elements per step of 4096, of one batch item and head."""
    length, heads = 4096, 2
    inputs = [x.requires_grad_() for x in qkv(length, length, batch=1, heads=heads)]
    mechanism = make(causal=causal, layer=0)
    with LargestTensor() as largest:
        mechanism(*inputs).sum().backward()
    assert largest.most <= per_step * length * heads
    assert saved_bytes(mechanism, mechanism, inputs) <= 4 * 2 * per_step * length * heads


@pytest.mark.parametrize("form", [lambda _: None, cheap], ids=["mask", "cheap"])
@KINDS
def test_masks_made_in_a_validation_serve_the_training_and_are_no_state(monkeypatch, kind, form):
    form(monkeypatch)
    mechanism = kind(causal=True, layer=0)
    q, k, v = (x.requires_grad_() for x in qkv(29, 29))
    with torch.inference_mode():
        first = mechanism(q, k, v)
    second = mechanism(q, k, v)
    second.sum().backward()
    assert torch.equal(first, second)
    for length in range(20, 29):
        mechanism(*qkv(length, length))
    assert len(mechanism._masks) <= pattern.CACHED_LENGTHS
    assert mechanism.state_dict() == {}
    for twin in (copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))):
        assert twin._masks == {}
        assert torch.equal(twin(q, k, v), first)


def test_heads_are_split_in_halves_only_where_each_half_has_its_part():
    for kind, name in ((StridedAttention, "strided attention"), (FixedAttention, "fixed attention")):
        for length in (11, pattern.DENSE_STEPS + 1):
            odd = qkv(length, length, batch=1)
            assert kind(causal=True, layer=0)(*odd).isfinite().all()
            mechanism = kind(causal=True, layer=0, heads="per_head")
            with pytest.raises(ValueError, match=f"{name} with heads=per_head got 3 heads; .* set heads=merged"):
                mechanism(*odd)
            with pytest.raises(ValueError, match="got 3 heads"):
                mechanism.last_rows(*odd, length=length)
