"""Tensors that are computed again for the backward pass: the same gradients, and nothing large is stored."""

import pytest
import torch

from forecast.layers.blocks import FeedForward
from forecast.ops import dropout as module
from forecast.ops.dropout import drop_alike, recomputed
from forecast.ops.softmax import attend

B, L, D, WIDE = 3, 7, 5, 11


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(module, "MOST_STORED", 0)


def test_what_is_computed_inside_gets_the_tensor_from_make_in_the_backward_pass(everything_is_large):
    x, weight = torch.randn(B, D, requires_grad=True), torch.randn(D, 2, requires_grad=True)
    calls = []
    square = x.square()
    with recomputed(square, lambda: calls.append(True) or x.detach().square()):
        out = square @ weight
    assert not calls
    out.sum().backward()
    assert calls == [True]
    torch.testing.assert_close(weight.grad, x.detach().square().sum(0).unsqueeze(1).expand(-1, 2))


def test_a_part_of_it_that_begins_where_it_does_is_another_tensor(everything_is_large):
    x, weight = torch.randn(B, D), torch.randn(1, D, requires_grad=True)
    with recomputed(x, lambda: pytest.fail("made again")):
        out = x[:1] * weight
    out.sum().backward()
    torch.testing.assert_close(weight.grad, x[:1])


@pytest.mark.parametrize("limit", [B * D - 1, B * D])
def test_a_small_tensor_is_stored(monkeypatch, limit):
    monkeypatch.setattr(module, "MOST_STORED", limit)
    x, weight = torch.randn(B, D), torch.randn(D, 2, requires_grad=True)
    calls = []
    with recomputed(x, lambda: calls.append(True) or x):
        out = x @ weight
    out.sum().backward()
    assert bool(calls) == (limit < B * D)


def assert_same_made_again(monkeypatch, run):
    """run() -> tensors, equal to the bit whether large ones are stored or computed again."""
    results = []
    for limit in (10**9, 0):
        monkeypatch.setattr(module, "MOST_STORED", limit)
        torch.manual_seed(0)
        results.append(run())
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("dropout", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bfloat16"])
def test_a_feed_forward_network_has_the_same_gradients(monkeypatch, activation, dropout, autocast):
    def run():
        network = FeedForward(d_model=D, d_ff=WIDE, dropout=dropout, activation=activation)
        x = torch.randn(B, L, D, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = network(x)
        out.float().square().sum().backward()
        return [out, x.grad, *(p.grad for p in network.parameters())]

    assert_same_made_again(monkeypatch, run)


def test_attention_with_dropout_has_the_same_gradients(monkeypatch):
    def run():
        inputs = [torch.randn(B, 2, L, D, requires_grad=True) for _ in range(3)]
        out = attend(*inputs, dropout=0.3)
        return [out, *torch.autograd.grad(out.square().sum(), inputs)]

    assert_same_made_again(monkeypatch, run)


def test_of_the_wide_sequence_only_the_input_of_the_activation_is_stored(everything_is_large):
    network = FeedForward(d_model=D, d_ff=WIDE, dropout=0.1, activation="gelu")
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        network(torch.randn(B, L, D))
    assert saved.count(B * L * WIDE) == 1


def test_nothing_is_computed_again_without_a_backward_pass(everything_is_large):
    x = torch.randn(B, D)
    with torch.no_grad(), recomputed(x, lambda: pytest.fail("made again")):
        assert torch.equal(x @ torch.eye(D), x)


def test_alike_means_the_same_elements_each_time():
    like = torch.empty(B, L)
    drop = drop_alike(like, 0.5, training=True)
    first, second = drop(torch.ones(B, L)), drop(torch.full((B, L), 3.0))
    assert torch.equal(3 * first, second) and 0 < (first == 0).sum() < B * L
    assert not torch.equal(drop_alike(like, 0.5, training=True)(torch.ones(B, L)), first)
