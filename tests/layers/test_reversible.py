"""Reversible layers have the gradients of plain ones, and store nothing for them but their last outputs."""

import copy
from functools import partial

import pytest
import torch
from saved_tensors import saved_bytes
from torch import nn

from forecast.layers.reversible import ReversibleLayer, ReversibleStack

B, L, D = 2, 11, 6
GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"))


class Noise(nn.Module):
    """Draws a fresh matrix at each call, as LSH attention draws its rotations, and a dropout mask."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(D, D)

    def forward(self, x):
        mixed = torch.tanh(self.linear(x) @ torch.randn(D, D, dtype=x.dtype, device=x.device))
        return nn.functional.dropout(mixed, 0.4, self.training)


def step_by_step(dropout):
    """What treats each step by itself, as a feed-forward network does."""
    return nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 17), nn.GELU(), nn.Dropout(dropout), nn.Linear(17, D))


def stack(n_layers=3, *, first=None, dropout=0.0, pieces=1, dtype=torch.float64, device="cpu"):
    torch.manual_seed(5)
    first = first or nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D), nn.Tanh())
    layers = [
        ReversibleLayer(copy.deepcopy(first), step_by_step(dropout), second_pieces=pieces) for _ in range(n_layers)
    ]
    return ReversibleStack(layers).to(device, dtype)


def plainly(stack, x1, x2):
    """The same layers under plain autograd, from the definition."""
    for layer in stack.layers:
        x1 = x1 + layer.first(x2)
        x2 = x2 + torch.cat([layer.second(piece) for piece in x1.chunk(layer.second_pieces, dim=1)], 1)
    return x1, x2


def streams(dtype=torch.float64, device="cpu"):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, B, L, D, generator=generator, dtype=dtype).to(device)
    return [part.clone().requires_grad_() for part in x]


def loss_of(outputs):
    """Unlike in both streams and all elements."""
    y1, y2 = outputs
    weight = torch.linspace(-1, 2, y1.numel(), dtype=y1.dtype, device=y1.device).view_as(y1)
    return (weight * y1.square()).sum() + (weight.flip(1) * y2.sin()).sum()


def results(run, module, x):
    """The outputs and all gradients."""
    torch.manual_seed(7)
    outputs = run(*x)
    differentiable = [part for part in (*x, *module.parameters()) if part.requires_grad]
    return [*outputs, *torch.autograd.grad(loss_of(outputs), differentiable)]


def same(actual, expected, **tolerance):
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, theirs, **({"rtol": 1e-9, "atol": 1e-9} | tolerance))


def same_as_plain_autograd(module, x):
    """How many outputs and gradients agree: all."""
    expected = results(partial(plainly, module), module, x)
    same(results(module, module, x), expected)
    return len(expected)


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("pieces", [1, 4])
@pytest.mark.parametrize("n_layers", [1, 5])
@pytest.mark.parametrize("first, dropout", [(None, 0.0), (Noise(), 0.3)], ids=["nothing drawn", "dropout and draws"])
def test_outputs_and_gradients_are_those_of_plain_autograd(first, dropout, n_layers, pieces, device):
    module, x = stack(n_layers, first=first, dropout=dropout, pieces=pieces, device=device), streams(device=device)
    assert same_as_plain_autograd(module, x) == 2 + 2 + n_layers * (10 if first is None else 8)


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_a_training_step_draws_from_the_generators_what_a_plain_one_does(device):
    module, x = stack(first=Noise(), dropout=0.3, device=device), streams(device=device)
    draws = []
    for run in (module, partial(plainly, module)):
        results(run, module, x)
        draws.append((torch.rand(3), torch.rand(3, device=device)))
    assert torch.equal(draws[0][0], draws[1][0])
    assert torch.equal(draws[0][1], draws[1][1])


def test_what_is_drawn_between_forward_and_backward_changes_nothing():
    module, x = stack(first=Noise(), dropout=0.3), streams()
    expected = results(module, module, x)[2:]
    torch.manual_seed(7)
    loss = loss_of(module(*x))
    torch.manual_seed(99)
    state = torch.get_rng_state()
    same(torch.autograd.grad(loss, [*x, *module.parameters()]), expected, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)


def test_what_is_saved_for_the_backward_pass_does_not_grow_with_the_layers():
    two_streams = 2 * B * L * D * 8
    stacks = [stack(n) for n in (1, 2, 12)]
    assert [saved_bytes(module, module, streams()) for module in stacks] == [two_streams] * 3
    one, two, twelve = (saved_bytes(module, partial(plainly, module), streams()) for module in stacks)
    assert twelve - two == 10 * (two - one) > 10 * two_streams


def test_the_pieces_bound_how_many_steps_the_second_part_gets_at_once_and_change_no_number():
    widths = []
    whole, cut, x = stack(dropout=0.0), stack(dropout=0.0, pieces=4), streams()
    for layer in cut.layers:
        layer.second[1].register_forward_hook(lambda _m, _i, out: widths.append(out.shape[1]))
    pieces = results(cut, cut, x)
    assert widths == [3, 3, 3, 2] * 6  # 11 steps; three layers, forward and backward
    same(pieces, results(whole, whole, x))


def test_more_pieces_than_steps_are_as_many_as_there_are_steps():
    module, x = stack(pieces=50), streams()
    same(module(*x), stack()(*x))


def test_frozen_parameters_get_no_gradient_and_the_others_their_own():
    module, x = stack(), streams()
    frozen = [*module.layers[1].parameters(), module.layers[0].second[1].weight]
    for parameter in frozen:
        parameter.requires_grad_(False)
    same_as_plain_autograd(module, x)
    loss_of(module(*x)).backward()
    assert all(parameter.grad is None for parameter in frozen)
    assert all(p.grad is not None for p in module.parameters() if p.requires_grad)


def test_gradients_flow_to_parameters_of_data_and_to_data_through_frozen_layers():
    module, x = stack(), [x.detach() for x in streams()]
    same_as_plain_autograd(module, x)
    module.requires_grad_(False)
    assert not module(*x)[0].requires_grad
    same_as_plain_autograd(module, streams())


def test_one_module_in_all_layers_gets_the_sum_of_their_gradients():
    shared = nn.Linear(D, D)
    module = ReversibleStack([ReversibleLayer(shared, shared) for _ in range(3)]).double()
    assert same_as_plain_autograd(module, streams()) == 2 + 4


def test_a_parameter_that_is_not_used_gets_no_gradient():
    module = stack()
    module.layers[0].first.register_parameter("unused", nn.Parameter(torch.zeros(3, dtype=torch.float64)))
    loss_of(module(*streams())).backward()
    assert {name for name, p in module.named_parameters() if p.grad is None} == {"layers.0.first.unused"}


def test_the_graph_can_be_walked_twice():
    module, x = stack(first=Noise(), dropout=0.3), streams()
    loss = loss_of(module(*x))
    first = torch.autograd.grad(loss, x, retain_graph=True)
    same(torch.autograd.grad(loss, x), first, rtol=0, atol=0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_the_outputs_are_the_same_and_have_no_graph(mode):
    module, x = stack(), streams()
    expected = module(*x)
    with mode():
        outputs = module(*x)
    same(outputs, expected, rtol=0, atol=0)
    assert not outputs[0].requires_grad


def test_parameters_that_changed_before_the_backward_pass_are_noticed_as_in_plain_autograd():
    module = stack()
    loss = loss_of(module(*streams()))
    with torch.no_grad():
        module.layers[0].second[1].weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_second_derivatives_are_refused():
    module, x = stack(), streams()
    (once,) = torch.autograd.grad(loss_of(module(*x)), x[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        once.sum().backward()


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("inside", [True, False], ids=["backward inside", "backward outside"])
def test_the_backward_pass_computes_under_the_autocast_of_the_forward_pass(inside, device):
    seen = []
    module, x = stack(dropout=0.3, dtype=torch.float32, device=device), streams(torch.float32, device)
    module.layers[1].second[1].register_forward_hook(lambda _m, _i, out: seen.append(out.dtype))
    torch.manual_seed(7)
    with torch.autocast(device, torch.bfloat16):
        loss = loss_of(module(*x))
        if inside:
            loss.backward()
    if not inside:
        loss.backward()
    assert seen == [torch.bfloat16] * 2
    gradients = [p.grad for p in module.parameters()]
    with torch.autocast(device, torch.bfloat16):
        expected = results(partial(plainly, module), module, x)[4:]
    for ours, theirs in zip(gradients, expected, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, rtol=0.03, atol=0.03 * theirs.abs().max().item())
