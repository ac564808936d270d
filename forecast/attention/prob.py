"""ProbSparse attention, corrected."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from forecast.attention.base import Mechanism, check_causal_lengths
from forecast.attention.key_sampling import KeySampler, sampled_scores
from forecast.attention.running_sum import running_sum


def n_active(length: int, factor: int) -> int:
    """How many of `length` rows ProbSparse keeps, and how many of `length` keys a row samples.

    factor * ceil(ln length), in [1, length].
    """
    return max(1, min(factor * math.ceil(math.log(length)), length))


class ProbAttention(Mechanism):
    """ProbSparse attention: full attention for the few queries that differ most from uniform.

    Each query is measured on a few sampled keys: M = max - mean of its scores with them. The `n_active` queries of
    largest M, the active rows, attend to all keys; every other row is the mean of the values (of the values up to its
    own step when causal).

    Zhou et al. 2021, "Informer", section "ProbSparse Self-attention". Differs from the authors' code (29f2a73), which
    is `Informer2020ProbAttention`: keys are sampled without replacement; the mean is over the sampled keys, not divided
    by the number of all keys; when causal only keys up to the query's step count, a row that sampled none of them stays
    inactive unless all others are active, and inactive rows are the mean of their past, not its sum; the weights of
    active rows see dropout; evaluation draws the same keys at each call.

    Exception to the law of causality: *which* rows are active depends on the whole sequence. Rows compete for being
    active, so a later step can make an earlier row active or not.
    """

    replacement = False

    def __init__(
        self, *, causal: bool, layer: int, factor: int = 5, dropout: float = 0.0, eval_seed: int | None = 0
    ) -> None:
        super().__init__(causal=causal, layer=layer)
        self.factor = factor
        self.dropout = dropout
        self.sampler = KeySampler(replacement=self.replacement, eval_seed=eval_seed, layer=layer)

    def forward(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"]
    ) -> Float[Tensor, "B H Q V"]:
        """Q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        if self.causal:
            check_causal_lengths("ProbSparse attention", q.shape[2], k.shape[2])
        return self._activate(self.selected(q, k), self._inactive(v, q.shape[2]), q, k, v)

    def _activate(self, active: Tensor, context: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The context (B, H, Q, V) with attention in its active rows (B, H, U)."""
        rows = active.unsqueeze(-1)  # (B, H, U, 1)
        attended = self._attend(q.gather(2, rows.expand(-1, -1, -1, q.shape[-1])), k, v, active)
        return context.scatter(2, rows.expand(-1, -1, -1, v.shape[-1]), attended.to(context.dtype))

    @torch.no_grad()  # row numbers carry no gradient
    def selected(self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"]) -> Int[Tensor, "B H U"]:
        """The active rows, in no order: q (B, H, Q, E), k (B, H, K, E) -> (B, H, U), U = n_active(Q, factor)."""
        return self._measured(q, k).topk(n_active(q.shape[2], self.factor), dim=-1).indices

    def _measured(self, q: Tensor, k: Tensor) -> Tensor:
        """The measure of all rows on freshly sampled keys: (B, H, Q)."""
        n_keys = k.shape[2]
        sample = self.sampler(q.shape[2], n_keys, n_active(n_keys, self.factor), q.device)
        return self._measure(sampled_scores(q, k, sample), sample, n_keys)

    def _measure(self, scores: Tensor, sample: Tensor, n_keys: int) -> Tensor:
        """How far a query is from uniform attention: scores (B, H, Q, U), sample (Q, U) -> (B, H, Q)."""
        del n_keys
        if not self.causal:
            return scores.amax(-1) - scores.mean(-1)
        allowed = sample <= torch.arange(len(sample), device=sample.device).unsqueeze(1)
        count = allowed.sum(-1)
        mean = scores.masked_fill(~allowed, 0.0).sum(-1) / count.clamp(min=1)
        # without an allowed key the maximum, and so the measure, is -inf
        return scores.masked_fill(~allowed, -math.inf).amax(-1) - mean

    def _inactive(self, v: Tensor, n_queries: int) -> Tensor:
        """What a row gets that is not active: v (B, H, K, V) -> (B, H, Q, V)."""
        if not self.causal:
            return v.mean(2, keepdim=True).expand(-1, -1, n_queries, -1)
        total = running_sum(v)
        steps = torch.arange(1, n_queries + 1, device=v.device, dtype=total.dtype)
        return (total / steps.unsqueeze(-1)).to(v.dtype)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, active: Tensor) -> Tensor:
        """Full attention of the active rows: q (B, H, U, E), k, v, active (B, H, U) -> (B, H, U, V)."""
        allowed = torch.arange(k.shape[2], device=k.device) <= active.unsqueeze(-1) if self.causal else None
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout)
