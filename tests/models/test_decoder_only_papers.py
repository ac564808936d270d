"""GPT, LogTrans and the Sparse Transformer: first weights, which steps a row sees, layers that are those of torch."""

from functools import partial

import pytest
import torch
from models.decoders import DECODER_ONLY
from models.inputs import batch, copy_layer, draw_norms, make_model
from torch import nn

from forecast.attention.logsparse import LogSparseAttention
from forecast.attention.strided import StridedAttention
from forecast.layers.projections import ConvProjection, StandardProjection
from forecast.models.gpt import GPT
from forecast.models.logtrans import LogTrans
from forecast.models.sparse_transformer import SparseTransformer

STRIDED = {"projection": StandardProjection, "mechanism": partial(StridedAttention, window=4)}


def gpt(**changes):
    return make_model(GPT, DECODER_ONLY, changes)


def sparse_transformer(**changes):
    return make_model(SparseTransformer, {**DECODER_ONLY, "decoder_attention": STRIDED}, changes).eval()


def logtrans(kernel_size, **changes):
    """With the paper's plain pattern: a step sees itself and those 1, 2, 4, 8 .. before it."""
    projection = partial(ConvProjection, kernel_size=kernel_size)
    slot = {"projection": projection, "mechanism": partial(LogSparseAttention, window=1)}
    return make_model(LogTrans, {**DECODER_ONLY, "decoder_attention": slot}, changes).eval()


def test_layers_of_a_gpt_are_torchs_own_with_the_norm_first_and_a_norm_at_the_end():
    model, (past, past_known, _) = draw_norms(gpt(decoder_layers=3)), batch()
    sizes = {"nhead": 4, "dim_feedforward": 23, "dropout": 0.0, "activation": "gelu", "batch_first": True}
    x = model.embedding(past, past_known)
    for layer in model.layers:
        theirs = nn.TransformerEncoderLayer(24, **sizes, norm_first=True)
        x = copy_layer(theirs, layer, attentions={"self_attn": layer.attention})(
            x, src_mask=torch.ones(19, 19).triu(1).bool()
        )
    expected = model.head(nn.functional.layer_norm(x, (24,), model.norm.weight, model.norm.bias))
    torch.testing.assert_close(model.rows(past, past_known), expected, rtol=1e-4, atol=1e-5)


def test_queries_keys_and_values_of_a_gpt_are_one_product():
    assert all(layer.attention.projection.query_key_value.out_features == 72 for layer in gpt().layers)


def test_the_first_forecast_of_a_sparse_transformer_is_zero():
    assert (sparse_transformer()(*batch()) == 0).all()


@pytest.mark.parametrize(
    "make, deviation",
    [(gpt, lambda n_inputs: 0.02), (sparse_transformer, lambda n_inputs: 0.125 / n_inputs**0.5)],
    ids=["gpt", "sparse_transformer"],
)
@pytest.mark.parametrize("n_layers", [1, 2, 8])
def test_first_weights_have_the_papers_deviation_and_those_that_add_up_one_less_by_the_depth(make, deviation, n_layers):
    """Two maps of each layer are added to the sequence. Biases are zero."""
    model, depth = make(d_model=320, d_ff=640, decoder_layers=n_layers), (2 * n_layers) ** 0.5
    expected = {
        "attention.projection.query_key_value": deviation(320),
        "feed_forward.widen": deviation(320),
        "attention.output": deviation(320) / depth,
        "feed_forward.narrow": deviation(640) / depth,
    }
    for layer in model.layers:
        actual = {name: layer.get_submodule(name).weight.std().item() for name in expected}
        assert actual == pytest.approx(expected, rel=0.02)
        assert all((p == 0).all() for name, p in layer.named_parameters() if name.endswith("bias"))


@pytest.mark.parametrize(
    "model, distances",
    [
        # steps at distances that double; the first rows, which see all of the past, end before the last of 19
        (partial(logtrans, 1, decoder_layers=1), [0, 1, 2, 4, 8, 16]),
        # convolutions of queries and keys add the step before each
        (partial(logtrans, 2, decoder_layers=1), [0, 1, 2, 3, 4, 5, 8, 9, 16, 17]),
        # layers on top of each other see the whole past
        (partial(logtrans, 1, decoder_layers=5), list(range(19))),
        (partial(sparse_transformer, decoder_layers=1), [0, 1, 2, 3, 4, 8, 12, 16]),
        (partial(sparse_transformer, decoder_layers=2), list(range(19))),
    ],
    ids=["logtrans", "logtrans of kernel 2", "deep logtrans", "sparse_transformer", "deep sparse_transformer"],
)
def test_the_last_of_19_rows_sees_the_steps_at_the_distances_of_the_pattern(model, distances):
    model, (past, past_known, _) = model(), batch()
    if isinstance(model, SparseTransformer):  # its first forecast is zero
        for name, parameter in model.named_parameters():
            if name.endswith("weight"):
                nn.init.normal_(parameter, std=0.3)
    before, visible = model.rows(past, past_known)[:, -1], []
    for distance in range(19):
        moved = past.clone()
        moved[:, 18 - distance] += 1.0
        if not torch.allclose(model.rows(moved, past_known)[:, -1], before, atol=1e-7):
            visible.append(distance)
    assert visible == distances


def test_after_its_last_layer_the_rows_of_a_logtrans_are_normalised_once():
    """Post-norm: each layer ends with its own norm."""
    model, (past, past_known, _) = logtrans(3), batch()
    last = model.layers(model.embedding(past, past_known))
    torch.testing.assert_close(last.mean(-1), torch.zeros(2, 19), rtol=0, atol=1e-5)
    torch.testing.assert_close(model.rows(past, past_known), model.head(last))
