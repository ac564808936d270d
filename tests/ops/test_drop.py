"""Dropout on a CPU: which elements it drops, what becomes of the others, and what decides it."""

import math

import pytest
import torch

from forecast.ops.dropout import drop, dropped_places

SHAPES = [(7,), (3, 5, 11), (2, 1, 13)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_an_element_is_zero_or_scaled_up_and_its_gradient_likewise(shape, dtype):
    x = torch.rand(shape, dtype=dtype).add(0.5).requires_grad_()
    torch.manual_seed(3)
    out = drop(x, 0.4, training=True)
    assert out.shape == x.shape and out.dtype == dtype and out.is_contiguous()
    rest = out != 0
    torch.testing.assert_close(out, torch.where(rest, x * (1 / 0.6), 0.0))
    out.backward(torch.full_like(out, 3.0))
    torch.testing.assert_close(x.grad, torch.where(rest, torch.tensor(3.0 / 0.6, dtype=dtype), 0.0))


def test_every_element_is_dropped_with_probability_p_whatever_its_place_and_its_neighbour():
    p, trials, count = 0.3, 4000, 23
    torch.manual_seed(0)
    dropped = torch.stack([drop(torch.ones(count), p, training=True) == 0 for _ in range(trials)]).double()
    error = 5 * math.sqrt(p * (1 - p) / trials)
    assert (dropped.mean(0) - p).abs().max() < error
    both = (dropped[:, 1:] * dropped[:, :-1]).mean(0)  # neighbours are independent
    assert (both - p * p).abs().max() < 5 * math.sqrt(p * p * (1 - p * p) / trials)
    # the number of dropped ones is binomial: its variance shows a dependence over any distance
    assert dropped.sum(1).var().item() == pytest.approx(count * p * (1 - p), rel=0.15)


@pytest.mark.parametrize("p", [1e-300, 1e-6, 0.05, 0.5, 0.999])
def test_places_are_distinct_ascending_and_inside_even_where_one_batch_of_draws_is_not_enough(p, monkeypatch):
    count = 1009
    # batches of at most three draws: many are needed
    monkeypatch.setattr("forecast.ops.dropout.math.ceil", lambda number: 3)
    places = dropped_places(count, p)
    assert places.dtype == torch.int64
    assert (places.diff() > 0).all() and (places >= 0).all() and (places < count).all()
    assert abs(len(places) - count * p) <= 6 * math.sqrt(count * p * (1 - p)) + 1


def test_a_large_tensor_loses_its_share():
    n = 1_000_003
    assert len(dropped_places(n, 0.05)) == pytest.approx(0.05 * n, abs=6 * math.sqrt(0.05 * 0.95 * n))


def test_torchs_generator_decides_and_moves_on():
    x = torch.ones(101, 7)
    torch.manual_seed(5)
    first, second = drop(x, 0.5, training=True), drop(x, 0.5, training=True)
    torch.manual_seed(5)
    assert torch.equal(drop(x, 0.5, training=True), first) and not torch.equal(first, second)


def test_a_transposed_tensor_keeps_its_order():
    x = torch.arange(1.0, 78.0).view(7, 11).t().requires_grad_()
    out = drop(x, 0.5, training=True)
    out.sum().backward()
    rest = out != 0
    assert rest.any() and not rest.all()
    torch.testing.assert_close(out[rest], 2 * x.detach()[rest])


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.7, False)])
def test_nothing_is_done_or_drawn_without_dropout(p, training):
    x = torch.rand(5, 3)
    before = torch.get_rng_state()
    assert drop(x, p, training=training) is x
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("length", "p"), [(5, 1.0), (0, 0.5)])
def test_dropout_of_everything_leaves_zeros_and_an_empty_tensor_stays_empty(length, p):
    assert torch.equal(drop(torch.rand(length, 3), p, training=True), torch.zeros(length, 3))


def test_in_place_the_tensor_itself_is_dropped_and_who_goes_on_with_it_has_the_gradient():
    x = torch.rand(101).add(0.5).requires_grad_()
    itself = x * 1.0
    assert drop(itself, 0.5, training=True, inplace=True) is itself
    itself.sum().backward()
    torch.testing.assert_close(x.grad, torch.where(itself != 0, 2.0, 0.0))
