"""Strided attention."""

import torch
from torch import Tensor

from forecast.attention.factorized import FactorizedAttention, Heads
from forecast.attention.pattern import check_fits, sqrt_ceil
from forecast.bounds import Positive, Share


class StridedAttention(FactorizedAttention):
    """Full attention over a local window, and over every l-th step from the query's own.

    Child et al. 2019, "Generating Long Sequences with Sparse Transformers", strided attention. Local: distance below l,
    the query's own step included. Distant: distance a multiple of l. Two layers reach every step of the past.
    Not causal: the same distances both ways. L sqrt(L) pairs.

    Differs: the window is l steps wide as in the authors' code, not l + 1 as in the paper's formula.

    window: l, None for ceil(sqrt(L)). heads: merged, each sees both parts; per_head, half of them see each.
    dropout: share of the attention weights that is dropped in training.
    """

    title = "strided attention"

    def __init__(
        self, *, causal: bool, layer: int, window: Positive | None = None, heads: Heads = "merged", dropout: Share = 0.0
    ) -> None:
        super().__init__(causal=causal, layer=layer, heads=heads, dropout=dropout)
        self.window = window

    @property
    def neighbours(self) -> range:
        """The block before holds the rest of a window, and the block after it when not causal."""
        return range(-1, 1) if self.causal else range(-1, 2)

    def check_length(self, length: int) -> None:
        """Raises ValueError where window is larger than `length`."""
        check_fits(self.title, length, window=self.window)

    def block_size(self, length: int) -> int:
        """The window."""
        return self.window or sqrt_ceil(length)

    def _parts(self, steps: Tensor, keys: Tensor, length: int) -> tuple[Tensor, Tensor]:
        window = self.block_size(length)
        distance = (steps - keys).abs()
        return distance < window, distance % window == 0

    def _columns(self, n_blocks: int, length: int) -> Tensor:
        # a set for each place in a block: the steps at that place in all blocks
        window = self.block_size(length)
        return torch.arange(n_blocks * window).view(1, n_blocks, window).transpose(1, 2)

    def _column_scores(self, q: Tensor, k: Tensor, length: int) -> Tensor:
        # in blocks as wide as the stride the steps seen lie one below the other
        columns = q.transpose(2, 3) @ k.permute(0, 1, 3, 4, 2)  # (B, H, l, N, N)
        return columns.transpose(2, 3)

    def _column_values(self, weights: Tensor, v: Tensor, length: int) -> Tensor:
        return (weights.transpose(2, 3) @ v.transpose(2, 3)).transpose(2, 3)
