"""What pre-norm layers add, and the Boom layer."""

import math

import pytest
import torch
from torch import nn

from forecast.attention.full import FullAttention
from forecast.layers.attention_layer import AttentionLayer, SelfAttention
from forecast.layers.pre_norm import PreNorm
from forecast.layers.projections import StandardProjection
from forecast.models.sha import Boom, Lstm, sigmoid_gelu

B, L, D, N = 2, 11, 7, 3


def test_boom_sums_the_runs_of_its_wide_activations():
    boom, x = Boom(d_model=D, d_ff=N * D), torch.randn(B, L, D)
    wide = boom.widen(x)
    expected = torch.zeros(B, L, D)
    for n in range(N):
        for column in range(D):
            u = wide[..., n * D + column]
            expected[..., column] += u / (1 + torch.exp(-1.702 * u))
    torch.testing.assert_close(boom(x), expected)


def test_boom_has_no_map_back():
    assert {name: tuple(p.shape) for name, p in Boom(d_model=D, d_ff=N * D).named_parameters()} == {
        "widen.weight": (N * D, D),
        "widen.bias": (N * D,),
    }


def test_the_sigmoid_form_is_within_a_fiftieth_of_gelu():
    x = torch.linspace(-6, 6, 1001)
    assert 0.01 < (sigmoid_gelu(x) - nn.functional.gelu(x)).abs().max() < 0.021


def test_a_width_that_is_no_multiple_is_refused():
    message = r"d_ff \(20\) must be a multiple of d_model \(7\): the Boom layer sums runs of d_model numbers"
    with pytest.raises(ValueError, match=message):
        Boom(d_model=D, d_ff=20)


def test_boom_drops_the_wide_activations_in_training():
    boom = Boom(d_model=1, d_ff=4, dropout=0.5).train()
    boom.widen.weight.data.zero_()
    boom.widen.bias.data.fill_(1)
    torch.manual_seed(0)
    unit = 2 / (1 + math.exp(-1.702))  # what is not dropped is doubled
    counts = (boom(torch.randn(B, 500, 1)) / unit).flatten()
    assert set(counts.round().int().tolist()) == {0, 1, 2, 3, 4}
    torch.testing.assert_close(boom.eval()(torch.randn(B, L, 1)), torch.full((B, L, 1), 2 * unit))


def test_pre_norm_normalises_first_and_drops_last():
    branch, x = PreNorm(nn.Linear(D, D), d_model=D, dropout=0.5).train(), torch.randn(B, L, D)
    nn.init.uniform_(branch.norm.weight, 0.5, 1.5)
    whole = branch.inner(branch.norm(x))
    dropped = branch(x)
    assert ((dropped == 0) | torch.isclose(dropped, 2 * whole)).all()
    assert 0 < (dropped == 0).float().mean() < 1
    torch.testing.assert_close(branch.eval()(x), whole)


def test_self_attention_has_the_sequence_as_its_memory():
    slot = {"projection": StandardProjection, "mechanism": FullAttention}
    attention, x = AttentionLayer(slot, d_model=D, n_heads=1, causal=False, layer=0), torch.randn(B, L, D)
    assert torch.equal(SelfAttention(attention)(x), attention(x, x))


def test_a_recurrent_layer_starts_from_zeros_and_gives_the_state_of_each_step():
    layer, x = Lstm(D), torch.randn(B, L, D)
    hidden = cell = torch.zeros(B, D)
    for step in range(L):
        gates = x[:, step] @ layer.lstm.weight_ih_l0.T + hidden @ layer.lstm.weight_hh_l0.T
        enter, forget, content, out = (gates + layer.lstm.bias_ih_l0 + layer.lstm.bias_hh_l0).chunk(4, dim=-1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * content.tanh()
        hidden = out.sigmoid() * cell.tanh()
        torch.testing.assert_close(layer(x)[:, step], hidden, rtol=1e-4, atol=1e-5)
