"""A model as a torch.export program: it draws nothing, and forecasts as its model does."""

import numpy as np
import pytest
import torch
from torch import nn

from forecast.apps.export import draws, largest_difference, trace
from forecast.errors import UserError


class Planted(nn.Module):
    """What a model must not do in evaluation."""

    def __init__(self, what):
        super().__init__()
        self.what, self.weight = what, nn.Parameter(torch.ones(1))

    def forward(self, past, past_known, future_known):
        return self.what(past) * self.weight


def attended(x):
    return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)


DRAWING = {
    "rand": (lambda x: x + torch.rand_like(x), "aten.rand_like"),
    "randint": (lambda x: x[torch.randint(2, (2,))], "aten.randint"),
    "randperm": (lambda x: x[:, torch.randperm(7)], "aten.randperm"),
    "bernoulli": (torch.bernoulli, "aten.bernoulli"),
    "normal": (lambda x: x.clone().normal_(), "aten.normal"),
    "dropout": (lambda x: nn.functional.dropout(x, 0.5, training=True), "aten.dropout"),
    "attention": (attended, "aten.scaled_dot_product_attention"),
}
INPUTS = (torch.full((5, 7, 3), 0.5), torch.zeros(5, 7, 2), torch.zeros(5, 3, 2))


@pytest.mark.parametrize("kind", DRAWING)
def test_a_model_that_draws_in_evaluation_is_refused_with_the_operator(kind):
    what, name = DRAWING[kind]
    with pytest.raises(UserError, match=rf"draws random numbers \(.*{name}"):
        trace(Planted(what).eval(), INPUTS, batch=5)


def test_dropout_that_is_switched_off_draws_nothing():
    quiet = Planted(lambda x: nn.functional.scaled_dot_product_attention(nn.functional.dropout(x, 0.5, False), x, x))
    program = trace(quiet.eval(), INPUTS, batch=None)
    assert any("dropout" in str(node.target) for node in program.graph.nodes)
    assert not any(draws(node) for node in program.graph.nodes)


def test_a_model_whose_way_depends_on_its_values_is_refused_with_torchs_reason():
    with pytest.raises(UserError, match=r"torch\.export cannot trace this model.*It says: "):
        trace(Planted(lambda x: x if x.sum() > 0 else -x).eval(), INPUTS, batch=5)


def test_a_model_that_depends_on_the_number_of_windows_may_be_exported_for_one_number():
    model = Planted(lambda x: x * len(x)).eval()
    with pytest.raises(UserError, match="A fixed number of windows may do: --batch 1"):
        trace(model, INPUTS, batch=None)
    assert trace(model, INPUTS, batch=5)


def test_the_difference_of_a_program_and_its_model_is_the_largest_of_all_batches():
    model, other = Planted(lambda x: x).eval(), Planted(lambda x: torch.where(x > 2, x + 0.25, x)).eval()
    past = torch.zeros(9, 7, 3)
    past[6, 2, 1] = 3.0  # in the second of three batches alone
    windows = (past, torch.zeros(9, 7, 2), torch.zeros(9, 3, 2))
    program = trace(model, windows, batch=None)
    assert largest_difference(program.module(), other, windows, (1, 6, 2)) == 0.25
    assert largest_difference(program.module(), other, windows, (1, 5)) == 0.0
    past[6, 2, 1] = torch.nan
    assert np.isnan(largest_difference(program.module(), model, windows, (1, 6, 2)))
