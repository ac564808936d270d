"""Embedding, distilling, projection, feed-forward."""

import pytest
import torch

from forecast.layers.blocks import FeedForward
from forecast.layers.causal_embedding import CausalDataEmbedding, CausalTokenEmbedding, PointDataEmbedding
from forecast.layers.distil import Distil, pooled
from forecast.layers.embedding import (
    CircularConv,
    DataEmbedding,
    FixedCalendarEmbedding,
    TokenEmbedding,
    sinusoid_table,
)
from forecast.layers.projections import StandardProjection

B, L, C, F, D = 2, 11, 3, 4, 14


def embedding(kind=DataEmbedding, **changes):
    sizes = {"n_columns": C, "n_known": F, "d_model": D, "max_len": L, "dropout": 0.0, "encoding": "timeF"}
    return kind(**{**sizes, **changes}).eval()


def test_token_embedding_sees_the_neighbouring_steps_around_the_window():
    tokens = TokenEmbedding(C, D)
    x = torch.randn(B, 10, C)
    changed = x.clone()
    changed[:, 9] += 1.0
    rows = (tokens(x) != tokens(changed)).any(-1).all(0)
    assert rows.nonzero()[:, 0].tolist() == [0, 8, 9]


@pytest.mark.parametrize("kind", [TokenEmbedding, CausalTokenEmbedding])
def test_token_embeddings_have_the_authors_initial_spread(kind):
    weight = kind(7, 4096).conv.weight
    # kaiming normal, fan_in = 7 * 3, leaky ReLU of slope 0.01
    assert weight.std().item() == pytest.approx((2 / (1 + 0.01**2) / 21) ** 0.5, rel=0.02)


