"""Columns by their numbers: those that indexing gives, without a list of numbers."""

import pytest
import torch

from forecast.ops.columns import take_columns


@pytest.mark.parametrize("columns", [(0, 1, 2, 3, 4), (4,), (1, 2), (3, 0, 1), (4, 2, 2, 3), ()])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_they_are_what_indexing_gives(columns, dim):
    x = torch.randn(5, 5, 5, requires_grad=True)
    actual, expected = take_columns(x, columns, dim), x.index_select(dim, torch.tensor(columns, dtype=torch.long))
    assert torch.equal(actual, expected)
    weight = torch.randn_like(expected)
    gradients = (torch.autograd.grad((y * weight).sum(), x)[0] for y in (actual, expected))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(("columns", "is_view"), [((0, 1, 2, 3, 4), True), ((2, 3), True), ((3, 0), False)])
def test_those_that_follow_each_other_are_a_view(columns, is_view):
    x = torch.randn(3, 7, 5)
    assert (take_columns(x, columns).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) is is_view
