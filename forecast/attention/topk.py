"""Top-k sparse attention."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from forecast.attention.base import Mechanism, check_self_lengths
from forecast.bounds import Positive, Scale, Share
from forecast.ops.dropout import drop
from forecast.ops.softmax import causal_rows


class TopKAttention(Mechanism):
    """Full attention over each query's k highest scores: all keys whose score reaches the k-th highest, ties included.

    Zhao et al. 2019, "Explicit Sparse Transformer". When causal the later keys are masked before the choice, so a query
    with fewer than k keys keeps them all. All scores are computed: the cost stays that of full attention.

    k: how many keys at least. scale: of the scores; None: 1 / sqrt(E). dropout: share of the attention weights that is
    dropped in training.
    """

    independent_rows = True

    def __init__(
        self, *, causal: bool, layer: int, k: Positive = 8, scale: Scale | None = None, dropout: Share = 0.0
    ) -> None:
        super().__init__(causal=causal, layer=layer)
        self.k = k
        self.scale = scale
        self.dropout = dropout

    def forward(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"]
    ) -> Float[Tensor, "B H Q V"]:
        """Of q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        if not self.causal:
            return self._attend(q, k, v, None)
        check_self_lengths("causal top-k attention", q.shape[2], k.shape[2])
        return self._attend(q, k, v, causal_rows(q.shape[2], k.shape[2], q.device))

    def last_rows(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"], *, length: int
    ) -> Float[Tensor, "B H Q V"]:
        """The last Q of K rows of the causal form: q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        del length
        return self._attend(q, k, v, causal_rows(q.shape[2], k.shape[2], q.device))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, allowed: Bool[Tensor, "Q K"] | None) -> Tensor:
        scores = q @ k.transpose(-2, -1)  # (B, H, Q, K)
        scores = scores / math.sqrt(q.shape[-1]) if self.scale is None else scores * self.scale
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -math.inf)
        # topk raises beyond the number of keys; a row that sees fewer than k gets the threshold -inf and keeps all
        if self.k < k.shape[2]:
            with torch.no_grad():  # the threshold is a constant to the gradient
                threshold = scores.topk(self.k, dim=-1).values[..., -1:]
            scores = scores.masked_fill(scores < threshold, -math.inf)
        weights = torch.softmax(scores, dim=-1, dtype=torch.promote_types(q.dtype, torch.float32)).to(v.dtype)
        return drop(weights, self.dropout, training=self.training) @ v
