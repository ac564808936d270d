"""The Sparse Transformer: its first weights, and what a row sees."""

from functools import partial

import pytest
import torch
from models.decoders import DECODER_ONLY
from models.inputs import batch, made

from forecast.attention.strided import StridedAttention
from forecast.layers.projections import StandardProjection
from forecast.models.sparse_transformer import SparseTransformer

STRIDED = {"projection": StandardProjection, "mechanism": partial(StridedAttention, window=4)}


def sparse_transformer(**changes):
    return made(SparseTransformer, {**DECODER_ONLY, "decoder_attention": STRIDED}, changes).eval()


def test_the_first_forecast_is_zero():
    assert (sparse_transformer()(*batch()) == 0).all()


@pytest.mark.parametrize("n_layers", [1, 8])
def test_first_weights_follow_the_number_of_inputs_and_those_that_add_up_the_depth(n_layers):
    model = sparse_transformer(d_model=320, d_ff=640, decoder_layers=n_layers)
    depth = (2 * n_layers) ** 0.5
    expected = {
        "attention.projection.query_key_value": 0.125 / 320**0.5,
        "feed_forward.widen": 0.125 / 320**0.5,
        "attention.output": 0.125 / 320**0.5 / depth,
        "feed_forward.narrow": 0.125 / 640**0.5 / depth,
    }
    for layer in model.layers:
        found = {name: layer.get_submodule(name).weight.std().item() for name in expected}
        assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("n_layers, distances", [(1, [0, 1, 2, 3, 4, 8, 12, 16]), (2, list(range(19)))])
def test_two_layers_reach_every_step_of_the_past(n_layers, distances):
    model = sparse_transformer(decoder_layers=n_layers)
    for name, parameter in model.named_parameters():
        if name.endswith("weight"):
            torch.nn.init.normal_(parameter, std=0.3)
    past, past_known, _ = batch()
    before, seen = model.rows(past, past_known)[:, -1], []
    for step in range(19):
        moved = past.clone()
        moved[:, step] += 1.0
        if not torch.allclose(model.rows(moved, past_known)[:, -1], before, atol=1e-7):
            seen.append(18 - step)
    assert sorted(seen) == distances
