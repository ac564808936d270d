"""The Reformer: one sequence, two streams, reversible."""

from functools import partial

import pytest
import torch
from models.inputs import batch, draw_norms, make_model, reached
from models.small import FULL, SIZES
from saved_tensors import saved_bytes

from forecast.attention.lsh import LshAttention
from forecast.layers.projections import SharedQueryKeyProjection
from forecast.layers.reversible import ReversibleStack
from forecast.models.reformer import Reformer

LSH = {
    "projection": SharedQueryKeyProjection,
    "mechanism": partial(LshAttention, bucket_size=4, n_hashes=2, dropout=0.2, eval_seed=0),
}
OWN = {key: SIZES[key] for key in ("d_model", "n_heads", "d_ff", "dropout", "activation", "embedding", "instance_norm")}


def reformer(slot=LSH, **changes):
    own = {**OWN, "encoder_layers": 3, "feed_forward_chunks": 1, "encoder_attention": slot}
    return make_model(Reformer, own, changes)


def test_window_and_zeros_pass_through_reversible_pre_norm_layers_and_the_last_rows_are_read_out():
    model, (past, past_known, future_known) = reformer(FULL), batch()
    draw_norms(model)
    known = torch.cat([past_known, future_known], 1)
    x1 = x2 = model.embedding(torch.cat([past, torch.zeros(2, 5, 3)], 1), known)
    for layer in model.layers.layers:
        normed = layer.first.norm(x2)
        x1 = x1 + layer.first.inner.attention(normed, normed)
        x2 = x2 + layer.second.inner(layer.second.norm(x1))
    expected = model.head(model.norm((x1 + x2) / 2))[:, -5:]
    torch.testing.assert_close(model(past, past_known, future_known), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("slot", [FULL, LSH], ids=["full", "lsh"])
@pytest.mark.parametrize("chunks", [1, 5])
def test_gradients_in_training_are_those_of_plain_autograd(slot, chunks, monkeypatch):
    """With dropout and, for LSH, fresh hash directions at each call."""
    results = []
    for plain in (False, True):
        if plain:
            monkeypatch.setattr(ReversibleStack, "forward", plain_forward)
        model = reformer(slot, dropout=0.3, feed_forward_chunks=chunks).double().train()
        torch.manual_seed(7)
        loss = model(*batch(dtype=torch.float64)).square().sum()
        results.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def plain_forward(stack, x1, x2):
    for layer in stack.layers:
        x1, x2 = layer(x1, x2)
    return x1, x2


def test_what_is_kept_for_the_backward_pass_does_not_grow_with_the_layers():
    one, two, seven = (
        saved_bytes(model, model, batch()) for model in (reformer(FULL, encoder_layers=n) for n in (1, 2, 7))
    )
    assert one == two == seven


@pytest.mark.parametrize("chunks", [2, 5, 24, 100])
def test_chunks_bound_how_many_steps_the_feed_forward_network_gets_and_leave_the_forecast(chunks):
    model, rows = reformer(feed_forward_chunks=chunks).eval(), []
    model.layers.layers[0].second.inner.widen.register_forward_hook(lambda _m, _i, out: rows.append(out.shape[1]))
    torch.testing.assert_close(model(*batch()), reformer().eval()(*batch()))
    assert max(rows) == -(-24 // chunks)
    assert sum(rows) == 24


def test_each_step_sees_the_calendar_of_all_others():
    assert all(reached(reformer(FULL), "future_known", 4))
    assert all(reached(reformer(FULL), "past_known", 0))


def test_dropout_acts_on_the_embedding_and_both_branches():
    model = reformer(FULL, dropout=1.0).train()
    assert torch.equal(model(*batch()), model.head(model.norm.bias).expand(2, 5, -1))
    for layer in model.layers.layers:
        x = torch.randn(2, 7, 22)
        assert all(torch.equal(y, x) for y in layer(x, x))


def test_training_draws_fresh_hash_directions_and_evaluation_the_same():
    model = reformer()
    assert not torch.equal(model.train()(*batch()), model(*batch()))
    assert torch.equal(model.eval()(*batch()), model(*batch()))


def test_it_trains_under_autocast():
    model = reformer(dropout=0.1)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(*batch()).float().square().mean()
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