@pytest.mark.parametrize("width", [6, 7])
def test_positions_are_sinusoids_sine_on_even_columns(width):
    table = sinusoid_table(L, width)
    for column in range(width):
        angle = torch.arange(L) / 10000 ** (2 * (column // 2) / width)
        torch.testing.assert_close(table[:, column], angle.cos() if column % 2 else angle.sin())


@pytest.mark.parametrize("kind", [DataEmbedding, CausalDataEmbedding, PointDataEmbedding])
@pytest.mark.parametrize("length", [4, L])
def test_the_embedding_is_the_sum_of_values_positions_from_0_on_and_calendar(kind, length):
    both, x, known = embedding(kind), torch.randn(B, length, C), torch.randn(B, length, F)
    expected = both.values(x) + sinusoid_table(L, D)[:length] + both.calendar(known)
    torch.testing.assert_close(both(x, known), expected)


def test_a_frequency_without_calendar_features_needs_none():
    bare = embedding(n_known=0)
    x = torch.randn(B, L, C)
    torch.testing.assert_close(bare(x, torch.empty(B, L, 0)), bare.values(x) + sinusoid_table(L, D))


def test_fixed_calendar_sums_one_row_of_each_table():
    known = torch.tensor([[[12.0, 31.0, 6.0, 23.0, 3.0]]])
    expected = sum(sinusoid_table(n, D)[i] for n, i in ((13, 12), (32, 31), (7, 6), (24, 23), (4, 3)))
    torch.testing.assert_close(FixedCalendarEmbedding(5, D)(known)[0, 0], expected)


def test_more_fixed_features_than_tables_are_refused():
    with pytest.raises(ValueError, match="embedding=fixed knows 5 calendar features, got 6"):
        FixedCalendarEmbedding(6, D)


def test_formulas_are_not_saved_as_weights():
    assert not [name for name in embedding(encoding="fixed").state_dict() if "table" in name or "positions" in name]


@pytest.mark.parametrize(
    "length, halved", [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (96, 48), (97, 49), (168, 84), (720, 360)]
)
def test_distilling_halves_a_length_rounding_up(length, halved):
    assert Distil(D).eval()(torch.randn(B, length, D)).shape == (B, halved, D)


@pytest.mark.parametrize("length", [1, 2, 3, 12, 13])
def test_pooling_gives_the_same_bits_with_and_without_gradients(length):
    x = torch.randn(B, length, D)
    x[0, 0, 0] = torch.nan
    with torch.no_grad():
        without = pooled(x)
    torch.testing.assert_close(without, pooled(x.requires_grad_()).detach(), rtol=0, atol=0, equal_nan=True)


def test_distilling_convolves_normalises_activates_and_pools_in_this_order():
    distil = Distil(D).train()
    x = torch.randn(B, L, D)
    padded = torch.cat([x[:, -1:], x, x[:, :1]], 1)  # circular
    steps = [padded[:, i : i + L] @ distil.conv.weight[:, :, i].T for i in range(3)]
    conv = sum(steps) + distil.conv.bias
    normed = (conv - conv.mean((0, 1))) / (conv.var((0, 1), correction=0) + distil.norm.eps).sqrt()
    elu = torch.where(normed > 0, normed, normed.exp() - 1)
    pooled = [elu[:, max(0, i - 1) : i + 2].amax(1) for i in range(0, L, 2)]
    torch.testing.assert_close(distil(x), torch.stack(pooled, 1), rtol=1e-4, atol=1e-5)


def test_self_and_cross_projection_are_the_same_maps():
    projection = StandardProjection(d_model=D, n_heads=2)
    x = torch.randn(B, L, D)
    for fused, apart in zip(projection(x, x), projection(x, x.clone()), strict=True):
        torch.testing.assert_close(fused, apart)


def test_queries_come_from_x_and_keys_and_values_from_memory():
    projection = StandardProjection(d_model=D, n_heads=2)
    x, memory = torch.randn(B, L, D), torch.randn(B, 5, D)
    q, k, v = projection(x, memory)
    assert (q.shape, k.shape, v.shape) == ((B, 2, L, 7), (B, 2, 5, 7), (B, 2, 5, 7))
    changed = projection(x, memory + 1.0)
    assert torch.equal(changed[0], q)
    assert not torch.equal(changed[1], k)
    assert not torch.equal(changed[2], v)


@pytest.mark.parametrize("name, function", [("gelu", torch.nn.functional.gelu), ("relu", torch.relu)])
def test_feed_forward_applies_the_named_activation_between_two_maps(name, function):
    network = FeedForward(d_model=D, d_ff=17, dropout=0.0, activation=name)
    x = torch.randn(B, L, D)
    torch.testing.assert_close(network(x), network.narrow(function(network.widen(x))))


def test_feed_forward_drops_inside_and_at_its_end():
    network = FeedForward(d_model=D, d_ff=D, dropout=0.5, activation="relu").train()
    for linear, weight, bias in ((network.widen, torch.zeros(D, D), 1.0), (network.narrow, torch.eye(D), 0.0)):
        linear.weight.data.copy_(weight)
        linear.bias.data.fill_(bias)
    torch.manual_seed(0)
    out = network(torch.randn(B, 500, D))  # ones, dropped twice; what is not dropped is doubled each time
    assert set(out.flatten().tolist()) == {0.0, 4.0}
    # not dropped in a quarter of the cases; five standard deviations
    assert abs((out > 0).float().mean().item() - 0.25) < 5 * (3 / 16 / out.numel()) ** 0.5


def test_dropout_acts_in_training():
    network = FeedForward(d_model=D, d_ff=17, dropout=0.5, activation="gelu")
    inputs = {network: [torch.randn(B, L, D)], embedding(dropout=0.5): [torch.randn(B, L, C), torch.randn(B, L, F)]}
    for module, arguments in inputs.items():
        module.train()
        assert not torch.equal(module(*arguments), module(*arguments))


@pytest.mark.parametrize("length", [1, 2, 11])
def test_a_circular_convolution_is_torchs_with_the_same_weights(length):
    conv = CircularConv(5, 13).double()
    torchs = torch.nn.Conv1d(5, 13, kernel_size=3, padding=1, padding_mode="circular").double()
    torchs.load_state_dict(conv.state_dict())
    x = torch.randn(3, length, 5, dtype=torch.float64, requires_grad=True)
    expected = torchs(x.transpose(1, 2)).transpose(1, 2)
    torch.testing.assert_close(conv(x), expected)
    weights = torch.randn_like(expected)
    torch.testing.assert_close(*(torch.autograd.grad((out * weights).sum(), x) for out in (conv(x), expected)))


def test_a_circular_convolution_is_computed_in_the_dtype_of_autocast():
    conv, x = CircularConv(5, 13), torch.randn(3, 7, 5)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = conv(x)
    assert mixed.dtype == torch.bfloat16
    torch.testing.assert_close(mixed.float(), conv(x), rtol=0.05, atol=0.05)
