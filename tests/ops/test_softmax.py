"""The two forms of softmax attention are one attention."""

import pytest
import torch

from forecast.ops import softmax
from forecast.ops.softmax import attend, causal_rows, in_three_products

B, H, Q, K, E, V = 2, 3, 7, 11, 5, 13
CPU = torch.device("cpu")


def qkv(n_queries=Q, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    sizes = ((n_queries, E), (K, E), (K, V))
    return [torch.randn(B, H, *size, generator=generator, dtype=dtype).requires_grad_() for size in sizes]


def both_forms(monkeypatch, q, k, v, **how):
    results = []
    for products in (False, True):
        monkeypatch.setattr(softmax, "in_three_products", lambda *_, products=products: products)
        out = attend(q, k, v, dropout=0.0, **how)
        results.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v))))
    return results


@pytest.mark.parametrize("how", ["all", "masked", "causal"])
def test_outputs_and_gradients_of_both_forms_agree(monkeypatch, how):
    q, k, v = qkv(n_queries=K if how == "causal" else Q)
    arguments = {
        "all": {},
        "causal": {"causal": True},
        "masked": {"allowed": (torch.rand(B, H, Q, K) < 0.5) | torch.eye(Q, K, dtype=torch.bool)},
    }[how]
    fused, products = both_forms(monkeypatch, q, k, v, **arguments)
    torch.testing.assert_close(products, fused)


def test_a_query_that_sees_nothing_gets_something_finite_and_spoils_no_gradient(monkeypatch):
    q, k, v = qkv()
    monkeypatch.setattr(softmax, "in_three_products", lambda *_: True)
    allowed = torch.ones(Q, K, dtype=torch.bool)
    allowed[3] = False
    out = attend(q, k, v, allowed=allowed, dropout=0.0)
    gradients = torch.autograd.grad(out[:, :, :3].sum(), (q, k, v))
    assert out.isfinite().all() and all(g.isfinite().all() for g in gradients)


def test_the_last_of_the_causal_rows_see_as_much_as_in_the_whole():
    assert torch.equal(causal_rows(3, K, CPU), torch.ones(K, K, dtype=torch.bool).tril()[-3:])


def test_products_are_taken_where_torch_makes_all_scores_anyway_or_is_slow_in_few():
    q, k, _ = qkv(dtype=torch.float32)
    assert not in_three_products(q, k, 0.0)
    assert in_three_products(q, k, 0.1)
    assert in_three_products(q.bfloat16(), k.bfloat16(), 0.0)
    long = torch.empty(1, 1, 1024, 2, dtype=torch.bfloat16)
    assert not in_three_products(long, long, 0.0)
    assert not in_three_products(q.to("meta"), k.to("meta"), 0.1)


def test_dropped_weights_are_zero_and_the_rest_scaled_up():
    q, k, _ = qkv()
    identity = torch.eye(K, dtype=torch.float64).expand(B, H, K, K)
    torch.manual_seed(1)
    weights, thinned = attend(q, k, identity, dropout=0.0), attend(q, k, identity, dropout=0.25)
    dropped = thinned == 0
    assert 0.1 < dropped.double().mean() < 0.4
    torch.testing.assert_close(thinned[~dropped], weights[~dropped] / 0.75)
