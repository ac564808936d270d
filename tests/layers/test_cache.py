"""Caches: what they keep, how much fits, and that layers go on where they stopped."""

import pytest
import torch
from layers.test_blocks import with_own_norms

from forecast.attention.base import NotCacheable
from forecast.attention.full import FullAttention
from forecast.layers.attention_layer import AttentionLayer
from forecast.layers.blocks import BlockSizes, DecoderLayer
from forecast.layers.cache import LastRows, LayerCache
from forecast.layers.causal_blocks import CausalStack, PostNormLayer, PreNormLayer
from forecast.layers.causal_embedding import CausalDataEmbedding, CausalTokenEmbedding, PointDataEmbedding
from forecast.layers.embedding import sinusoid_table
from forecast.layers.heads import mix_heads
from forecast.layers.projections import ConvProjection, StandardProjection

B, H, L, E, K, C, F = 2, 3, 11, 5, 7, 3, 4
D = H * E
SLOT = {"projection": StandardProjection, "mechanism": FullAttention}
CONV = {"projection": ConvProjection, "mechanism": FullAttention}
PARTS = [[11], [1] * 11, [4, 7], [7, 1, 1, 2]]
close = torch.testing.assert_close


def steps(count):
    return torch.randn(B, H, count, E), torch.randn(B, H, count, E)


def parts(x, sizes):
    return torch.split(x, sizes, dim=1)


def sizes():
    return BlockSizes(d_model=D, n_heads=H, d_ff=17, dropout=0.0, activation="gelu")


def test_last_rows_are_joined_to_the_rows_that_follow():
    rows, x = LastRows(2), torch.randn(B, 6, D)
    assert torch.equal(rows.join(x[:, :1]), x[:, :1])
    assert torch.equal(rows.join(x[:, 1:4]), x[:, :4])
    assert torch.equal(rows.join(x[:, 4:5]), x[:, 2:5])
    assert torch.equal(rows.join(x[:, 5:]), x[:, 3:])
    assert rows.length == 6


def test_no_last_rows_are_joined_where_none_are_looked_back_on():
    rows, x = LastRows(0), torch.randn(B, 6, D)
    rows.join(x[:, :3])
    assert torch.equal(rows.join(x[:, 3:]), x[:, 3:])
    assert rows.length == 6


def test_appended_steps_lie_behind_those_before_and_come_back_together():
    cache, (k, v) = LayerCache(L), steps(L)
    for start, stop in ((0, 4), (4, 5), (5, L)):
        keys, values = cache.append(k[:, :, start:stop], v[:, :, start:stop])
        assert cache.length == stop
        assert torch.equal(keys, k[:, :, :stop])
        assert torch.equal(values, v[:, :, :stop])


def test_steps_are_written_into_memory_that_is_there_from_the_first_on():
    cache, (k, v) = LayerCache(L), steps(L)
    places = {part.data_ptr() for i in range(L) for part in cache.append(k[:, :, i : i + 1], v[:, :, i : i + 1])}
    assert len(places) == 2


def test_more_steps_than_fit_are_refused():
    cache = LayerCache(5)
    cache.append(*steps(4))
    with pytest.raises(ValueError, match=r"holds 5 steps and has 4: 2 more do not fit"):
        cache.append(*steps(2))
    assert cache.length == 4


def test_steps_of_one_window_are_not_copied_to_all():
    cache = LayerCache(5)
    cache.append(*steps(1))
    with pytest.raises(ValueError, match="the cache is of 2 windows, got steps of 1: use a new one"):
        cache.append(torch.randn(1, H, 1, E), torch.randn(1, H, 1, E))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_dtype_is_that_of_the_first_steps(dtype):
    keys, values = LayerCache(5).append(*(part.to(dtype) for part in steps(3)))
    assert (keys.dtype, values.dtype) == (dtype, dtype)


