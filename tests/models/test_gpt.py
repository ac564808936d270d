"""GPT: torch's own pre-norm layers."""

import pytest
import torch
from models.decoders import DECODER_ONLY
from models.inputs import batch, made
from torch import nn

from forecast.models.gpt import GPT


def gpt(**changes):
    return made(GPT, DECODER_ONLY, changes)


def test_its_layers_are_torchs_own_with_the_norm_first_and_a_norm_at_the_end():
    model, (past, past_known, _) = gpt(decoder_layers=3), batch()
    for name, parameter in model.named_parameters():
        if "norm" in name:  # fresh ones are all alike
            nn.init.uniform_(parameter, 0.5, 1.5)
    x = model.embedding(past, past_known)
    for layer in model.layers:
        theirs = nn.TransformerEncoderLayer(
            24, nhead=4, dim_feedforward=23, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        theirs.self_attn.in_proj_weight.data.copy_(layer.attention.projection.query_key_value.weight)
        theirs.self_attn.in_proj_bias.data.copy_(layer.attention.projection.query_key_value.bias)
        theirs.self_attn.out_proj.load_state_dict(layer.attention.output.state_dict())
        pairs = {"linear1": "feed_forward.widen", "linear2": "feed_forward.narrow", "norm1": "norm1", "norm2": "norm2"}
        for their, our in pairs.items():
            theirs.get_submodule(their).load_state_dict(layer.get_submodule(our).state_dict())
        x = theirs(x, src_mask=torch.ones(19, 19).triu(1).bool())
    expected = model.head(nn.functional.layer_norm(x, (24,), model.norm.weight, model.norm.bias))
    torch.testing.assert_close(model.rows(past, past_known), expected, rtol=1e-4, atol=1e-5)


def test_queries_keys_and_values_are_one_product():
    model = gpt()
    assert all(layer.attention.projection.query_key_value.out_features == 72 for layer in model.layers)


def test_the_first_weights_have_the_papers_deviation_and_those_that_add_up_less():
    """Two maps of each of two layers are added: their deviation is halved."""
    model = gpt(d_model=320, d_ff=640, decoder_layers=2)
    for layer in model.layers:
        for name in ("attention.projection.query_key_value", "feed_forward.widen"):
            assert layer.get_submodule(name).weight.std().item() == pytest.approx(0.02, rel=0.02)
        for name in ("attention.output", "feed_forward.narrow"):
            assert layer.get_submodule(name).weight.std().item() == pytest.approx(0.01, rel=0.02)
        assert all((p == 0).all() for name, p in layer.named_parameters() if name.endswith("bias"))
