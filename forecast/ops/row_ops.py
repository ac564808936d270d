"""Some rows of each head, taken out and put back.

Heads lie in memory as the projections leave them: as runs of columns of a wider row. torch's gather and scatter go from
element to element there. Where all rows of x are rows of one matrix (N, E) over x's memory, a row is one copy, and one
number names it.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable


def take_rows(x: Float[Tensor, "B H L E"], rows: Int[Tensor, "B H U"]) -> Float[Tensor, "B H U E"]:
    """Of each head the rows with these numbers: x (B, H, L, E), rows (B, H, U) -> (B, H, U, E).

    The rows of a head must be distinct: a row named twice would lose one of its gradients.
    """
    if rows_form_a_matrix(x):
        taken: Tensor = TakeRows.apply(x, rows)  # type: ignore[no-untyped-call]
        return taken
    return gather_rows(x, rows)


def put_rows(
    x: Float[Tensor, "B H L E"], rows: Int[Tensor, "B H U"], values: Float[Tensor, "B H U E"]
) -> Float[Tensor, "B H L E"]:
    """Writes `values` (B, H, U, E) into the rows (B, H, U) of x (B, H, L, E) itself, and returns it.

    A head names a row once. x as it was must not be needed any more, not by a backward pass either.
    """
    values = values.to(x.dtype)
    if rows_form_a_matrix(x):
        result: Tensor = PutRows.apply(x, rows, values)  # type: ignore[no-untyped-call]
        return result
    return x.scatter(2, rows.unsqueeze(-1).expand(-1, -1, -1, x.shape[-1]), values)


def put_rows_beside(
    rest: Float[Tensor, "B H 1 E"], rows: Int[Tensor, "B H U"], values: Float[Tensor, "B H U E"], *, length: int
) -> Float[Tensor, "B H L E"]:
    """A new tensor (B, H, length, E): `values` (B, H, U, E) in the rows (B, H, U), `rest` in all others."""
    values = values.to(rest.dtype)
    if rest.device.type == "cpu" and not torch.compiler.is_compiling():
        result: Tensor = PutRowsBeside.apply(rest, rows, values, length)  # type: ignore[no-untyped-call]
        return result
    whole = rest.expand(-1, -1, length, -1)
    return whole.scatter(2, rows.unsqueeze(-1).expand(-1, -1, -1, rest.shape[-1]), values)


def rows_form_a_matrix(x: Tensor) -> bool:
    """Whether x lies on a CPU so that its rows are rows of one matrix, wherever heads and steps stand in it.

    A compiler and a GPU have kernels of their own for gather and scatter, which these functions would hide from them.
    """
    *outer, last = x.stride()
    width = x.shape[-1]
    return (
        x.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and last == 1
        # a stride of 0 is an expanded axis: rows that share memory, into which nothing may be written
        and all(stride > 0 and stride % width == 0 for stride in outer)
    )


def matrix_and_numbers(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The memory of x, first element to last, as (N, E), and which of these N the rows (B, H, U) are: (B H U,).

    For x whose `rows_form_a_matrix`. What belongs to other tensors may stand between the rows; no number names it.
    """
    width = x.shape[-1]
    per_item, per_head, per_step = (stride // width for stride in x.stride()[:-1])
    last = sum((size - 1) * stride for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True))
    items = torch.arange(x.shape[0]).view(-1, 1, 1) * per_item
    heads = torch.arange(x.shape[1]).view(-1, 1) * per_head
    return x.as_strided((last // width + 1, width), (width, 1)), (items + heads + rows * per_step).flatten()


def copy_rows(x: Tensor, rows: Tensor) -> Tensor:
    """`take_rows` without its gradient."""
    matrix, numbers = matrix_and_numbers(x, rows)
    return matrix.index_select(0, numbers).view(*rows.shape, x.shape[-1])


def write_rows(x: Tensor, rows: Tensor, values: Tensor | None) -> Tensor:
    """Writes values (B, H, U, E), or zeros, into the rows of x itself."""
    matrix, numbers = matrix_and_numbers(x, rows)
    if values is None:
        matrix.index_fill_(0, numbers, 0.0)
    else:
        matrix.index_copy_(0, numbers, values.reshape(-1, x.shape[-1]))
    return x


# Functions of their own, which keep the row numbers alone: autograd could follow the steps only through `as_strided`,
# whose gradient is made over all of the memory that it looks at.


class TakeRows(torch.autograd.Function):
    """`take_rows` by `copy_rows`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:
        """(B, H, L, E), (B, H, U) -> (B, H, U, E)."""
        ctx.save_for_backward(rows)
        ctx.length = x.shape[2]
        return copy_rows(x, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Rows that were not taken have no gradient."""
        (rows,) = ctx.saved_tensors
        return write_rows(empty_rows(grad, ctx.length).zero_(), rows, grad), None


class PutRows(torch.autograd.Function):
    """`put_rows` by `write_rows`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, values: Tensor) -> Tensor:
        """(B, H, L, E), (B, H, U), (B, H, U, E) -> (B, H, L, E)."""
        ctx.save_for_backward(rows)
        ctx.mark_dirty(x)  # so that autograd refuses a backward pass that needs x as it was
        return write_rows(x, rows, values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor]:
        """The gradient of a row belongs to what was written there, or else to x."""
        (rows,) = ctx.saved_tensors
        # a copy: autograd may still need grad elsewhere, and it may be expanded from one number
        rest = empty_rows(grad, grad.shape[2]).copy_(grad)
        values = copy_rows(rest, rows)
        return write_rows(rest, rows, None), None, values


class PutRowsBeside(torch.autograd.Function):
    """`put_rows_beside` by `write_rows`."""

    @staticmethod
    def forward(ctx: Any, rest: Tensor, rows: Tensor, values: Tensor, length: int) -> Tensor:
        """(B, H, 1, E), (B, H, U), (B, H, U, E) -> (B, H, length, E)."""
        ctx.save_for_backward(rows)
        return write_rows(empty_rows(rest, length).copy_(rest), rows, values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor, None]:
        """The gradient of `rest` is the sum over all rows but the named ones."""
        (rows,) = ctx.saved_tensors
        values = copy_rows(grad, rows) if rows_form_a_matrix(grad) else gather_rows(grad, rows)
        # all less the named ones, not the sum of the others: no (B, H, L, E) mask is needed. In float32 at least,
        # because two large sums are subtracted
        exact = torch.promote_types(grad.dtype, torch.float32)
        rest = grad.sum(2, keepdim=True, dtype=exact) - values.sum(2, keepdim=True, dtype=exact)
        return rest.to(grad.dtype), None, values, None


def gather_rows(x: Tensor, rows: Tensor) -> Tensor:
    """`take_rows` for any layout and device."""
    return x.gather(2, rows.unsqueeze(-1).expand(-1, -1, -1, x.shape[-1]))


def empty_rows(like: Tensor, length: int) -> Tensor:
    """(B, H, length, E) as `like` (B, H, any, E), the heads of a step side by side: merging them copies nothing."""
    batch, heads, _, width = like.shape
    return like.new_empty(batch, length, heads, width).transpose(1, 2)
