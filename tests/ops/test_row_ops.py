"""Rows taken out of heads and put back, wherever heads and steps lie in memory."""

from itertools import product

import pytest
import torch

from forecast.ops.row_ops import put_rows, put_rows_beside, take_rows

B, H, L, E, U = 2, 3, 11, 5, 4
LAYOUTS = {
    "step by step": lambda x: x,
    "heads of a step side by side": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "a third of a wider row, as after a fused projection": lambda x: in_thirds(x)[..., E : 2 * E],
    "part of a row that is wider by two": lambda x: torch.cat([x, x[..., :2]], dim=-1)[..., :E],
    "every second step": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
    "expanded over heads": lambda x: x[:, :1].expand(-1, H, -1, -1),
    "element by element": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "the end of a larger memory": lambda x: torch.cat([torch.full_like(x, 7.0), x])[B:],
}


def in_thirds(x):
    side_by_side = x.transpose(1, 2)  # (B, L, H, E)
    filled = torch.cat([torch.full_like(side_by_side, 8.0), side_by_side, torch.full_like(side_by_side, 9.0)], dim=-1)
    return filled.transpose(1, 2)


def inputs():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(B, H, L, E, generator=generator, dtype=torch.float64)
    rows = torch.rand(B, H, L, generator=generator).topk(U).indices
    return x, rows, torch.randn(B, H, U, E, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_rows_taken_are_those_named_and_the_rows_put_stand_there(layout):
    x, rows, values = inputs()
    x = LAYOUTS[layout](x)
    expected, taken = x.clone(), take_rows(x, rows)
    assert taken.shape == (B, H, U, E)
    for b, h in product(range(B), range(H)):
        assert torch.equal(taken[b, h], x[b, h][rows[b, h]])
        expected[b, h][rows[b, h]] = values[b, h]
    # rows that share memory cannot be written into one by one
    own_memory = x.clone() if 0 in x.stride() else x
    assert torch.equal(put_rows(own_memory, rows, values), expected)


def test_rows_put_beside_another_leave_that_in_all_the_rest():
    x, rows, values = inputs()
    rest = x[:, :, :1]
    expected = put_rows(rest.expand(-1, -1, L, -1).clone(), rows, values)
    assert torch.equal(put_rows_beside(rest, rows, values, length=L), expected)
    assert torch.autograd.gradcheck(
        lambda rest, v: put_rows_beside(rest, rows, v, length=L), (rest.requires_grad_(), values.requires_grad_())
    )


def test_the_gradient_of_rows_put_beside_another_may_lie_anyhow():
    x, rows, values = inputs()
    rest = x[:, :, :1].requires_grad_()
    out = put_rows_beside(rest, rows, values.requires_grad_(), length=L)
    of_sum = torch.autograd.grad(out.sum(), (rest, values), retain_graph=True)  # one number, expanded
    assert (of_sum[0] == L - U).all() and (of_sum[1] == 1).all()
    turned = torch.randn(B, H, E, L, dtype=torch.float64).transpose(2, 3)
    grads = (torch.autograd.grad(out, (rest, values), g, retain_graph=True) for g in (turned, turned.clone()))
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "expanded over heads"])
def test_gradients_agree_with_finite_differences(layout):
    x, rows, values = inputs()
    assert torch.autograd.gradcheck(lambda x: take_rows(LAYOUTS[layout](x), rows), x.requires_grad_())
    assert torch.autograd.gradcheck(
        lambda x, v: put_rows(LAYOUTS[layout](x).clone(), rows, v), (x, values.requires_grad_())
    )
    assert LAYOUTS[layout](x).shape == (B, H, L, E)


def test_who_goes_on_with_the_tensor_itself_has_the_gradient_of_what_stands_in_it_now():
    x, rows, values = inputs()
    start = x.requires_grad_()
    itself = start * 1.0
    put_rows(itself, rows, values)
    (gradient,) = torch.autograd.grad(itself.sum(), start)
    assert gradient.sum() == B * H * (L - U) * E


def test_values_of_another_dtype_are_cast():
    x, rows, values = inputs()
    assert put_rows(x.bfloat16(), rows, values.float()).dtype == torch.bfloat16


def test_one_row_of_one_head_of_one_step():
    x, rows, values = torch.randn(1, 1, 1, E), torch.zeros(1, 1, 1, dtype=torch.long), torch.randn(1, 1, 1, E)
    assert torch.equal(take_rows(x, rows), x)
    assert torch.equal(put_rows(x, rows, values), values)
