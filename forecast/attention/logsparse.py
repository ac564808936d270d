"""LogSparse attention."""

import math
from collections.abc import Iterator
from typing import Annotated

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from forecast.attention.base import exporting
from forecast.attention.pattern import PatternAttention, check_fits, log2_ceil
from forecast.bounds import Positive, Share, at_least
from forecast.ops.context import Context

# Numbers of one operand that all shifts go through before the next.
PIECE = 2**19


class LogSparseAttention(PatternAttention):
    """Full attention over a local window, and over steps at distances that double beyond it.

    Li et al. 2019, "Enhancing the Locality and Breaking the Memory Bottleneck of Transformer on Time Series
    Forecasting", local and restart attention. A step sees those at distance 0 .. W - 1 and, while no farther than
    sub_len, at W - 1 + 2^n for n < log2(sub_len); the same again from each step sub_len, 2 sub_len, .. before it. The
    first 2 W floor(L / sub_len) steps see their whole past. Not causal: two steps see each other where the later one
    sees the earlier when causal. The paper's convolutions for queries and keys are the projection's.

    Differs from flow-forecast (304cf30e): a restart whose window passes step 0 includes the step it restarts from; the
    mask is never multiplied into scores.

    sub_len: how far it looks before it restarts, None for the whole length; L log L pairs then. With a fixed sub_len
    the steps seen are a fixed share of the past, so time and memory grow as L^2 again.
    window: W, None for ceil(log2(sub_len)); 1 and no sub_len are the paper's plain pattern {i} and {i - 2^n}.
    dropout: share of the attention weights that is dropped in training.
    """

    title = "LogSparse attention"

    def __init__(
        self,
        *,
        causal: bool,
        layer: int,
        sub_len: Annotated[int, at_least(2)] | None = None,
        window: Positive | None = None,
        dropout: Share = 0.0,
    ) -> None:
        super().__init__(causal=causal, layer=layer, dropout=dropout)
        if sub_len is not None and window is not None and window > sub_len:
            raise ValueError(f"{self.title} got window={window} and sub_len={sub_len}; window must be at most sub_len")
        self.sub_len = sub_len
        self.window = window

    def check_length(self, length: int) -> None:
        """Raises ValueError where sub_len or window is larger than `length`."""
        check_fits(self.title, length, sub_len=self.sub_len, window=self.window)

    def offsets(self, length: int) -> list[int]:
        """The distances, ascending, at which the causal form of `length` steps sees the past."""
        sub_len = self.sub_len or length
        window = self._window(length)
        powers = (window - 1 + 2**n for n in range(log2_ceil(sub_len)))
        once = {*range(window), *(far for far in powers if far <= sub_len)}
        restarts = range(0, length, sub_len)
        return sorted({restart + far for restart in restarts for far in once if restart + far < length})

    def prefix(self, length: int) -> int:
        """How many of the first of `length` steps see their whole past."""
        return min(length, length // (self.sub_len or length) * 2 * self._window(length))

    def _window(self, length: int) -> int:
        # one step has no logarithm to look back by, but sees itself
        return self.window or max(1, log2_ceil(self.sub_len or length))

    def _both_ways(self, steps: Tensor, keys: Tensor, length: int) -> Tensor:
        offset = torch.zeros(length, dtype=torch.bool, device=steps.device)
        offset[self.offsets(length)] = True
        return offset[(steps - keys).abs()] | (torch.maximum(steps, keys) < self.prefix(length))

    def _sparse(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """One column of scores per offset from shifted views, and the first rows under a mask of their own."""
        length, prefix = q.shape[2], self.prefix(q.shape[2])
        keys = prefix if self.causal else length
        positions = torch.arange(length, device=q.device)
        seen = self._seen(positions[:prefix].unsqueeze(1), positions[:keys], length, causal=self.causal)
        first = self._masked(q[:, :, :prefix], k[:, :, :keys], v[:, :, :keys], seen)
        if prefix == length:
            return first
        # beyond the prefix all rows see the same distances: a column of scores is q times a shifted k, step by step
        shifts = self.offsets(length)
        if not self.causal:
            # 0 once only: else a step would see itself twice
            shifts = [-shift for shift in shifts[:0:-1]] + shifts
        # float32: sums grow shift by shift, and half precision would round each of them
        q = q.to(torch.promote_types(q.dtype, torch.float32)) / math.sqrt(q.shape[-1])
        # all rows have shift 0, so no row of the softmax is empty
        weights = self._weigh(ShiftedScores.apply(q, k, shifts), q)  # type: ignore[no-untyped-call]
        rest = ShiftedSum.apply(weights, v, shifts)[:, :, prefix:].to(v.dtype)  # type: ignore[no-untyped-call]
        return torch.cat((first, rest), 2)


class ShiftedScores(torch.autograd.Function):
    """Scores of each step i with key i - shift: q, k (B, H, L, E) -> (B, H, L, S), `nothing` where there is none.

    A function of its own, because what autograd would store for each shift takes E times the memory of the scores.
    """

    @staticmethod
    def forward(ctx: Context[list[int]], q: Tensor, k: Tensor, shifts: list[int]) -> Tensor:
        """In the dtype of q."""
        ctx.save_for_backward(q, k)
        ctx.kept = shifts
        return products(q, k, shifts, nothing=-math.inf)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[list[int]], grad: Tensor) -> tuple[Tensor, Tensor, None]:
        """The gradients of q and k."""
        q, k = ctx.saved_tensors
        return gathered(grad, k, ctx.kept), scattered(grad, q, ctx.kept).to(k.dtype), None


class ShiftedSum(torch.autograd.Function):
    """Sum over shifts of weight times value i - shift: weights (B, H, L, S), v (B, H, L, V) -> (B, H, L, V)."""

    @staticmethod
    def forward(ctx: Context[list[int]], weights: Tensor, v: Tensor, shifts: list[int]) -> Tensor:
        """In the dtype of weights."""
        ctx.save_for_backward(weights, v)
        ctx.kept = shifts
        return gathered(weights, v, shifts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context[list[int]], grad: Tensor) -> tuple[Tensor, Tensor, None]:
        """The gradients of weights and v."""
        weights, v = ctx.saved_tensors
        # a weight without a value behind it changes nothing: no gradient
        return products(grad, v, ctx.kept, nothing=0.0), scattered(weights, grad, ctx.kept).to(v.dtype), None


def products(x: Tensor, y: Tensor, shifts: list[int], *, nothing: float) -> Tensor:
    """Inner product of x_i and y_(i - shift) per shift: (B, H, L, E), (B, H, L, E) -> (B, H, L, S)."""
    # shifts first in memory: a column is then written as one run, and moved last as a view
    columns = x.new_full((len(shifts), *x.shape[:3]), nothing)
    for b, h in pieces(x):
        for column, shift in zip(columns[:, b, h], shifts, strict=True):
            first, last = overlap(x.shape[2], shift)
            elementwise = x[b, h, first:last] * y[b, h, first - shift : last - shift]
            if torch.compiler.is_compiling():  # out= would break its graph
                column[:, :, first:last] = elementwise.sum(-1)
            else:
                torch.sum(elementwise, -1, out=column[:, :, first:last])
    return columns.movedim(0, -1)


def gathered(weights: Tensor, x: Tensor, shifts: list[int]) -> Tensor:
    """At i the sum over shifts of weight_i times x_(i - shift): (B, H, L, S), (B, H, L, E) -> (B, H, L, E)."""
    total = torch.zeros_like(x, dtype=weights.dtype)
    for b, h in pieces(x):
        for weight, shift in zip(weights[b, h].unbind(-1), shifts, strict=True):
            first, last = overlap(x.shape[2], shift)
            # no product is stored: it would be as large as x for each shift
            total[b, h, first:last].addcmul_(weight[:, :, first:last, None], x[b, h, first - shift : last - shift])
    return total


def scattered(weights: Tensor, x: Tensor, shifts: list[int]) -> Tensor:
    """At i - shift the sum over shifts of weight_i times x_i: (B, H, L, S), (B, H, L, E) -> (B, H, L, E)."""
    total = torch.zeros_like(x, dtype=weights.dtype)
    for b, h in pieces(x):
        for weight, shift in zip(weights[b, h].unbind(-1), shifts, strict=True):
            first, last = overlap(x.shape[2], shift)
            total[b, h, first - shift : last - shift].addcmul_(weight[:, :, first:last, None], x[b, h, first:last])
    return total


def pieces(x: Tensor) -> Iterator[tuple[slice, slice]]:
    """Batch items and heads of x (B, H, L, E) to work on together: all of them while they are few numbers.

    Every shift goes through all steps; what does not fit in the processor's cache is fetched anew for each.
    """
    if exporting():
        yield slice(None), slice(None)
        return
    batch, heads, length, width = x.shape
    together = max(1, PIECE // (length * width))
    for b in range(0, batch, max(1, together // heads)):
        for h in range(0, heads, min(heads, together)):
            yield slice(b, b + max(1, together // heads)), slice(h, h + min(heads, together))


def overlap(length: int, shift: int) -> tuple[int, int]:
    """The steps first <= i < last for which i - shift lies in the sequence too."""
    return max(shift, 0), length + min(shift, 0)
