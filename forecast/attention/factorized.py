"""What strided and fixed attention share: a local part, a distant part, and a form in blocks."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from forecast.attention.base import exporting
from forecast.attention.pattern import PatternAttention

# scores computed at once: small enough to stay in fast memory
CHUNK_SCORES = 2**21
MOST_CHUNKS = 16

Heads = Literal["merged", "per_head"]


class FactorizedAttention(PatternAttention):
    """A pattern of a local and a distant part, each of about sqrt(L) keys a step.

    heads: "merged", every head sees both parts; "per_head", the first half of the heads sees the local part, the second
    half the distant one.

    Above DENSE_STEPS steps the sequence is cut into blocks of `block_size` steps. A block of queries is scored with its
    own and the neighbouring blocks, `neighbours` of them, and each query with the columns of its distant part; what
    the pattern does not see is masked, and a column in a neighbouring block is masked among the columns, so that no
    key counts twice. Softmax is over both at once.
    """

    def __init__(self, *, causal: bool, layer: int, heads: Heads, dropout: float) -> None:
        super().__init__(causal=causal, layer=layer, dropout=dropout)
        self.heads = heads

    @property
    def neighbours(self) -> range:
        """Which blocks are scored whole, counted from the query's own."""
        raise NotImplementedError

    def block_size(self, length: int) -> int:
        """Steps per block in a sequence of `length` steps."""
        raise NotImplementedError

    def _parts(self, steps: Tensor, keys: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Whether a step sees a key in the local part, and in the distant part."""
        raise NotImplementedError

    def _columns(self, n_blocks: int, length: int) -> Tensor:
        """The keys that a query is scored with beyond its blocks, as positions: (1, 1 or l, F). F is about L / l."""
        raise NotImplementedError

    def _column_scores(self, q: Tensor, k: Tensor, length: int) -> Tensor:
        """Scores of queries and `_columns`: q, k (B, H, N, l, E) -> (B, H, N, l, F)."""
        raise NotImplementedError

    def _column_values(self, weights: Tensor, v: Tensor, length: int) -> Tensor:
        """Weights of `_columns` times values: weights (B, H, N, l, F), v (B, H, N, l, V) -> (B, H, N, l, V)."""
        raise NotImplementedError

    def _both_ways(self, steps: Tensor, keys: Tensor, length: int) -> Tensor:
        local, distant = self._parts(steps, keys, length)
        return local | distant if self.heads == "merged" else torch.stack((local, distant))

    def _half(self, n_heads: int) -> int:
        if n_heads % 2:
            raise ValueError(
                f"{self.title} with heads=per_head got {n_heads} heads; it needs an even number, half of them for each "
                "part: change n_heads or set heads=merged"
            )
        return n_heads // 2

    def _masked(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor) -> Tensor:
        if self.heads == "per_head":
            allowed = allowed.repeat_interleave(self._half(q.shape[1]), dim=0)  # (H, Q, K)
        return super()._masked(q, k, v, allowed)

    def _sparse(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        length, size = q.shape[2], self.block_size(q.shape[2])
        half = self._half(q.shape[1]) if self.heads == "per_head" else 0
        # per_head: the first axis of `near` and `far` is the part, local or distant
        near, far = self._cached(length, q.device, lambda: self._hidden(length, q.device))
        # in blocks (B, H, N, l, E), zeros after the last step
        q, k, v = (torch.unflatten(F.pad(x, (0, 0, 0, -length % size)), 2, (-1, size)) for x in (q, k, v))
        if self.heads == "merged":
            context = self._in_blocks(q, k, v, near=near, far=far, length=length)
        else:
            # the local half of the heads sees nothing beyond its blocks: no columns are scored for it
            local = self._in_blocks(q[:, :half], k[:, :half], v[:, :half], near=near[0], far=None, length=length)
            distant = self._in_blocks(q[:, half:], k[:, half:], v[:, half:], near=near[1], far=far[1], length=length)
            context = torch.cat((local, distant), 1)
        return context.flatten(2, 3)[:, :, :length]

    def _in_blocks(self, q: Tensor, k: Tensor, v: Tensor, *, near: Tensor, far: Tensor | None, length: int) -> Tensor:
        """Q, k, v (B, H, N, l, ..), near (N, l, M) and far (N, l, F) True = hidden -> (B, H, N, l, V).

        A few heads and a run of blocks at a time, so that their scores never leave fast memory: the arithmetic is
        little, and what is slow is to fetch scores that were written out.
        """
        n_scores = q[:, 0, ..., 0].numel() * (near.shape[-1] + (0 if far is None else far.shape[-1]))  # of a head
        heads, n_chunks = 1, 1
        if not exporting():
            heads = max(1, CHUNK_SCORES // n_scores)
            # a bounded number of chunks: each adds a gradient for all columns
            n_chunks = min(MOST_CHUNKS, math.ceil(n_scores * min(heads, q.shape[1]) / CHUNK_SCORES))
        size = math.ceil(q.shape[2] / n_chunks)
        context = []
        for q_part, k_part, v_part in zip(*(torch.split(x, heads, 1) for x in (q, k, v)), strict=True):
            keys, values = with_neighbours(k_part, self.neighbours), with_neighbours(v_part, self.neighbours)
            rows = []
            for first in range(0, q.shape[2], size):
                chunk = slice(first, first + size)
                hidden = near[chunk], None if far is None else far[chunk]
                around = keys[:, :, chunk], values[:, :, chunk]
                # scores are computed again for the backward pass: kept, they would not fit into fast memory
                rows.append(
                    checkpoint(
                        self._chunk, q_part[:, :, chunk], (k_part, v_part), around, hidden, length, use_reentrant=False
                    )
                )
            context.append(torch.cat(rows, 2))
        return torch.cat(context, 1)

    def _chunk(
        self,
        q: Tensor,
        whole: tuple[Tensor, Tensor],
        around: tuple[Tensor, Tensor],
        hidden: tuple[Tensor, Tensor | None],
        length: int,
    ) -> Tensor:
        """Some blocks of queries (B, H, n, l, E) -> (B, H, n, l, V).

        whole: keys and values of all blocks, for the columns. around: those of the blocks around each block of queries
        (B, H, n, M, ..). hidden: `near` and `far` of `_in_blocks`, for these blocks.
        """
        (k, v), (keys, values), (near, far) = whole, around, hidden
        q = q / math.sqrt(q.shape[-1])
        scores = (q @ keys.transpose(-2, -1)).masked_fill_(near, -math.inf)
        if far is None:
            return self._weigh(scores, v) @ values
        columns = self._column_scores(q, k, length).masked_fill_(far, -math.inf)
        weights = self._weigh(torch.cat((scores, columns), -1), v)  # (B, H, n, l, M + F)
        # one softmax over both, as the pattern is one set of keys; only the products are apart
        local, distant = torch.split(weights, [scores.shape[-1], columns.shape[-1]], -1)
        return local @ values + self._column_values(distant, v, length)

    def _hidden(self, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """What the pattern hides among the neighbouring blocks (*halves, N, l, M), and among the columns (.., F)."""
        size = self.block_size(length)
        n_blocks = math.ceil(length / size)
        steps = torch.arange(n_blocks * size, device=device).view(n_blocks, size, 1)
        around = torch.arange(self.neighbours.start * size, self.neighbours.stop * size, device=device)
        near = steps[:, :1] + around  # (N, 1, M)
        far = self._columns(n_blocks, length).to(device)
        # a step of the padding sees earlier ones, as there is a whole block before it: no row is empty
        near_seen = (near >= 0) & (near < length)
        # a column within the neighbouring blocks is scored there already
        blocks_away = far // size - steps // size
        far_seen = (far < length) & ((blocks_away < self.neighbours.start) | (blocks_away >= self.neighbours.stop))
        return (
            ~(near_seen & self._seen(steps, near, length, causal=self.causal)),
            ~(far_seen & self._seen(steps, far, length, causal=self.causal)),
        )


def with_neighbours(x: Tensor, neighbours: range) -> Tensor:
    """Each block between the ones around it, zeros beyond the ends: (B, H, N, l, E) -> (B, H, N, M, E)."""
    before, after = -neighbours.start, neighbours.stop - 1
    padded = F.pad(x, (0, 0, 0, 0, before, after))
    return torch.cat([padded[:, :, shift : shift + x.shape[2]] for shift in range(len(neighbours))], 3)
