"""Forecasting step by step: predict a step, append it, repeat.

Row t of a decoder holds the values of step t and the calendar of step t + 1, which it predicts: the calendar of the
future is known, and the one of step t says nothing more once the values are there.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention.base import NotCacheable
from forecast.layers.attention_layer import AttentionLayer
from forecast.layers.blocks import DecoderStack
from forecast.layers.cache import DecoderCache
from forecast.layers.causal_blocks import CausalStack
from forecast.layers.causal_embedding import CausalDataEmbedding
from forecast.layers.heads import merge_heads
from forecast.layers.output_map import OutputMap
from forecast.layers.window_scale import Padded, window_statistics
from forecast.models.base import ForecastModel, WindowShape
from forecast.ops.columns import take_columns

# The next rows (B, M, C) and the calendar of the steps they predict (B, M, F) -> these steps (B, M, C), or with a
# spread the O raw numbers of each column side by side (B, M, C * O). It keeps the rows of its earlier calls in a cache.
Step = Callable[[Tensor, Tensor], Tensor]
S = TypeVar("S", bound=CausalStack | DecoderStack)  # the second beside an encoder


@torch.no_grad()  # the cache is written in place, which no gradient survives; a roll-out is not trained on
def roll_out(
    step: Step, start: Float[Tensor, "B S C"], known: Float[Tensor, "B R F"], *, window: WindowShape
) -> Float[Tensor, "B P M"]:
    """The P = R - S + 1 steps after `start`: it is read in one call of `step`, each forecast step in a further one.

    start (B, S, C), known (B, R, F): the calendar of the steps from the second of `start` on -> the targets' columns
    (B, P, T), with O = window.outputs numbers of each side by side (B, P, T * O).

    Of these the first, the point forecast, is fed back. So what a spread says of a later step holds given that the
    steps before it come as forecast: it leaves their errors out and is too narrow, the more the later the step.
    """
    first, outputs = start.shape[1], window.outputs
    steps = [step(start, known[:, :first])[:, -1:]]
    for row in range(first, known.shape[1]):
        steps.append(step(steps[-1][..., ::outputs].to(start.dtype), known[:, row : row + 1]))
    rows = torch.cat(steps, dim=1)
    if outputs == 1:
        return window.target_columns(rows)
    return window.target_columns(torch.unflatten(rows, 2, (-1, outputs))).flatten(2)


def instance_normed_rows(
    model: ForecastModel,
    rows: Callable[[Tensor, Tensor], Tensor],
    past: Float[Tensor, "B L C"],
    future: Float[Tensor, "B P C"],
    *,
    columns: Sequence[int],
    padded: Padded = None,
) -> Float[Tensor, "B R N *O"]:
    """The rows that a model makes of the true steps (B, R, N), scaled units, which training compares with these.

    With a spread its parameters (B, R, N, O). rows: from past (B, L, C) and future (B, P, C) to these rows, all in one
    unit. columns: which N of the C they are of. padded (B, L): the rows of the past that do not count. With
    instance_norm the future too is brought to the mean and deviation of the window's past, and the rows are brought
    back.
    """
    if not model.instance_norm:
        return model.as_parameters(rows(past, future), columns)
    mean, std = window_statistics(past, padded)
    predicted = model.as_parameters(rows((past - mean) / std, (future - mean) / std), columns)
    return model.moved(predicted, take_columns(mean, columns), take_columns(std, columns))


def target_calendar(past_known: Float[Tensor, "B S F"], future_known: Float[Tensor, "B P F"]) -> Float[Tensor, "B R F"]:
    """The calendar of the steps that R = S + P - 1 rows predict: of all steps but the first, (B, R, F)."""
    return torch.cat([past_known[:, 1:], future_known], dim=1)


class CausalDecoder(Generic[S]):
    """For a module with embedding, layers, norm and head in which no row depends on a later one.

    Its rows can be computed all at once (`rows`), or one after the other with a cache (`next_rows`).

    n_rows: how many a window has. memory: the encoder's output (B, M, D) and its padded steps (B, M), for layers with
    cross-attention; it must be the same in all calls with one cache.
    """

    embedding: CausalDataEmbedding
    layers: S
    norm: nn.Module
    head: OutputMap
    n_rows: int

    def rows(
        self, values: Float[Tensor, "B R C"], known: Float[Tensor, "B R F"], *memory: Tensor | None
    ) -> Float[Tensor, "B R N"]:
        """What each of the R rows predicts for the step after it (B, R, N).

        values (B, R, C): the steps; known (B, R, F): the calendar of the steps after them.
        """
        x = self.layers(self.embedding(values, known), *memory)
        predicted: Tensor = self.head(self.norm(x))
        return predicted

    def new_cache(self) -> DecoderCache:
        """The empty cache for `next_rows`, with room for all rows of a window."""
        return DecoderCache(self.embedding.new_cache(), self.layers.new_caches(self.n_rows))

    def next_rows(
        self,
        values: Float[Tensor, "B Q C"],
        known: Float[Tensor, "B Q F"],
        cache: DecoderCache,
        *memory: Tensor | None,
    ) -> Float[Tensor, "B Q N"]:
        """The rows of `rows` for the Q steps after those in the cache, which they join: (B, Q, N)."""
        x = self.embedding.next_rows(values, known, cache.rows)
        predicted: Tensor = self.head(self.norm(self.layers.next_rows(x, *memory, caches=cache.layers)))
        return predicted

    def new_step(self, *memory: Tensor | None) -> Step:
        """`next_rows` with a cache of its own."""
        cache = self.new_cache()
        return lambda values, known: self.next_rows(values, known, cache, *memory)


def check_cacheable(slot: str, layer: AttentionLayer, *, cross: bool = False) -> None:
    """Raises NotCacheable, with the slot's name, unless the layer's rows can be computed one by one."""
    mechanism = type(layer.mechanism)
    if reason := mechanism.refusal(cross=cross, cached=True):
        raise NotCacheable(f"{slot}: {mechanism.__name__} cannot serve step-by-step decoding: {reason}. Choose full")
    if layer.merge is not merge_heads:
        raise NotCacheable(f"{slot}: mixed heads let a row see later steps: set mix=false, or decode=one_shot")
