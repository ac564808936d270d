"""The encoder and decoder layers: what is added to what, and normalised when."""

import pytest
import torch

from forecast.attention.full import FullAttention
from forecast.layers.attention_layer import AttentionLayer
from forecast.layers.blocks import BlockSizes, DecoderLayer, DecoderStack, EncoderLayer
from forecast.layers.heads import merge_heads, mix_heads
from forecast.layers.projections import ConvProjection, StandardProjection

B, L, K, D = 2, 11, 5, 14
SLOT = {"projection": StandardProjection, "mechanism": FullAttention}


def sizes(dropout=0.0):
    return BlockSizes(d_model=D, n_heads=2, d_ff=17, dropout=dropout, activation="gelu")


def encoder_layer(**changes):
    return with_own_norms(EncoderLayer(sizes(**changes), SLOT, layer=0))


def decoder_layer(**changes):
    return with_own_norms(DecoderLayer(sizes(**changes), self_attention=SLOT, cross_attention=SLOT, layer=0))


def with_own_norms(layer):
    """Fresh norms are all alike, and a norm of a normed sequence changes nothing."""
    for name, parameter in layer.named_parameters():
        if name.startswith("norm"):
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return layer


def test_an_encoder_layer_adds_attention_and_feed_forward_to_their_inputs_and_normalises_the_sums():
    layer, x = encoder_layer(), torch.randn(B, L, D)
    y = layer.norm1(x + layer.attention(x, x))
    torch.testing.assert_close(layer(x), layer.norm2(y + layer.feed_forward(y)))


def test_a_decoder_layer_attends_to_itself_then_to_the_encoded_then_feeds_forward():
    layer, x, encoded = decoder_layer(), torch.randn(B, L, D), torch.randn(B, K, D)
    y = layer.norm1(x + layer.self_attention(x, x))
    z = layer.norm2(y + layer.cross_attention(y, encoded))
    torch.testing.assert_close(layer(x, encoded), layer.norm3(z + layer.feed_forward(z)))


@pytest.mark.parametrize("training", [False, True])
def test_dropout_of_everything_leaves_the_inputs_alone_in_training(training):
    x, encoded = torch.randn(B, L, D), torch.randn(B, K, D)
    encoder, decoder = (make(dropout=1.0).train(training) for make in (encoder_layer, decoder_layer))
    bare = encoder.norm2(encoder.norm1(x)), decoder.norm3(decoder.norm2(decoder.norm1(x)))
    assert torch.equal(encoder(x), bare[0]) == training
    assert torch.equal(decoder(x, encoded), bare[1]) == training


class Watched(FullAttention):
    """Full attention that remembers how many queries it got."""

    def forward(self, q, k, v):
        self.n_queries = q.shape[2]
        return super().forward(q, k, v)


class Competing(Watched):
    """Its rows depend on each other: each gets the mean of all."""

    independent_rows = False

    def forward(self, q, k, v):
        return super().forward(q, k, v).mean(2, keepdim=True).expand(-1, -1, q.shape[2], -1)


@pytest.mark.parametrize(("cross", "computed"), [(Watched, 4), (Competing, L)])
def test_the_last_rows_are_those_of_the_whole_and_no_others_are_computed_where_rows_are_independent(cross, computed):
    slots = {"self_attention": SLOT, "cross_attention": {"projection": StandardProjection, "mechanism": cross}}
    stack = DecoderStack(with_own_norms(DecoderLayer(sizes(), **slots, layer=2 * i)) for i in range(2))
    x, encoded = torch.randn(B, L, D), torch.randn(B, K, D)
    whole = stack(x, encoded)
    assert [layer.cross_attention.mechanism.n_queries for layer in stack] == [L, L]
    torch.testing.assert_close(stack(x, encoded, last=4), whole[:, -4:])
    assert [layer.cross_attention.mechanism.n_queries for layer in stack] == [L, computed]


@pytest.mark.parametrize("part", ["convolved queries", "mixed heads"])
def test_rows_depend_on_each_other_where_projection_or_merge_join_them(part):
    slot = {"projection": ConvProjection, "mechanism": FullAttention} if part == "convolved queries" else SLOT
    merge = mix_heads if part == "mixed heads" else merge_heads
    layer = AttentionLayer(slot, d_model=D, n_heads=2, causal=False, layer=0, merge=merge)
    assert not layer.independent_rows
    assert AttentionLayer(SLOT, d_model=D, n_heads=2, causal=False, layer=0).independent_rows
