"""ProbSparse attention, corrected."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from forecast.attention.base import Mechanism, Padding, check_self_lengths
from forecast.attention.key_sampling import (
    AVERAGES,
    KEY_DRAWS,
    CausalMeasureName,
    DivisorName,
    InactiveName,
    KeySampler,
    KeySamplingName,
    sampled_scores,
    scores_by_head,
)
from forecast.bounds import Positive, Scale, Seed, Share
from forecast.ops.row_ops import put_rows, put_rows_beside, take_rows
from forecast.ops.softmax import attend
from forecast.ops.window_sums import running_sum


def n_active(length: int, factor: int) -> int:
    """How many of `length` rows ProbSparse keeps, and how many of `length` keys a row samples.

    factor * ceil(ln length), in [1, length].
    """
    # the logarithm of one step is 0
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

    key_sampling: which keys measure a query: per_query, a set of its own, as in the paper; with_replacement, the same,
        but it may draw a key twice; per_head, one set for all queries of a head, our own and what conf/attention has
        (docs/decisions/0010-speed.md).
    divisor: the sum of its scores with them is divided by the number of those that were sampled, or of all keys.
    causal_measure: which of the sampled keys count in a causal layer: the past, or all, later ones too.
    inactive: what an inactive row of a causal layer gets of the values up to its own step: their mean, or their sum.
    scale: of the scores in active rows, the measure has none; None: 1 / sqrt(E).
    Padded keys are in no measure, no active row and no mean, and padded queries are chosen last.
    """

    masks_padding = True

    def __init__(
        self,
        *,
        causal: bool,
        layer: int,
        factor: Positive = 5,
        key_sampling: KeySamplingName = "per_query",
        divisor: DivisorName = "sampled",
        causal_measure: CausalMeasureName = "past",
        inactive: InactiveName = "mean",
        scale: Scale | None = None,
        dropout: Share = 0.0,
        eval_seed: Seed | None = 0,
    ) -> None:
        super().__init__(causal=causal, layer=layer)
        self.factor = factor
        self.scale = scale
        self.dropout = dropout
        self.per_head = key_sampling == "per_head"
        self.average = AVERAGES[divisor]
        self.past_keys_only = causal and causal_measure == "past"
        self.inactive_mean = inactive == "mean"
        self.sampler = KeySampler(draw=KEY_DRAWS[key_sampling], eval_seed=eval_seed, layer=layer)

    def forward(
        self,
        q: Float[Tensor, "B H Q E"],
        k: Float[Tensor, "B H K E"],
        v: Float[Tensor, "B H K V"],
        padding: Padding | None = None,
    ) -> Float[Tensor, "B H Q V"]:
        """Of q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        if self.causal:
            check_self_lengths("causal ProbSparse attention", q.shape[2], k.shape[2])
        active = self.selected(q, k, padding)
        allowed = None if padding is None else ~padding.keys[:, None, None]
        return self._activate(active, self._inactive(v, allowed), q, k, v, allowed=allowed)

    def _activate(
        self, active: Tensor, context: Tensor, q: Tensor, k: Tensor, v: Tensor, *, allowed: Tensor | None = None
    ) -> Tensor:
        """The context of `_inactive` with attention in its active rows (B, H, U): (B, H, Q, V)."""
        if self.causal:
            # by the number of the row in the sequence, not by its place among the active ones
            allowed = torch.arange(k.shape[2], device=k.device) <= active.unsqueeze(-1)
        rate = self.dropout if self.training else 0.0
        attended = attend(take_rows(q, active), k, v, allowed=allowed, dropout=rate, scale=self.scale)
        if self.causal:
            # in place: the running sums are used by nothing else, and their backward pass does not need them
            return put_rows(context, active, attended)
        # not causal all inactive rows are one mean, which is written out once, beside the active ones
        return put_rows_beside(context, active, attended, length=q.shape[2])

    @torch.no_grad()  # row numbers carry no gradient
    def selected(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], padding: Padding | None = None
    ) -> Int[Tensor, "B H U"]:
        """The active rows, in no order: q (B, H, Q, E), k (B, H, K, E) -> (B, H, U), U = n_active(Q, factor)."""
        return self.measured(q, k, padding).topk(n_active(q.shape[2], self.factor), dim=-1).indices

    def measured(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], padding: Padding | None = None
    ) -> Float[Tensor, "B H Q"]:
        """The measure of all rows on freshly sampled keys: q (B, H, Q, E), k (B, H, K, E) -> (B, H, Q)."""
        (n_heads, n_queries), n_keys = q.shape[1:3], k.shape[2]
        n_sets = n_heads if self.per_head else n_queries
        sample = self.sampler(n_sets, n_keys, n_active(n_keys, self.factor), q.device)
        scores = (scores_by_head if self.per_head else sampled_scores)(q, k, sample)
        if self.past_keys_only:
            # the keys no later than the query: (Q, U), or (H, Q, U)
            rows = torch.arange(n_queries, device=q.device).unsqueeze(1)
            counted = (sample.unsqueeze(1) if self.per_head else sample) <= rows
        elif padding is not None:  # (B, 1, Q, U), or (B, H, 1, U)
            counted = ~padding.keys[:, sample].unsqueeze(2 if self.per_head else 1)
        else:
            return scores.amax(-1) - self.average(scores, None, n_keys)
        # a row that sampled no such key gets -inf and is chosen last
        measures = scores.masked_fill(~counted, -math.inf).amax(-1) - self.average(scores, counted, n_keys)
        if padding is not None and padding.queries is not None:
            # but before a row that nobody reads
            measures = measures.clamp(min=torch.finfo(measures.dtype).min)
            return measures.masked_fill(padding.queries.unsqueeze(1), -math.inf)
        return measures

    def _inactive(self, v: Tensor, allowed: Tensor | None = None) -> Tensor:
        """What a row gets that is not active: v (B, H, K, V) -> (B, H, Q, V), or (B, H, 1, V) for all alike.

        allowed: which keys a row sees, (B, 1, 1, K).
        """
        if self.causal:
            return running_sum(v, mean=self.inactive_mean).to(v.dtype)
        steps: int | Tensor = v.shape[2]
        if allowed is not None:
            v, steps = v.masked_fill(~allowed.mT, 0.0), allowed.sum(3, keepdim=True)
        # not mean(): its backward pass divides the gradient of each step, where that of their sum will do
        total = v.sum(2, keepdim=True, dtype=torch.promote_types(v.dtype, torch.float32))
        return (total / steps).to(v.dtype)
