"""The contract of an attention mechanism."""

from jaxtyping import Float
from torch import Tensor, nn


class Mechanism(nn.Module):
    """Mixes values over time. Owns no projection and no head logic.

    q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V)  ->  (B, H, Q, V); V is E in every model.
    Given the identity as v (V = K) a mechanism returns its attention weights (B, H, Q, K).

    causal: step t does not see the steps after t; then Q must equal K.
    layer: the number of the attention layer in its model, from 0. Random draws in evaluation depend on it.
    """

    def __init__(self, *, causal: bool, layer: int) -> None:
        super().__init__()
        self.causal = causal
        self.layer = layer

    def forward(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], v: Float[Tensor, "B H K V"]
    ) -> Float[Tensor, "B H Q V"]:
        """The values mixed over time: q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        raise NotImplementedError


def check_causal_lengths(name: str, n_queries: int, n_keys: int) -> None:
    """Raises ValueError unless there are as many queries as keys: "the past" of a query is told by position."""
    if n_queries != n_keys:
        raise ValueError(
            f"causal {name} got {n_queries} queries and {n_keys} keys; "
            "it serves self-attention only, where both are equal"
        )
