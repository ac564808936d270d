"""Full attention."""

from jaxtyping import Float
from torch import Tensor

from forecast.attention.base import Mechanism, Padding, check_self_lengths
from forecast.bounds import Scale, Share
from forecast.ops.softmax import attend, causal_rows


class FullAttention(Mechanism):
    """softmax(q k^T / sqrt(E)) v over all keys, or over those up to the query's own step when causal.

    Vaswani et al. 2017, "Attention is all you need"; computed by `attend`.
    scale: of the scores; None: 1 / sqrt(E). dropout: share of the attention weights that is dropped in training.
    """

    independent_rows = True
    masks_padding = True

    def __init__(self, *, causal: bool, layer: int, scale: Scale | None = None, dropout: Share = 0.0) -> None:
        super().__init__(causal=causal, layer=layer)
        self.scale = scale
        self.dropout = dropout

    def forward(
        self,
        q: Float[Tensor, "B H Q E"],
        k: Float[Tensor, "B H K E"],
        v: Float[Tensor, "B H K V"],
        padding: Padding | None = None,
    ) -> Float[Tensor, "B H Q V"]:
        """Of q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        if self.causal:
            # torch aligns its causal mask at the first key: right only when both lengths are equal
            check_self_lengths("causal full attention", q.shape[2], k.shape[2])
        rate = self.dropout if self.training else 0.0
        allowed = None if padding is None else ~padding.keys[:, None, None]
        return attend(q, k, v, allowed=allowed, causal=self.causal, dropout=rate, scale=self.scale)

    def last_rows(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"], *, length: int
    ) -> Float[Tensor, "B H Q V"]:
        """The last Q of K rows of the causal form: q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        del length
        # a mask of our own: torch's is_causal would show the first key alone to a single query
        allowed = causal_rows(q.shape[2], k.shape[2], q.device)
        rate = self.dropout if self.training else 0.0
        return attend(q, k, v, allowed=allowed, dropout=rate, scale=self.scale)
