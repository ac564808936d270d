"""Multi-head attention: a projection, a mechanism, and the merged heads projected back."""

from collections.abc import Callable
from typing import TypedDict

from jaxtyping import Float
from torch import Tensor, nn

from forecast.attention.base import Mechanism
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

    def forward(self, x: Float[Tensor, "B Q D"], memory: Float[Tensor, "B K D"]) -> Float[Tensor, "B Q D"]:
        """X (B, Q, D) attends to memory (B, K, D), itself in self-attention -> (B, Q, D)."""
        q, k, v = self.projection(x, memory)
        attended: Tensor = self.output(self.merge(self.mechanism(q, k, v)))
        return attended
