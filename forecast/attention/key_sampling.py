"""Which keys each query is measured against in ProbSparse attention, and its scores with them."""

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from forecast.attention.base import SeededDraws
from forecast.ops.row_ops import take_rows

# Up to this many keys a block of all scores is cheaper than gathering the sampled keys. Measured on a CPU, 8 heads of
# width 64: a score costs 0.05 us there, a gathered key 0.8 us, and a query samples about a thirtieth of 1000 keys.
DENSE_KEYS = 512
BLOCK_QUERIES = 512
GATHERED_BYTES = 2**28  # of keys that are gathered at once on a GPU
ORDERED_NUMBERS = 2**23  # random numbers up to which a GPU, which waits for its launches, draws by their order


# (n_queries, n_keys, n_samples, *, device, generator) -> key numbers (n_queries, n_samples)
Draw = Callable[..., Tensor]


class KeySampler(SeededDraws):
    """Draws the keys of each query, or of each head: uniform over the keys, independent of what the others draw.

    draw: how, `draw_with_replacement` as in the authors' code or another function of this file.
    eval_seed, layer: from both the draws of an evaluation, equal at every call; eval_seed None: fresh ones.
    """

    def __init__(self, *, draw: Draw, eval_seed: int | None, layer: int) -> None:
        super().__init__(eval_seed=eval_seed, layer=layer)
        self.draw = draw

    def drawn(self, *sizes: int, device: torch.device, generator: Generator | None) -> Int[Tensor, "Q U"]:
        """Of sizes Q, K and U: key numbers (Q, U) in [0, K), U <= K; (H, U) where Q is the number of heads."""
        return self.draw(*sizes, device=device, generator=generator)


def draw_with_replacement(
    n_queries: int, n_keys: int, n_samples: int, *, device: torch.device, generator: Generator | None
) -> Int[Tensor, "Q U"]:
    """Independent uniform key numbers (Q, U)."""
    return torch.randint(n_keys, (n_queries, n_samples), device=device, generator=generator)


def draw_without_replacement(
    n_queries: int, n_keys: int, n_samples: int, *, device: torch.device, generator: Generator | None
) -> Int[Tensor, "Q U"]:
    """Uniform sets of U distinct key numbers, one a query: (Q, U).

    Floyd's algorithm (Bentley and Floyd 1987) for all queries at once: column j draws from the first
    `n_keys - n_samples + j + 1` keys and takes the last of them when the draw is already there. It needs no (Q, K)
    tensor, as sorting random numbers would.
    """
    if device.type != "cpu" and n_queries * n_keys <= ORDERED_NUMBERS:
        return draw_by_order(n_queries, n_keys, n_samples, device=device, generator=generator)
    last = torch.arange(n_keys - n_samples, n_keys, device=device)
    # float64: in float32 a product with some millions of keys would reach them unevenly, or round up to beyond the last
    uniform = torch.rand(n_queries, n_samples, device=device, generator=generator, dtype=torch.float64)
    chosen = (uniform * (last + 1)).long()
    for j in range(1, n_samples):
        # last[j] cannot be there yet: the columns before drew from fewer keys. This makes all sets equally likely
        repeated = (chosen[:, :j] == chosen[:, j : j + 1]).any(dim=1)
        chosen[:, j] = torch.where(repeated, last[j], chosen[:, j])
    return chosen


def draw_by_order(
    n_queries: int, n_keys: int, n_samples: int, *, device: torch.device, generator: Generator | None
) -> Int[Tensor, "Q U"]:
    """The same sets by another way, for few queries: the places of the U largest of n_keys random numbers.

    It takes a (Q, K) tensor, and two steps where Floyd's algorithm takes U.
    """
    numbers = torch.rand(n_queries, n_keys, device=device, generator=generator)
    return numbers.topk(n_samples, dim=-1, sorted=False).indices


def sampled_scores(
    q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], sample: Int[Tensor, "Q U"]
) -> Float[Tensor, "B H Q U"]:
    """Dot products of every query with its own sampled keys.

    q (B, H, Q, E), k (B, H, K, E), sample (Q, U) -> (B, H, Q, U).
    In blocks of queries, so that neither an (L, L) nor a (B, H, L, U, E) tensor is ever whole.
    """
    block, dense, on_cpu = BLOCK_QUERIES, k.shape[2] <= DENSE_KEYS, k.device.type == "cpu"
    if not dense and not on_cpu:
        block = max(1, GATHERED_BYTES // (k[:, :, 0].nbytes * sample.shape[1]))
    blocks = zip(torch.split(q, block, dim=2), torch.split(sample, block), strict=True)
    if dense:  # most of the scores (B, H, Q, K) are thrown away
        scores = [(part @ k.transpose(-2, -1)).gather(-1, drawn.expand(*q.shape[:2], -1, -1)) for part, drawn in blocks]
    elif not on_cpu:
        scores = [gather_scores(part, k, drawn) for part, drawn in blocks]
    else:
        keys = _by_step(k)
        scores = [_gathered_block(part, drawn, keys) for part, drawn in blocks]
    return torch.cat(scores, dim=2)


def scores_by_head(
    q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], sample: Int[Tensor, "H U"]
) -> Float[Tensor, "B H Q U"]:
    """Dot products of all queries of a head with the head's keys, of which none is copied for each query.

    q (B, H, Q, E), k (B, H, K, E), sample (H, U) -> (B, H, Q, U).
    """
    keys = take_rows(k, sample.expand(k.shape[0], -1, -1))
    # queries last in memory: their maxima and means are then taken side by side
    return (keys @ q.transpose(-2, -1)).transpose(-2, -1)


def gather_scores(
    q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], sample: Int[Tensor, "Q U"]
) -> Float[Tensor, "B H Q U"]:
    """As `sampled_scores`, for a GPU, which waits for its launches: by two operations and a (B, H, Q, U, E) tensor."""
    keys = k.index_select(2, sample.flatten()).reshape(*k.shape[:2], *sample.shape, k.shape[-1])
    return (keys @ q.unsqueeze(-1)).squeeze(-1)


def _by_step(k: Tensor) -> Tensor:
    # (B, H, K, E) -> (K, B, H, E): the sample is the same for all windows and heads, so a gathered step is one copy
    return k.permute(2, 0, 1, 3).contiguous()


def _gathered_block(q: Tensor, sample: Tensor, keys: Tensor) -> Tensor:
    # q (B, H, Q, E), keys (K, B, H, E) -> (B, H, Q, U); one sample at a time: (B, H, Q, U, E) would be larger than all
    # scores of most lengths
    queries = _by_step(q)
    scores = [(queries * keys.index_select(0, numbers)).sum(-1) for numbers in sample.unbind(1)]
    return torch.stack(scores, dim=-1).permute(1, 2, 0, 3)


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
