"""The position-wise feed-forward network."""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from forecast.layers.dropout import Dropout

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
        # of gelu's result nothing is kept for the backward pass, so that it can be dropped where it stands
        self.inner_dropout = Dropout(dropout, inplace=activation == "gelu")

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        narrowed: Tensor = self.dropout(self.narrow(self.inner_dropout(self.activation(self.widen(x)))))
        return narrowed
