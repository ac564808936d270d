"""The Transformer: torch's own layers in the Informer's frame."""

import torch
from models.inputs import batch, copy_layer, draw_norms, make_model
from models.small import FULL, SIZES, informer
from torch import nn

from forecast.config.build import parameters
from forecast.layers.distil import Distil
from forecast.models.informer import Informer
from forecast.models.transformer import Transformer

OWN = {key: value for key, value in SIZES.items() if key not in ("distil", "mix")}
SLOTS = {"encoder_attention": FULL, "decoder_attention": FULL, "cross_attention": FULL}


def transformer(**changes):
    return make_model(Transformer, {**OWN, **SLOTS}, changes)


def test_encoder_and_decoder_are_torchs_own_layers_with_a_norm_at_the_end():
    model, (past, past_known, future_known) = transformer(encoder_layers=3, decoder_layers=2), batch()
    draw_norms(model)
    sizes = {"nhead": 2, "dim_feedforward": 23, "dropout": 0.0, "activation": "gelu", "batch_first": True}
    *layers, norm = model.encoder
    encoded = model.encoder_embedding(past, past_known)
    for layer in layers:
        theirs = nn.TransformerEncoderLayer(22, **sizes)
        encoded = copy_layer(theirs, layer, attentions={"self_attn": layer.attention})(encoded)
    encoded = norm(encoded)
    start = torch.cat([past[:, -7:], torch.zeros(2, 5, 3)], dim=1)
    x = model.decoder.embedding(start, torch.cat([past_known[:, -7:], future_known], dim=1))
    blocked = torch.ones(12, 12).triu(1).bool()
    for layer in model.decoder.layers:
        attentions = {"self_attn": layer.self_attention, "multihead_attn": layer.cross_attention}
        theirs = copy_layer(nn.TransformerDecoderLayer(22, **sizes), layer, attentions=attentions)
        x = theirs(x, encoded, tgt_mask=blocked)
    expected = model.decoder.head(model.decoder.norm(x))[:, -5:]
    torch.testing.assert_close(model(past, past_known, future_known), expected, rtol=1e-4, atol=1e-5)


def test_it_is_the_informer_without_distilling_and_mixing():
    model, other = transformer(), informer(FULL, distil=False, mix=False)
    other.load_state_dict(model.state_dict())
    assert torch.equal(model.eval()(*batch()), other.eval()(*batch()))
    assert not [module for module in model.modules() if isinstance(module, Distil)]


def test_its_keys_are_the_informers_less_those_two():
    ours, theirs = ({*parameters(model)} for model in (Transformer, Informer))
    assert ours == theirs - {"distil", "mix"}
