"""The post-norm encoder and decoder layers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, cast

from jaxtyping import Bool, Float
from torch import Tensor, nn
from typing_extensions import TypedDict

from forecast.bounds import Positive, Share
from forecast.layers.attention_layer import AttentionFactories, AttentionLayer, HeadMerge
from forecast.layers.cache import CrossedCache
from forecast.layers.heads import merge_heads
from forecast.ops.dropout import Dropout, drop_alike, recomputed

Activation = Literal["gelu", "relu"]


class FeedForward(nn.Module):
    """Linear, activation, dropout, linear, dropout at each step by itself: (B, L, D) -> (B, L, D).

    Vaswani et al. 2017, section 3.3. The authors of the Informer write the two maps as convolutions over one step.
    """

    def __init__(self, *, d_model: int, d_ff: int, dropout: float, activation: Activation) -> None:
        super().__init__()
        self.widen = nn.Linear(d_model, d_ff)
        self.activation = nn.GELU() if activation == "gelu" else nn.ReLU()
        self.narrow = nn.Linear(d_ff, d_model)
        self.dropout = Dropout(dropout)
        self.inplace = activation == "gelu"  # GELU's own backward pass does not need its result

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        wide = self.widen(x)
        # the same elements in both calls below: the backward pass makes `hidden` again
        drop = drop_alike(wide, self.dropout.p, training=self.training, inplace=self.inplace)
        hidden = drop(self.activation(wide))
        with recomputed(hidden, lambda: drop(self.activation(wide.detach()))):
            narrowed: Tensor = self.narrow(hidden)
        dropped: Tensor = self.dropout(narrowed)
        return dropped


class BlockOptions(TypedDict):
    """The keywords of a model that are the `BlockSizes` of its layers.

    d_model: width D; n_heads: H; d_ff: inner width of the feed-forward network; dropout: share of activations dropped
    in training.
    """

    d_model: Positive
    n_heads: Positive
    d_ff: Positive
    dropout: Share
    activation: Activation


@dataclass(frozen=True, kw_only=True)
class BlockSizes:
    """What all layers of a model share: its `BlockOptions`."""

    d_model: int
    n_heads: int
    d_ff: int
    dropout: float
    activation: Activation

    def attention(
        self, slot: AttentionFactories, *, layer: int, causal: bool = False, merge: HeadMerge = merge_heads
    ) -> AttentionLayer:
        """The attention layer of a slot."""
        return AttentionLayer(slot, d_model=self.d_model, n_heads=self.n_heads, causal=causal, layer=layer, merge=merge)

    def feed_forward(self) -> FeedForward:
        """A feed-forward network of these sizes."""
        return FeedForward(d_model=self.d_model, d_ff=self.d_ff, dropout=self.dropout, activation=self.activation)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward; each is added to its input and the sum normalised.

    layer: the number of its attention in the model. norm: from the width D to a normalisation (B, L, D) -> (B, L, D).
    """

    def __init__(
        self,
        sizes: BlockSizes,
        attention: AttentionFactories,
        *,
        layer: int,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.attention = sizes.attention(attention, layer=layer)
        self.feed_forward = sizes.feed_forward()
        self.norm1 = norm(sizes.d_model)
        self.norm2 = norm(sizes.d_model)
        self.dropout = Dropout(sizes.dropout)

    def forward(
        self, x: Float[Tensor, "B L D"], key_padding_mask: Bool[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D); key_padding_mask (B, L): the steps that no other sees."""
        x = self.norm1(x + self.dropout(self.attention(x, x, key_padding_mask)))
        return self.norm2(x + self.feed_forward(x))


class CachedLayer(nn.Module):
    """A layer whose rows can also be made in parts. next_rows: the next ones, from its inputs and its cache."""

    next_rows: Callable[..., Tensor]

    def new_cache(self, capacity: int) -> object:
        """The empty cache of `capacity` steps, for `next_rows`."""
        raise NotImplementedError


L = TypeVar("L", bound=CachedLayer)


class DecoderLayer(CachedLayer):
    """Causal self-attention, cross-attention to the encoder's output, feed-forward; each added and normalised.

    layer: the number of its self-attention in the model; the cross-attention has the next one.
    merge: how the heads of the self-attention are merged.
    """

    def __init__(
        self,
        sizes: BlockSizes,
        *,
        self_attention: AttentionFactories,
        cross_attention: AttentionFactories,
        layer: int,
        merge: HeadMerge = merge_heads,
    ) -> None:
        super().__init__()
        self.self_attention = sizes.attention(self_attention, layer=layer, causal=True, merge=merge)
        self.cross_attention = sizes.attention(cross_attention, layer=layer + 1)
        self.feed_forward = sizes.feed_forward()
        self.norm1 = nn.LayerNorm(sizes.d_model)
        self.norm2 = nn.LayerNorm(sizes.d_model)
        self.norm3 = nn.LayerNorm(sizes.d_model)
        self.dropout = Dropout(sizes.dropout)

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        encoded: Float[Tensor, "B K D"],
        key_padding_mask: Bool[Tensor, "B K"] | None = None,
        *,
        last: int | None = None,
    ) -> Float[Tensor, "B R D"]:
        """X (B, Q, D), the encoder's output (B, K, D), its padded steps (B, K) -> (B, Q, D), or its `last` rows.

        After the self-attention no row needs another, so rows that nobody reads are left out there.
        """
        # where rows of the cross-attention are not independent, as in ProbSparse, all are made and cut afterwards
        first = x.shape[1] - last if last is not None and self.cross_attention.independent_rows else 0
        attended = self._with_attention(
            x,
            lambda x: self.self_attention(x, x),
            lambda x: self.cross_attention(x, encoded, key_padding_mask),
            first=first,
        )
        return attended if last is None else attended[:, -last:]

    def new_cache(self, capacity: int) -> CrossedCache:
        """The empty cache of `capacity` steps, for `next_rows`."""
        return CrossedCache(self.self_attention.new_cache(capacity), self.cross_attention.new_memory_cache())

    def next_rows(
        self,
        x: Float[Tensor, "B M D"],
        encoded: Float[Tensor, "B K D"],
        key_padding_mask: Bool[Tensor, "B K"] | None,
        cache: CrossedCache,
    ) -> Float[Tensor, "B M D"]:
        """The rows of `forward` for the M steps after those in the cache, which they join: (B, M, D).

        encoded, key_padding_mask: the encoder's output (B, K, D), its padded steps, the same in all calls on one cache.
        """
        return self._with_attention(
            x,
            lambda x: self.self_attention.next_rows(x, cache.steps),
            lambda x: self.cross_attention.recall(x, encoded, cache.memory, key_padding_mask),
        )

    def _with_attention(
        self, x: Tensor, attend: Callable[[Tensor], Tensor], cross: Callable[[Tensor], Tensor], *, first: int = 0
    ) -> Tensor:
        # the attention still reads all rows: the last ones attend to those before
        x = self.norm1(x[:, first:] + self.dropout(attend(x)[:, first:]))
        x = self.norm2(x + self.dropout(cross(x)))
        return self.norm3(x + self.feed_forward(x))


class CachedStack(nn.ModuleList, Generic[L]):
    """Layers one after another whose rows can also be made in parts, with a cache for each layer."""

    def __iter__(self) -> Iterator[L]:
        """The layers in order, with their own methods, which torch's type of them hides."""
        return cast(Iterator[L], super().__iter__())

    def new_caches(self, capacity: int) -> list[object]:
        """The empty caches of `capacity` steps, for `next_rows`."""
        return [layer.new_cache(capacity) for layer in self]

    def next_rows(
        self, x: Float[Tensor, "B M D"], *memory: Tensor | None, caches: Sequence[object]
    ) -> Float[Tensor, "B M D"]:
        """The rows of `forward` for the M steps after those in the caches, which they join: (B, M, D).

        memory: the encoder's output (B, K, D) and its padded steps (B, K), where the layers read one.
        """
        for layer, cache in zip(self, caches, strict=True):
            x = layer.next_rows(x, *memory, cache)
        return x


class DecoderStack(CachedStack[DecoderLayer]):
    """Decoder layers one after another."""

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        encoded: Float[Tensor, "B K D"],
        key_padding_mask: Bool[Tensor, "B K"] | None = None,
        *,
        last: int | None = None,
    ) -> Float[Tensor, "B R D"]:
        """X (B, Q, D), the encoder's output (B, K, D), its padded steps (B, K) -> (B, Q, D), or its `last` rows."""
        # no rows are left out before the last layer: the self-attention of the next reads them all
        *before, final = self
        for layer in before:
            x = layer(x, encoded, key_padding_mask)
        return final(x, encoded, key_padding_mask, last=last)
