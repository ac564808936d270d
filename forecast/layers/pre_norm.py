"""The addends of pre-norm residual layers."""

from jaxtyping import Float
from torch import Tensor, nn

from forecast.ops.dropout import Dropout


class PreNorm(nn.Module):
    """dropout(inner(norm(x))): the addend of a pre-norm residual layer, (B, L, D) -> (B, L, D).

    Xiong et al. 2020, "On layer normalization in the Transformer architecture".
    """

    def __init__(self, inner: nn.Module, *, d_model: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.inner = inner
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        return self.dropout(self.inner(self.norm(x)))