@pytest.mark.parametrize("slot", [SLOT, CONV], ids=["standard", "conv"])
@pytest.mark.parametrize("lengths", PARTS, ids=str)
def test_an_attention_layer_goes_on_where_it_stopped(slot, lengths):
    layer = AttentionLayer(slot, d_model=D, n_heads=H, causal=True, layer=0)
    x, cache = torch.randn(B, L, D), layer.new_cache(L)
    with torch.no_grad():
        rows = torch.cat([layer.next_rows(part, cache) for part in parts(x, lengths)], 1)
    close(rows, layer(x, x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("slot", [SLOT, CONV], ids=["standard", "conv"])
@pytest.mark.parametrize("lengths", PARTS, ids=str)
def test_cross_attention_goes_on_where_it_stopped(slot, lengths):
    layer = AttentionLayer(slot, d_model=D, n_heads=H, causal=False, layer=0)
    x, memory, cache = torch.randn(B, L, D), torch.randn(B, K, D), layer.new_memory_cache()
    rows = torch.cat([layer.recall(part, memory, cache) for part in parts(x, lengths)], 1)
    close(rows, layer(x, memory), rtol=0, atol=1e-5)


def test_mixed_heads_have_no_rows_of_their_own():
    layer = AttentionLayer(SLOT, d_model=D, n_heads=H, causal=True, layer=0, merge=mix_heads)
    with pytest.raises(NotCacheable, match="heads merged in another order"):
        layer.next_rows(torch.randn(B, 1, D), layer.new_cache(L))


@pytest.mark.parametrize("lengths", PARTS, ids=str)
def test_a_decoder_layer_goes_on_where_it_stopped(lengths):
    layer = with_own_norms(DecoderLayer(sizes(), self_attention=SLOT, cross_attention=SLOT, layer=0))
    x, encoded, cache = torch.randn(B, L, D), torch.randn(B, K, D), layer.new_cache(L)
    with torch.no_grad():
        rows = torch.cat([layer.next_rows(part, encoded, cache) for part in parts(x, lengths)], 1)
    close(rows, layer(x, encoded), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [PostNormLayer, PreNormLayer])
@pytest.mark.parametrize("lengths", PARTS, ids=str)
def test_a_stack_of_causal_layers_goes_on_where_it_stopped(kind, lengths):
    stack = CausalStack(with_own_norms(kind(sizes(), CONV, layer=i)) for i in range(2))
    x, caches = torch.randn(B, L, D), stack.new_caches(L)
    with torch.no_grad():
        rows = torch.cat([stack.next_rows(part, caches=caches) for part in parts(x, lengths)], 1)
    close(rows, stack(x), rtol=0, atol=1e-5)


def test_a_post_norm_layer_normalises_sums_and_a_pre_norm_layer_inputs():
    x = torch.randn(B, L, D)
    post, pre = (with_own_norms(kind(sizes(), SLOT, layer=0)) for kind in (PostNormLayer, PreNormLayer))
    y = post.norm1(x + post.attention(x, x))
    close(post(x), post.norm2(y + post.feed_forward(y)))
    normed = pre.norm1(x)
    y = x + pre.attention(normed, normed)
    close(pre(x), y + pre.feed_forward(pre.norm2(y)))


@pytest.mark.parametrize("kind", [PostNormLayer, PreNormLayer])
def test_dropout_of_everything_leaves_what_is_added_to(kind):
    layer = kind(BlockSizes(d_model=D, n_heads=H, d_ff=17, dropout=1.0, activation="gelu"), SLOT, layer=0).train()
    x = torch.randn(B, L, D)
    assert torch.equal(layer(x), x if kind is PreNormLayer else layer.norm2(layer.norm1(x)))


def test_the_causal_token_embedding_sees_a_step_and_the_two_before_it():
    tokens, x = CausalTokenEmbedding(C, D), torch.randn(B, L, C)
    changed = x.clone()
    changed[:, 4] += 1.0
    rows = (tokens(x) != tokens(changed)).any(-1).all(0)
    assert rows.nonzero()[:, 0].tolist() == [4, 5, 6]
    padded = torch.cat([torch.zeros(B, 2, C), x], 1)
    close(tokens(x), sum(padded[:, i : i + L] @ tokens.conv.weight[:, :, i].T for i in range(3)) + tokens.conv.bias)


def test_the_causal_token_embedding_has_the_spread_of_the_circular_one():
    # kaiming normal, fan_in = 7 * 3, leaky ReLU of slope 0.01
    assert CausalTokenEmbedding(7, 4096).conv.weight.std().item() == pytest.approx((2 / 1.0001 / 21) ** 0.5, rel=0.02)


def embedding(kind, **changes):
    arguments = {"n_columns": C, "n_known": F, "d_model": D, "max_len": L, "dropout": 0.0, "encoding": "timeF"}
    return kind(**{**arguments, **changes}).eval()


@pytest.mark.parametrize("kind", [CausalDataEmbedding, PointDataEmbedding])
@pytest.mark.parametrize("lengths", PARTS, ids=str)
def test_an_embedding_goes_on_where_it_stopped(kind, lengths):
    """After n rows the next one has position n, and the convolution knows the rows before it."""
    both, x, known = embedding(kind), torch.randn(B, L, C), torch.randn(B, L, F)
    close(both(x, known), both.values(x) + sinusoid_table(L, D) + both.calendar(known))
    cache = both.new_cache()
    pairs = zip(parts(x, lengths), parts(known, lengths), strict=True)
    close(torch.cat([both.next_rows(*pair, cache) for pair in pairs], 1), both(x, known), rtol=0, atol=1e-5)


def test_an_embedding_has_no_position_beyond_its_longest_sequence():
    both = embedding(PointDataEmbedding)
    cache = both.new_cache()
    both.next_rows(torch.randn(B, 10, C), torch.randn(B, 10, F), cache)
    with pytest.raises(ValueError, match="positions for 11 steps: 2 steps after 10 are too many"):
        both.next_rows(torch.randn(B, 2, C), torch.randn(B, 2, F), cache)


@pytest.mark.parametrize("kind", [CausalDataEmbedding, PointDataEmbedding])
def test_a_value_reaches_its_own_row_and_in_a_convolution_the_two_after_it(kind):
    both, x, known = embedding(kind), torch.randn(B, L, C), torch.randn(B, L, F)
    changed = x.clone()
    changed[:, 4] += 1.0
    rows = (both(x, known) != both(changed, known)).any(-1).all(0).nonzero()[:, 0].tolist()
    assert rows == ([4] if kind is PointDataEmbedding else [4, 5, 6])
