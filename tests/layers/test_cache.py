"""Caches: what they store, how much fits, and that layers go on where they stopped."""

import pytest
import torch
from layers.test_blocks import with_own_norms
from layers.test_layers import embedding

from forecast.attention.base import NotCacheable
from forecast.attention.full import FullAttention
from forecast.layers.attention_layer import AttentionLayer
from forecast.layers.blocks import BlockSizes, DecoderLayer
from forecast.layers.cache import LastRows, LayerCache
from forecast.layers.causal_blocks import CausalStack, PostNormLayer, PreNormLayer
from forecast.layers.causal_embedding import CausalDataEmbedding, PointDataEmbedding
from forecast.layers.heads import mix_heads
from forecast.layers.projections import ConvProjection, StandardProjection

B, H, L, K, C, F, D = 2, 2, 11, 5, 3, 4, 14
E = D // H
SLOT = {"projection": StandardProjection, "mechanism": FullAttention}
CONV = {"projection": ConvProjection, "mechanism": FullAttention}
PARTS = [[11], [1] * 11, [4, 7], [7, 1, 1, 2]]
close = torch.testing.assert_close


def steps(count):
    return torch.randn(B, H, count, E), torch.randn(B, H, count, E)


def in_parts(next_rows, lengths, *sequences):
    """What `next_rows` gives for sequences that come in parts, joined."""
    parts = zip(*(torch.split(x, lengths, dim=1) for x in sequences), strict=True)
    return torch.cat([next_rows(*part) for part in parts], 1)


def sizes(dropout=0.0):
    return BlockSizes(d_model=D, n_heads=H, d_ff=17, dropout=dropout, activation="gelu")


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


def test_appended_steps_lie_after_those_before_and_come_back_together():
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
def test_self_and_cross_attention_go_on_where_they_stopped(slot, lengths):
    layer, cross = (AttentionLayer(slot, d_model=D, n_heads=H, causal=causal, layer=0) for causal in (True, False))
    x, memory = torch.randn(B, L, D), torch.randn(B, K, D)
    cache, memory_cache = layer.new_cache(L), cross.new_memory_cache()
    with torch.no_grad():
        rows = in_parts(lambda part: layer.next_rows(part, cache), lengths, x)
        recalled = in_parts(lambda part: cross.recall(part, memory, memory_cache), lengths, x)
    close(rows, layer(x, x), rtol=0, atol=1e-5)
    close(recalled, cross(x, memory), rtol=0, atol=1e-5)


def test_mixed_heads_have_no_rows_of_their_own():
    layer = AttentionLayer(SLOT, d_model=D, n_heads=H, causal=True, layer=0, merge=mix_heads)
    with pytest.raises(NotCacheable, match="heads merged in another order"):
        layer.next_rows(torch.randn(B, 1, D), layer.new_cache(L))


@pytest.mark.parametrize("lengths", PARTS, ids=str)
def test_a_decoder_layer_goes_on_where_it_stopped(lengths):
    layer = with_own_norms(DecoderLayer(sizes(), self_attention=SLOT, cross_attention=SLOT, layer=0))
    x, encoded, cache = torch.randn(B, L, D), torch.randn(B, K, D), layer.new_cache(L)
    with torch.no_grad():
        rows = in_parts(lambda part: layer.next_rows(part, encoded, None, cache), lengths, x)
    close(rows, layer(x, encoded), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [PostNormLayer, PreNormLayer])
@pytest.mark.parametrize("lengths", PARTS, ids=str)
def test_a_stack_of_causal_layers_goes_on_where_it_stopped(kind, lengths):
    stack = CausalStack(with_own_norms(kind(sizes(), CONV, layer=i)) for i in range(2))
    x, caches = torch.randn(B, L, D), stack.new_caches(L)
    with torch.no_grad():
        rows = in_parts(lambda part: stack.next_rows(part, caches=caches), lengths, x)
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
    layer, x = kind(sizes(dropout=1.0), SLOT, layer=0).train(), torch.randn(B, L, D)
    assert torch.equal(layer(x), x if kind is PreNormLayer else layer.norm2(layer.norm1(x)))


@pytest.mark.parametrize("kind", [CausalDataEmbedding, PointDataEmbedding])
@pytest.mark.parametrize("lengths", PARTS, ids=str)
def test_an_embedding_goes_on_where_it_stopped(kind, lengths):
    """After n rows the next one has position n, and the convolution knows the rows before it."""
    both, x, known = embedding(kind), torch.randn(B, L, C), torch.randn(B, L, F)
    cache = both.new_cache()
    rows = in_parts(lambda *part: both.next_rows(*part, cache), lengths, x, known)
    close(rows, both(x, known), rtol=0, atol=1e-5)


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
