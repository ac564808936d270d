"""The NumPy oracle itself, against torch's own attention; and the attention layer against the oracle."""

import numpy as np
import pytest
import torch
from torch import nn

from forecast.attention import reference
from forecast.attention.full import FullAttention
from forecast.layers.attention_layer import AttentionLayer
from forecast.layers.projections import StandardProjection

B, H, Q, K, E = 2, 3, 7, 11, 5
D = H * E


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_is_torchs_with_and_without_a_mask(masked):
    q, k, v = drawn(B, H, Q, E), drawn(B, H, K, E, seed=1), drawn(B, H, K, 4, seed=2)
    allowed = np.random.default_rng(3).random((Q, K)) < 0.5 if masked else None
    if masked:
        allowed[:, 0] = True  # torch gives NaN to a row that sees nothing
    theirs = nn.functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (q, k, v)), attn_mask=None if allowed is None else torch.from_numpy(allowed)
    )
    np.testing.assert_allclose(reference.attention(q, k, v, allowed), theirs.numpy(), rtol=1e-12, atol=1e-12)


def test_a_row_that_may_see_nothing_is_zero():
    allowed = np.ones((Q, K), dtype=bool)
    allowed[2] = False
    out = reference.attention(drawn(B, H, Q, E), drawn(B, H, K, E), drawn(B, H, K, E), allowed)
    assert (out[:, :, 2] == 0).all()
    assert (out[:, :, [0, 1, 3, 4, 5, 6]] != 0).all()


def test_large_scores_do_not_overflow():
    assert np.isfinite(reference.attention_weights(drawn(B, H, Q, E) * 1e4, drawn(B, H, K, E) * 1e4)).all()


def multi_head(layer, x, memory, allowed=None):
    fused, output = layer.projection.query_key_value, layer.output
    weights = [w.detach().numpy() for w in (*fused.weight.chunk(3), output.weight)]
    biases = [b.detach().numpy() for b in (*fused.bias.chunk(3), output.bias)]
    return reference.multi_head_attention(
        x, memory, weights=tuple(weights), biases=tuple(biases), n_heads=H, allowed=allowed
    )


@pytest.mark.parametrize("kind", ["self", "masked", "cross"])
def test_the_attention_layer_is_the_oracle_with_all_heads_at_once(kind):
    slot = {"projection": StandardProjection, "mechanism": FullAttention}
    layer = AttentionLayer(slot, d_model=D, n_heads=H, causal=kind == "masked", layer=0).double()
    x = drawn(B, Q, D)
    memory = drawn(B, K, D, seed=1) if kind == "cross" else x
    queries = torch.from_numpy(x)
    out = layer(queries, torch.from_numpy(memory) if kind == "cross" else queries)
    expected = multi_head(layer, x, memory, reference.causal_mask(Q) if kind == "masked" else None)
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-10, atol=1e-12)


def test_multi_head_attention_is_torchs():
    theirs = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
    nn.init.normal_(theirs.in_proj_bias)
    x, memory = drawn(B, Q, D), drawn(B, K, D, seed=1)
    expected, _ = theirs(torch.from_numpy(x), *[torch.from_numpy(memory)] * 2)
    weights = [w.detach().numpy() for w in (*theirs.in_proj_weight.chunk(3), theirs.out_proj.weight)]
    biases = [b.detach().numpy() for b in (*theirs.in_proj_bias.chunk(3), theirs.out_proj.bias)]
    actual = reference.multi_head_attention(x, memory, weights=tuple(weights), biases=tuple(biases), n_heads=H)
    np.testing.assert_allclose(actual, expected.detach().numpy(), rtol=1e-10, atol=1e-12)


def test_finite_differences_find_a_gradient():
    at = drawn(3, 2)
    np.testing.assert_allclose(reference.finite_difference(lambda x: float((x**3).sum()), at), 3 * at**2, rtol=1e-7)
