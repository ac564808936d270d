"""Some rows of each head, taken out and put back."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable


def take_rows(x: Float[Tensor, "B H L E"], rows: Int[Tensor, "B H U"]) -> Float[Tensor, "B H U E"]:
    """Of each head the rows with these numbers: x (B, H, L, E), rows (B, H, U) -> (B, H, U, E)."""
    items, heads, _ = places(rows)
    # as (B, L, H, E): the gradient then lies as the projections left x, the heads of a step side by side
    return x.transpose(1, 2)[items, rows, heads]


def put_rows(
    x: Float[Tensor, "B H L E"], rows: Int[Tensor, "B H U"], values: Float[Tensor, "B H U E"]
) -> Float[Tensor, "B H L E"]:
    """Writes `values` (B, H, U, E) into the rows (B, H, U) of x (B, H, L, E) itself, and returns it.

    A head names a row once, and no two rows of x share memory. x as it was must not be needed any more, not by a
    backward pass either.
    """
    # index_put_ converts nothing, and under autocast values can come in another dtype
    return x.index_put_(places(rows), values.to(x.dtype))


def put_rows_beside(
    rest: Float[Tensor, "B H 1 E"], rows: Int[Tensor, "B H U"], values: Float[Tensor, "B H U E"], *, length: int
) -> Float[Tensor, "B H L E"]:
    """A new tensor (B, H, length, E): `values` (B, H, U, E) in the rows (B, H, U), `rest` in all others.

    A head names a row once.
    """
    return PutRowsBeside.apply(rest, rows, values.to(rest.dtype), length)  # type: ignore[no-untyped-call]


def places(rows: Int[Tensor, "B H U"]) -> tuple[Tensor, Tensor, Tensor]:
    """What indexes the rows (B, H, U) of (B, H, L, E): items (B, 1, 1), heads (H, 1) and the rows."""
    batch, heads, _ = rows.shape
    return (
        torch.arange(batch, device=rows.device).view(-1, 1, 1),
        torch.arange(heads, device=rows.device).view(-1, 1),
        rows,
    )


class PutRowsBeside(torch.autograd.Function):
    """`put_rows_beside`; of its own, because autograd would copy the gradient to take the named rows out of it."""

    @staticmethod
    def forward(ctx: FunctionCtx, rest: Tensor, rows: Tensor, values: Tensor, length: int) -> Tensor:
        """(B, H, 1, E), (B, H, U), (B, H, U, E) -> (B, H, length, E)."""
        ctx.save_for_backward(rows)
        # in memory the heads of a step side by side: merging them copies nothing
        whole = rest.transpose(1, 2).expand(-1, length, -1, -1).contiguous().transpose(1, 2)
        return put_rows(whole, rows, values)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None, Tensor, None]:
        """The gradient of `rest` is the sum over all rows but the named ones."""
        (rows,) = ctx.saved_tensors  # type: ignore[attr-defined]
        values = take_rows(grad, rows)
        # all less the named ones, not the sum of the others: no (B, H, L, E) mask is needed. In float32 at least,
        # because two large sums are subtracted
        exact = torch.promote_types(grad.dtype, torch.float32)
        rest = grad.sum(2, keepdim=True, dtype=exact) - values.sum(2, keepdim=True, dtype=exact)
        return rest.to(grad.dtype), None, values, None
