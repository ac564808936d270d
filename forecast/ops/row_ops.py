"""Some rows of each head, taken out and put back."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable


def take_rows(x: Float[Tensor, "B H L E"], rows: Int[Tensor, "B H U"]) -> Float[Tensor, "B H U E"]:
    """Of each head the rows with these numbers: x (B, H, L, E), rows (B, H, U) -> (B, H, U, E).

    A head names a row once; of the gradients of a row named twice one is lost.
    """
    if in_one_piece(x):
        taken: Tensor = TakeRows.apply(x, rows)  # type: ignore[no-untyped-call]
        return taken
    return gathered(x, rows)


def put_rows(
    x: Float[Tensor, "B H L E"], rows: Int[Tensor, "B H U"], values: Float[Tensor, "B H U E"]
) -> Float[Tensor, "B H L E"]:
    """Writes `values` (B, H, U, E) into the rows (B, H, U) of x (B, H, L, E) itself, and returns it.

    A head names a row once. Nobody may need x as it was, for a backward pass neither.
    """
    values = values.to(x.dtype)
    if in_one_piece(x):
        done: Tensor = PutRows.apply(x, rows, values)  # type: ignore[no-untyped-call]
        return done
    return x.scatter(2, rows.unsqueeze(-1).expand(-1, -1, -1, x.shape[-1]), values)


def put_rows_beside(
    rest: Float[Tensor, "B H 1 E"], rows: Int[Tensor, "B H U"], values: Float[Tensor, "B H U E"], *, length: int
) -> Float[Tensor, "B H L E"]:
    """A new tensor (B, H, length, E): `values` (B, H, U, E) in the rows (B, H, U), `rest` in all others."""
    values = values.to(rest.dtype)
    if rest.device.type == "cpu" and not torch.compiler.is_compiling():
        done: Tensor = PutRowsBeside.apply(rest, rows, values, length)  # type: ignore[no-untyped-call]
        return done
    every = rest.expand(-1, -1, length, -1)
    return every.scatter(2, rows.unsqueeze(-1).expand(-1, -1, -1, rest.shape[-1]), values)


def in_one_piece(x: Tensor) -> bool:
    """Whether x lies on a CPU so that its rows are rows of one matrix, wherever heads and steps stand in it.

    There a row is copied at once; torch's gather and scatter go from element to element.
    """
    *outer, last = x.stride()
    width = x.shape[-1]
    return (
        x.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and last == 1
        and all(step > 0 and step % width == 0 for step in outer)
    )


def as_matrix(x: Tensor) -> Tensor:
    """All of x's memory from its first element to its last as rows (N, E); x is `in_one_piece`."""
    width = x.shape[-1]
    last = sum((size - 1) * step for size, step in zip(x.shape[:-1], x.stride()[:-1], strict=True))
    return x.as_strided((last // width + 1, width), (width, 1))


def numbers_in_matrix(x: Tensor, rows: Tensor) -> Tensor:
    """Which rows of `as_matrix` the rows (B, H, U) of x's heads are: (B H U,)."""
    item, head, step = (each // x.shape[-1] for each in x.stride()[:-1])
    items = torch.arange(x.shape[0]).view(-1, 1, 1) * item
    heads = torch.arange(x.shape[1]).view(-1, 1) * head
    return (items + heads + rows * step).flatten()


def taken(x: Tensor, rows: Tensor) -> Tensor:
    """`take_rows` without its gradient."""
    return as_matrix(x).index_select(0, numbers_in_matrix(x, rows)).view(*rows.shape, x.shape[-1])


def put(x: Tensor, rows: Tensor, values: Tensor | None) -> Tensor:
    """Writes values (B, H, U, E), or zeros, into the rows of x itself."""
    matrix, numbers = as_matrix(x), numbers_in_matrix(x, rows)
    if values is None:
        matrix.index_fill_(0, numbers, 0.0)
    else:
        matrix.index_copy_(0, numbers, values.reshape(-1, x.shape[-1]))
    return x


class TakeRows(torch.autograd.Function):
    """`take_rows`, of which only the row numbers are kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:
        """(B, H, L, E), (B, H, U) -> (B, H, U, E)."""
        ctx.save_for_backward(rows)
        ctx.length = x.shape[2]
        return taken(x, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """What was not taken has no gradient."""
        (rows,) = ctx.saved_tensors
        return put(empty(grad, ctx.length).zero_(), rows, grad), None


class PutRows(torch.autograd.Function):
    """`put_rows`, of which only the row numbers are kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, values: Tensor) -> Tensor:
        """(B, H, L, E), (B, H, U), (B, H, U, E) -> (B, H, L, E)."""
        ctx.save_for_backward(rows)
        ctx.mark_dirty(x)
        return put(x, rows, values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor]:
        """A row's gradient goes to what stands there."""
        (rows,) = ctx.saved_tensors
        kept = empty(grad, grad.shape[2]).copy_(grad)
        values = taken(kept, rows)
        return put(kept, rows, None), None, values


class PutRowsBeside(torch.autograd.Function):
    """`put_rows_beside`, of which only the row numbers are kept."""

    @staticmethod
    def forward(ctx: Any, rest: Tensor, rows: Tensor, values: Tensor, length: int) -> Tensor:
        """(B, H, 1, E), (B, H, U), (B, H, U, E) -> (B, H, length, E)."""
        ctx.save_for_backward(rows)
        return put(empty(rest, length).copy_(rest), rows, values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor, None]:
        """The rest gets what all rows but the named ones have."""
        (rows,) = ctx.saved_tensors
        values = taken(grad, rows) if in_one_piece(grad) else gathered(grad, rows)
        exact = torch.promote_types(grad.dtype, torch.float32)
        rest = grad.sum(2, keepdim=True, dtype=exact) - values.sum(2, keepdim=True, dtype=exact)
        return rest.to(grad.dtype), None, values, None


def gathered(x: Tensor, rows: Tensor) -> Tensor:
    """`take_rows` of what is not in one piece."""
    return x.gather(2, rows.unsqueeze(-1).expand(-1, -1, -1, x.shape[-1]))


def empty(like: Tensor, length: int) -> Tensor:
    """(B, H, length, E) as `like` (B, H, any, E), the heads of a step side by side, as projections want them."""
    batch, heads, _, width = like.shape
    return like.new_empty(batch, length, heads, width).transpose(1, 2)
