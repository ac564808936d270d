"""The layers of decoder-only models: causal self-attention and feed-forward."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from forecast.layers.attention_layer import AttentionFactories
from forecast.layers.blocks import BlockSizes, CachedLayer, CachedStack
from forecast.layers.cache import LayerCache
from forecast.ops.dropout import Dropout


class CausalLayer(CachedLayer):
    """Causal self-attention, then feed-forward; a subclass adds and normalises in its own order.

    layer: the number of its attention in the model.
    """

    def __init__(self, sizes: BlockSizes, attention: AttentionFactories, *, layer: int) -> None:
        super().__init__()
        self.attention = sizes.attention(attention, layer=layer, causal=True)
        self.feed_forward = sizes.feed_forward()
        self.norm1 = nn.LayerNorm(sizes.d_model)
        self.norm2 = nn.LayerNorm(sizes.d_model)
        self.dropout = Dropout(sizes.dropout)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        return self._with_attention(x, lambda x: self.attention(x, x))

    def new_cache(self, capacity: int) -> LayerCache:
        """The empty cache of `capacity` steps, for `next_rows`."""
        return self.attention.new_cache(capacity)

    def next_rows(self, x: Float[Tensor, "B M D"], cache: LayerCache) -> Float[Tensor, "B M D"]:
        """The rows of `forward` for the M steps after those in the cache, which they join: (B, M, D)."""
        return self._with_attention(x, lambda x: self.attention.next_rows(x, cache))

    def _with_attention(self, x: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
        raise NotImplementedError

    @classmethod
    def last_norm(cls, d_model: int) -> nn.Module:
        """What follows the last layer: (B, L, D) -> (B, L, D)."""
        raise NotImplementedError


class PostNormLayer(CausalLayer):
    """Each part is added to its input and the sum normalised. Vaswani et al. 2017."""

    def _with_attention(self, x: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
        x = self.norm1(x + self.dropout(attend(x)))
        return self.norm2(x + self.feed_forward(x))

    @classmethod
    def last_norm(cls, d_model: int) -> nn.Module:
        """Nothing: the last layer ends with a norm."""
        del d_model
        return nn.Identity()


class PreNormLayer(CausalLayer):
    """Each part reads its normalised input and is added to the input itself. Radford et al. 2019, section 2.3."""

    def _with_attention(self, x: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
        x = x + self.dropout(attend(self.norm1(x)))
        return x + self.feed_forward(self.norm2(x))

    @classmethod
    def last_norm(cls, d_model: int) -> nn.Module:
        """A norm of the sum of all layers."""
        return nn.LayerNorm(d_model)


class CausalStack(CachedStack[CausalLayer]):
    """Causal layers one after another."""

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        for layer in self:
            x = layer(x)
        return x
