"""ProbSparse attention with the missing transpose of its re-implementations."""

from jaxtyping import Float
from torch import Tensor

from forecast.attention.base import Padding
from forecast.attention.prob import ProbAttention


class ScrambledProbAttention(ProbAttention):
    """`ProbAttention` whose rows are read in the wrong order: its (B, H, Q, V) as if it were (B, Q, H, V).

    Public re-implementations of the Informer merge the heads by a `view` of the (B, H, Q, V) tensor, without the
    transpose that belongs before it. A merged row then holds H consecutive steps of one head. The authors' code does
    so, as `mix`, after the decoder's self-attention alone; the copies do it in the encoder too. Here the rows leave the
    mechanism in that order, for a layer that merges heads rightly.

    Exceptions to the laws: heads and steps change places, so that a row holds what other heads and, in a causal layer,
    later steps have seen, and with all rows active it is full attention in another order.
    """

    def forward(
        self,
        q: Float[Tensor, "B H Q E"],
        k: Float[Tensor, "B H K E"],
        v: Float[Tensor, "B H K V"],
        padding: Padding | None = None,
    ) -> Float[Tensor, "B H Q V"]:
        """Of q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        out = super().forward(q, k, v, padding)
        batch, heads, length, width = out.shape
        # the sizes change places and the numbers do not: this is the mistake
        return out.reshape(batch, length, heads, width).transpose(1, 2)
