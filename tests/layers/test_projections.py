"""The projections that change what queries, keys and values are."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from forecast.attention.full import FullAttention
from forecast.layers.attention_layer import AttentionLayer
from forecast.layers.projections import (
    CausalConv,
    ConvProjection,
    SharedQueryKeyProjection,
    SingleHeadProjection,
    StandardProjection,
)

B, L, K, H, D = 2, 11, 5, 3, 12


def x_and_memory():
    return torch.randn(B, L, D), torch.randn(B, K, D)


def single(**changes):
    return SingleHeadProjection(d_model=D, **{"n_heads": 1, **changes})


def softmax_attention(q, k, v, *, causal=False):
    """From the definition, (B, Q, E), (B, K, E), (B, K, V) -> (B, Q, V)."""
    scores = torch.einsum("bqd,bkd->bqk", q, k) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), -math.inf)
    return torch.einsum("bqk,bkd->bqd", scores.softmax(-1), v)


def open_gates(projection):
    """Every gate is 1: sigmoid(20) tanh(20) is, in float32."""
    for gate in (projection.gates.query, projection.gates.key):
        gate.data.fill_(20.0)
    projection.gates.value_map.weight.data.zero_()
    projection.gates.value_map.bias.data.fill_(20.0)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("gates", [True, False])
def test_with_open_gates_and_no_norm_single_head_is_full_attention_of_wx_over_x_itself(gates, causal):
    slot = {"projection": lambda **sizes: SingleHeadProjection(gates=gates, **sizes), "mechanism": FullAttention}
    layer, x = AttentionLayer(slot, d_model=D, n_heads=1, causal=causal, layer=0), torch.randn(B, L, D)
    layer.projection.norm = nn.Identity()
    if gates:
        open_gates(layer.projection)
    expected = softmax_attention(layer.projection.query(x), x, x, causal=causal)
    torch.testing.assert_close(layer(x, x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("projection", [StandardProjection, ConvProjection, SharedQueryKeyProjection])
def test_a_heads_keys_and_values_are_as_wide_as_is_said_in_one_pass_and_step_by_step(projection):
    slot = {"projection": partial(projection, d_keys=5, d_values=7), "mechanism": FullAttention}
    layer, x = AttentionLayer(slot, d_model=D, n_heads=H, causal=True, layer=0), torch.randn(B, L, D)
    q, k, v = layer.projection(x, x)
    assert (q.shape, k.shape, v.shape) == ((B, H, L, 5), (B, H, L, 5), (B, H, L, 7))
    heads = [softmax_attention(q[:, h], k[:, h], v[:, h], causal=True) for h in range(H)]
    whole = layer(x, x)
    torch.testing.assert_close(whole, torch.cat(heads, -1) @ layer.output.weight.T + layer.output.bias)
    cache = layer.new_cache(L)
    steps = [layer.next_rows(x[:, i : i + 1], cache) for i in range(L)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-4, atol=1e-5)


def test_single_head_attends_to_another_sequence():
    slot = {"projection": lambda **sizes: SingleHeadProjection(gates=False, **sizes), "mechanism": FullAttention}
    layer, (x, memory) = AttentionLayer(slot, d_model=D, n_heads=1, causal=False, layer=0), x_and_memory()
    expected = softmax_attention(layer.projection.norm(layer.projection.query(x)), memory, memory)
    torch.testing.assert_close(layer(x, memory), expected, rtol=1e-4, atol=1e-5)


def test_queries_and_keys_start_half_open_and_values_after_a_learned_gate():
    projection, (x, memory) = single(), x_and_memory()
    q, k, v = projection(x, memory)
    torch.testing.assert_close(q[:, 0], 0.5 * projection.norm(projection.query(x)))
    torch.testing.assert_close(k[:, 0], 0.5 * memory)
    content, forget = (
        (torch.full((D,), 0.5) @ projection.gates.value_map.weight.T).add(projection.gates.value_map.bias).chunk(2)
    )
    torch.testing.assert_close(v[:, 0], memory * forget.sigmoid() * content.tanh())


def test_each_gate_weighs_the_columns_of_its_own_role():
    projection, (x, memory) = single(), x_and_memory()
    before = projection(x, memory)
    for name, role in (("query", 0), ("key", 1), ("value", 2)):
        gate = getattr(projection.gates, name)
        with torch.no_grad():
            gate[4] += 1.0
        changed = [not torch.equal(new, old) for new, old in zip(projection(x, memory), before, strict=True)]
        assert changed == [i == role for i in range(3)]
        with torch.no_grad():
            gate[4] -= 1.0


def test_single_head_has_one_square_map_a_norm_and_the_gates():
    # W, b and the norm; three gates, and the map of the values' one from D to 2 D
    plain, gated = D * D + D + 2 * D, 3 * D + 2 * D * D + 2 * D
    assert sum(p.numel() for p in single(gates=False).parameters()) == plain
    assert sum(p.numel() for p in single().parameters()) == plain + gated
    assert not list(single().make_output().parameters())
    x = torch.randn(B, L, D)
    assert single().make_output()(x) is x


def test_every_parameter_of_single_head_gets_a_gradient():
    projection = single()
    q, k, v = projection(*x_and_memory())
    ((q * torch.randn_like(q)).sum() + k.square().sum() + v.square().sum()).backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in projection.parameters())


def test_single_head_drops_elements_of_queries_and_values_in_training():
    projection, inputs = single(dropout=0.5), x_and_memory()
    whole = projection.eval()(*inputs)
    q, k, v = projection.train()(*inputs)
    for dropped, full in ((q, whole[0]), (v, whole[2])):
        assert ((dropped == 0) | torch.isclose(dropped, 2 * full)).all()
        assert 0 < (dropped == 0).float().mean() < 1
    assert torch.equal(k, whole[1])


def test_single_head_has_one_head_and_reports_the_number_it_ignores():
    assert [(single(n_heads=n).n_heads, single(n_heads=n).ignored_heads) for n in (1, 8)] == [(1, None), (1, 8)]
    assert not SingleHeadProjection.splits()


def conv(kernel_size=3):
    return ConvProjection(d_model=D, n_heads=H, kernel_size=kernel_size)


@pytest.mark.parametrize("kernel_size", [1, 2, 4])
def test_queries_and_keys_depend_on_their_step_and_the_lookback_before_it_and_values_on_their_step_alone(kernel_size):
    projection, x = conv(kernel_size), torch.randn(B, L, D)
    assert projection.lookback == kernel_size - 1
    changed = x.clone()
    changed[:, 6] += 1.0
    reached = [
        (old != new).any(-1).all(1).all(0).nonzero()[:, 0].tolist()
        for old, new in zip(projection(x, x), projection(changed, changed), strict=True)
    ]
    seen = list(range(6, 6 + kernel_size))
    assert reached == [seen, seen, [6]]


def test_a_causal_convolution_weighs_the_steps_before_with_zeros_before_the_first():
    layer, x = CausalConv(D, 7, kernel_size=3), torch.randn(B, L, D)
    for step in range(L):
        expected = layer.conv.bias.expand(B, 7)
        for back in range(min(step, 2) + 1):
            expected = expected + x[:, step - back] @ layer.conv.weight[:, :, 2 - back].T
        torch.testing.assert_close(layer(x)[:, step], expected, rtol=1e-4, atol=1e-5)


def test_a_kernel_of_one_step_is_a_linear_map():
    projection, (x, memory) = conv(1), x_and_memory()
    q, k, v = projection(x, memory)
    for heads, part, steps in ((q, projection.query, x), (k, projection.key, memory)):
        expected = steps @ part.conv.weight[:, :, 0].T + part.conv.bias
        torch.testing.assert_close(heads.transpose(1, 2).flatten(2), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(v.transpose(1, 2).flatten(2), projection.value(memory))


def shared():
    return SharedQueryKeyProjection(d_model=D, n_heads=H)


def test_shared_keys_are_the_queries_at_length_one():
    x = torch.randn(B, L, D)
    q, k, v = shared()(x, x)
    assert q.shape == k.shape == v.shape == (B, H, L, D // H)
    torch.testing.assert_close(k.norm(dim=-1), torch.ones(B, H, L))
    torch.testing.assert_close(k * q.norm(dim=-1, keepdim=True), q)
    assert not torch.allclose(q, k)


def test_the_shared_map_has_no_bias_and_values_a_map_of_their_own():
    projection, x = shared(), torch.randn(B, L, D)
    assert {name: tuple(p.shape) for name, p in projection.named_parameters()} == {
        "query_key.weight": (D, D),
        "value.weight": (D, D),
    }
    q, _, v = projection(x, x)
    torch.testing.assert_close(q.transpose(1, 2).flatten(2), projection.query_key(x))
    torch.testing.assert_close(v.transpose(1, 2).flatten(2), projection.value(x))


def test_the_shared_map_learns_from_both_roles():
    projection, x = shared(), torch.randn(B, L, D)
    weight = projection.query_key.weight
    q, k, _ = projection(x, x)
    target = torch.randn(B, H, L, L)
    pairs = ((q, k.detach()), (q.detach(), k), (q, k))  # a loss of the queries alone, of the keys alone, of both
    losses = [((queries @ keys.transpose(2, 3)) * target).sum() for queries, keys in pairs]
    of_q, of_k, of_both = (torch.autograd.grad(loss, weight, retain_graph=True)[0] for loss in losses)
    assert of_q.abs().max() > 0
    assert of_k.abs().max() > 0
    torch.testing.assert_close(of_both, of_q + of_k, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("memory", [torch.zeros(B, L, D), torch.zeros(B, K, D)], ids=["as long", "shorter"])
def test_a_shared_projection_of_two_sequences_is_refused(memory):
    with pytest.raises(ValueError, match="share one projection, so they must come from one sequence"):
        shared()(torch.zeros(B, L, D), memory)


@pytest.mark.parametrize("kind", [StandardProjection, ConvProjection, SharedQueryKeyProjection])
def test_heads_that_do_not_divide_the_width_are_refused(kind):
    with pytest.raises(ValueError, match=r"d_model \(12\) must be a multiple of n_heads \(5\)"):
        kind(d_model=D, n_heads=5)
    assert kind.splits()
