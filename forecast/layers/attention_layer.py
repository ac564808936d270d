"""Multi-head attention: a projection, a mechanism, and the merged heads projected back."""

from collections.abc import Callable
from typing import TypedDict

from jaxtyping import Bool, Float
from torch import Tensor, nn

from forecast.attention.base import Mechanism, NotCacheable, Padding
from forecast.layers.cache import LastRows, LayerCache, MemoryCache
from forecast.layers.heads import merge_heads
from forecast.layers.projections import Projection

HeadMerge = Callable[[Tensor], Tensor]


class AttentionFactories(TypedDict):
    """What a model receives for one of its slots; conf/attention/NAME.yaml in Python."""

    projection: Callable[..., Projection]
    mechanism: Callable[..., Mechanism]


class AttentionLayer(nn.Module):
    """x attends to memory: project, mix over time, merge the heads, project back.

    attention: the factories of projection (`d_model=, n_heads=`) and mechanism (`causal=, layer=`).
    layer: the number of this layer in its model, from 0.
    merge: how (B, H, Q, E) becomes (B, Q, D).
    """

    def __init__(
        self,
        attention: AttentionFactories,
        *,
        d_model: int,
        n_heads: int,
        causal: bool,
        layer: int,
        merge: HeadMerge = merge_heads,
    ) -> None:
        super().__init__()
        self.projection = attention["projection"](d_model=d_model, n_heads=n_heads)
        self.mechanism = attention["mechanism"](causal=causal, layer=layer)
        self.merge = merge
        self.output = self.projection.make_output()

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        memory: Float[Tensor, "B K D"],
        key_padding_mask: Bool[Tensor, "B K"] | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """X (B, Q, D) attends to memory (B, K, D), itself in self-attention -> (B, Q, D).

        key_padding_mask (B, K): the steps of the memory that a mechanism which can mask them does not see.
        """
        own = key_padding_mask if x is memory else None
        return self._mixed(*self.projection(x, memory), keys=key_padding_mask, queries=own)

    def _mixed(self, q: Tensor, k: Tensor, v: Tensor, *, keys: Tensor | None, queries: Tensor | None = None) -> Tensor:
        padding = () if keys is None or not self.mechanism.masks_padding else (Padding(keys, queries),)
        return self.output(self.merge(self.mechanism(q, k, v, *padding)))

    @property
    def independent_rows(self) -> bool:
        """Whether a row of the result depends on no other row of x."""
        # a projection that looks back reads earlier rows, and another merge mixes steps
        return self.mechanism.independent_rows and not self.projection.lookback and self.merge is merge_heads

    def new_cache(self, capacity: int) -> LayerCache:
        """The empty cache of a causal self-attention on `capacity` steps, for `next_rows`."""
        return LayerCache(capacity, lookback=self.projection.lookback)

    def next_rows(self, x: Float[Tensor, "B M D"], cache: LayerCache) -> Float[Tensor, "B M D"]:
        """The rows of causal self-attention for the M steps after those in the cache, which they join: (B, M, D).

        They are those of `forward` on the whole sequence of `cache.capacity` steps. Raises NotCacheable when the
        mechanism or the merge cannot be computed row by row, ValueError when the cache is full.
        """
        assert self.mechanism.causal, "the rows of an attention to later steps change as these come"
        if self.merge is not merge_heads:
            raise NotCacheable("heads merged in another order than by step cannot be computed row by row")
        rows = cache.inputs.join(x)
        # of the joined rows the earlier ones only give the projection its surroundings: their keys are in the cache
        q, k, v = (part[:, :, -x.shape[1] :] for part in self.projection(rows, rows))
        k, v = cache.append(k, v)
        # a pattern is sized by the whole sequence: by the steps so far it would be another at each step
        return self.output(self.merge(self.mechanism.last_rows(q, k, v, length=cache.capacity)))

    def new_memory_cache(self) -> MemoryCache:
        """The empty cache of a cross-attention, for `recall`."""
        return MemoryCache(LastRows(self.projection.lookback))

    def recall(
        self,
        x: Float[Tensor, "B M D"],
        memory: Float[Tensor, "B K D"],
        cache: MemoryCache,
        key_padding_mask: Bool[Tensor, "B K"] | None = None,
    ) -> Float[Tensor, "B M D"]:
        """The next M rows of cross-attention, (B, M, D); the memory (B, K, D) is projected in the first call alone."""
        # the queries come in parts and may look back on earlier ones; the memory is whole from the first call on
        q = self.projection.queries(cache.inputs.join(x))[:, :, -x.shape[1] :]
        if cache.keys_values is None:
            cache.keys_values = self.projection.keys_values(memory)
        return self._mixed(q, *cache.keys_values, keys=key_padding_mask)


class SelfAttention(nn.Module):
    """An attention layer whose memory is the sequence itself, (B, L, D) -> (B, L, D)."""

    def __init__(self, attention: AttentionLayer) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        return self.attention(x, x)
