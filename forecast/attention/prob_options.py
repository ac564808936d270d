"""The options of a ProbSparse attention by their names in YAML, and what stands in for inactive rows."""

from collections.abc import Callable, Mapping
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor

from forecast.attention.key_sampling import Draw, draw_by_order, draw_with_replacement, draw_without_replacement

KeySamplingName = Literal["per_query", "with_replacement", "per_head"]
DivisorName = Literal["sampled", "all"]
CausalMeasureName = Literal["past", "all"]
InactiveName = Literal["mean", "sum"]

# per_head draws one set for all queries of a head, the others one for each query
KEY_DRAWS: Mapping[KeySamplingName, Draw] = {
    "per_query": draw_without_replacement,
    "with_replacement": draw_with_replacement,
    "per_head": draw_by_order,
}


def mean_of_counted(
    scores: Float[Tensor, "B H Q U"], counted: Bool[Tensor, "... #Q U"] | None, n_keys: int
) -> Float[Tensor, "B H Q"]:
    """The mean over the counted keys, 0 without one. counted: None is all."""
    del n_keys
    if counted is None:
        return scores.mean(-1)
    return scores.masked_fill(~counted, 0.0).sum(-1) / counted.sum(-1).clamp(min=1)


def sum_by_all_keys(
    scores: Float[Tensor, "B H Q U"], counted: Bool[Tensor, "... #Q U"] | None, n_keys: int
) -> Float[Tensor, "B H Q"]:
    """The sum over the counted keys, divided by the number of all keys, sampled or not. counted: None is all."""
    return (scores if counted is None else scores.masked_fill(~counted, 0.0)).sum(-1) / n_keys


AVERAGES: Mapping[DivisorName, Callable[[Tensor, Tensor | None, int], Tensor]] = {
    "sampled": mean_of_counted,
    "all": sum_by_all_keys,
}
