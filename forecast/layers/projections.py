"""How a sequence becomes queries, keys and values."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from forecast.layers.heads import split_heads


class StandardProjection(nn.Module):
    """Linear maps with bias to queries, keys and values, held as one matrix: in self-attention it is one product.

    d_model: width D of the sequences. n_heads: H; D must be a multiple of it.
    """

    def __init__(self, *, d_model: int, n_heads: int) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model ({d_model}) must be a multiple of n_heads ({n_heads})")
        self.n_heads = n_heads
        self.query_key_value = nn.Linear(d_model, 3 * d_model)

    def forward(
        self, x: Float[Tensor, "B Q D"], memory: Float[Tensor, "B K D"]
    ) -> tuple[Float[Tensor, "B H Q E"], Float[Tensor, "B H K E"], Float[Tensor, "B H K E"]]:
        """Queries of x (B, Q, D), keys and values of memory (B, K, D): (B, H, Q, E), (B, H, K, E) twice."""
        if memory is x:
            q, k, v = self.query_key_value(x).chunk(3, dim=-1)
        else:
            d_model = x.shape[-1]
            weight, bias = self.query_key_value.weight, self.query_key_value.bias
            q = F.linear(x, weight[:d_model], bias[:d_model])
            k, v = F.linear(memory, weight[d_model:], bias[d_model:]).chunk(2, dim=-1)
        return split_heads(q, self.n_heads), split_heads(k, self.n_heads), split_heads(v, self.n_heads)
