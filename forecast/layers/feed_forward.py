"""The position-wise feed-forward network."""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from forecast.layers.dropout import Dropout
from forecast.ops.dropout import drop_alike
from forecast.ops.recompute import recomputed

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
