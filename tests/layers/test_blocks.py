"""The encoder and decoder layers: what is added to what, and normalised when."""

import pytest
import torch

from forecast.attention.full import FullAttention
from forecast.layers.blocks import BlockSizes, DecoderLayer, EncoderLayer
from forecast.layers.projections import StandardProjection

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
