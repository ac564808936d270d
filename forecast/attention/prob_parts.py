"""The parts that a ProbSparse attention is made of; each table gives a part's names in YAML."""

import math
from collections.abc import Callable, Mapping
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from forecast.attention.key_sampling import (
    draw_by_order,
    draw_with_replacement,
    draw_without_replacement,
    sampled_scores,
)
from forecast.ops.row_ops import take_rows
from forecast.ops.running_sum import running_sum

KeySamplingName = Literal["per_query", "with_replacement", "per_head"]
DivisorName = Literal["sampled", "all"]
CausalMeasureName = Literal["past", "all"]
InactiveName = Literal["mean", "sum"]
Sampler = Callable[[int, int, int, torch.device], Tensor]  # a KeySampler, or what stands in for one


class PerQueryKeys:
    """Each query is measured on keys that were drawn for it."""

    draw_keys = staticmethod(draw_without_replacement)

    def draw(self, sampler: Sampler, q: Float[Tensor, "B H Q E"], n_keys: int, n_samples: int) -> Int[Tensor, "Q U"]:
        """The numbers of the keys that measure each query: q (B, H, Q, E) -> (Q, U), U = n_samples."""
        return sampler(q.shape[2], n_keys, n_samples, q.device)

    def scores(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], sample: Int[Tensor, "Q U"]
    ) -> Float[Tensor, "B H Q U"]:
        """Dot products of every query with its keys: q (B, H, Q, E), k (B, H, K, E), sample (Q, U) -> (B, H, Q, U)."""
        return sampled_scores(q, k, sample)


class WithReplacementKeys(PerQueryKeys):
    """The same, and a query may draw a key twice."""

    draw_keys = staticmethod(draw_with_replacement)


class PerHeadKeys:
    """All queries of a head are measured on the same keys: one matrix product, and no key is copied for each query."""

    draw_keys = staticmethod(draw_by_order)

    def draw(self, sampler: Sampler, q: Float[Tensor, "B H Q E"], n_keys: int, n_samples: int) -> Int[Tensor, "H 1 U"]:
        """The numbers of the keys that measure the queries of each head: q (B, H, Q, E) -> (H, 1, U), U = n_samples."""
        return sampler(q.shape[1], n_keys, n_samples, q.device).unsqueeze(1)

    def scores(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], sample: Int[Tensor, "H 1 U"]
    ) -> Float[Tensor, "B H Q U"]:
        """Dot products with the keys of the head: q (B, H, Q, E), k (B, H, K, E), sample (H, 1, U) -> (B, H, Q, U)."""
        keys = take_rows(k, sample.squeeze(1).expand(k.shape[0], -1, -1))
        # queries last in memory: their maxima and means are then taken side by side
        return (keys @ q.transpose(-2, -1)).transpose(-2, -1)


KEY_SAMPLINGS: Mapping[KeySamplingName, type[PerQueryKeys] | type[PerHeadKeys]] = {
    "per_query": PerQueryKeys,
    "with_replacement": WithReplacementKeys,
    "per_head": PerHeadKeys,
}


def keys_up_to_it(sample: Int[Tensor, "... U"], n_queries: int) -> Bool[Tensor, "... Q U"]:
    """Which sampled keys are no later than the query: sample (Q, U) or (H, 1, U) -> (Q, U) or (H, Q, U)."""
    return sample <= torch.arange(n_queries, device=sample.device).unsqueeze(1)


def all_keys(sample: Int[Tensor, "... U"], n_queries: int) -> None:
    """All of them count, later ones too."""
    del sample, n_queries


COUNTED: Mapping[CausalMeasureName, Callable[[Tensor, int], Tensor | None]] = {
    "past": keys_up_to_it,
    "all": all_keys,
}


def largest(scores: Float[Tensor, "B H Q U"], counted: Bool[Tensor, "... Q U"] | None) -> Float[Tensor, "B H Q"]:
    """The maximum over the counted keys, -inf without one. counted: None is all."""
    return (scores if counted is None else scores.masked_fill(~counted, -math.inf)).amax(-1)


def mean_of_counted(
    scores: Float[Tensor, "B H Q U"], counted: Bool[Tensor, "... Q U"] | None, n_keys: int
) -> Float[Tensor, "B H Q"]:
    """The mean over the counted keys, 0 without one. counted: None is all."""
    del n_keys
    if counted is None:
        return scores.mean(-1)
    return scores.masked_fill(~counted, 0.0).sum(-1) / counted.sum(-1).clamp(min=1)


def sum_by_all_keys(
    scores: Float[Tensor, "B H Q U"], counted: Bool[Tensor, "... Q U"] | None, n_keys: int
) -> Float[Tensor, "B H Q"]:
    """The sum over the counted keys, divided by the number of all keys, sampled or not. counted: None is all."""
    return (scores if counted is None else scores.masked_fill(~counted, 0.0)).sum(-1) / n_keys


AVERAGES: Mapping[DivisorName, Callable[[Tensor, Tensor | None, int], Tensor]] = {
    "sampled": mean_of_counted,
    "all": sum_by_all_keys,
}


def mean_of_all(v: Float[Tensor, "B H L V"]) -> Float[Tensor, "B H 1 V"]:
    """The mean over all steps: (B, H, L, V) -> (B, H, 1, V), summed in float32 at least."""
    # not mean(): its backward pass divides the gradient of each step, where that of their sum will do
    total = v.sum(2, keepdim=True, dtype=torch.promote_types(v.dtype, torch.float32))
    return (total / v.shape[2]).to(v.dtype)


def past_mean(v: Float[Tensor, "B H L V"]) -> Float[Tensor, "B H L V"]:
    """At step t the mean of the values up to t: (B, H, L, V) -> (B, H, L, V)."""
    return running_sum(v, mean=True).to(v.dtype)


def past_sum(v: Float[Tensor, "B H L V"]) -> Float[Tensor, "B H L V"]:
    """At step t the sum of the values up to t: (B, H, L, V) -> (B, H, L, V)."""
    return running_sum(v).to(v.dtype)


PAST: Mapping[InactiveName, Callable[[Tensor], Tensor]] = {"mean": past_mean, "sum": past_sum}
