"""Fixed attention."""

import torch
from torch import Tensor

from forecast.attention.factorized import FactorizedAttention, Heads
from forecast.attention.pattern import check_fits, sqrt_ceil
from forecast.bounds import Positive, Share

# by default; a share of the block without a bound would make the pairs grow as L^2
MOST_SUMMARIES = 4


class FixedAttention(FactorizedAttention):
    """Full attention inside a block of l steps, and over the last c steps of every block.

    Child et al. 2019, "Generating Long Sequences with Sparse Transformers", fixed attention. Local: the query's own
    block. Distant: the last c steps of each block, which sum it up for all others. Not causal: the whole own block and
    the summaries of all blocks. c L sqrt(L) pairs.

    Differs: the distant part includes the query's own step, or the rows before the first summary would be empty.

    block: l, None for ceil(sqrt(L)). summary: c, None for an eighth of the block, from 1 to MOST_SUMMARIES.
    heads: merged, each sees both parts; per_head, half of them see each. dropout: share of the attention weights that
    is dropped in training.
    """

    title = "fixed attention"

    def __init__(
        self,
        *,
        causal: bool,
        layer: int,
        block: Positive | None = None,
        summary: Positive | None = None,
        heads: Heads = "merged",
        dropout: Share = 0.0,
    ) -> None:
        super().__init__(causal=causal, layer=layer, heads=heads, dropout=dropout)
        self.block = block
        self.summary = summary
        if block is not None:
            self._check_summary(block)

    @property
    def neighbours(self) -> range:
        """The own block alone."""
        return range(1)

    def check_length(self, length: int) -> None:
        """Raises ValueError where block is larger than `length`, or summary than the block."""
        check_fits(self.title, length, block=self.block, summary=self.summary)
        self._check_summary(self.block_size(length))

    def block_size(self, length: int) -> int:
        """Steps per block."""
        return self.block or sqrt_ceil(length)

    def _check_summary(self, size: int) -> None:
        if self.summary is not None and self.summary > size:
            raise ValueError(
                f"{self.title} got summary={self.summary} in blocks of {size} steps; "
                f"summary must be at most the block size {size} here, or null to follow it"
            )

    def _summary(self, length: int) -> int:
        return self.summary or max(1, min(self.block_size(length) // 8, MOST_SUMMARIES))

    def _parts(self, steps: Tensor, keys: Tensor, length: int) -> tuple[Tensor, Tensor]:
        size = self.block_size(length)
        same = steps // size == keys // size
        summary = keys % size >= size - self._summary(length)
        return same, summary | (keys == steps)

    def _columns(self, n_blocks: int, length: int) -> Tensor:
        size = self.block_size(length)
        blocks = torch.arange(n_blocks * size).view(n_blocks, size)
        return self._summaries(blocks, length).reshape(1, 1, -1)

    def _column_scores(self, q: Tensor, k: Tensor, length: int) -> Tensor:
        # all queries see the same columns: one product of the whole sequence with N c keys
        columns = self._summaries(k.transpose(3, 4), length).transpose(3, 4).flatten(2, 3)  # (B, H, N c, E)
        return torch.unflatten(q.flatten(2, 3) @ columns.transpose(-2, -1), 2, q.shape[2:4])

    def _column_values(self, weights: Tensor, v: Tensor, length: int) -> Tensor:
        # `_summaries` cuts the last axis, so the steps go there and back
        columns = self._summaries(v.transpose(3, 4), length).transpose(3, 4).flatten(2, 3)
        return torch.unflatten(weights.flatten(2, 3) @ columns, 2, weights.shape[2:4])

    def _summaries(self, blocks: Tensor, length: int) -> Tensor:
        """The summary steps of blocks of steps (.., l) -> (.., c)."""
        return blocks[..., -self._summary(length) :]
