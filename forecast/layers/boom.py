"""The Boom layer, the feed-forward network of the SHA-RNN."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.layers.dropout import Dropout


class Boom(nn.Module):
    """A linear map to d_ff = N * D numbers, an activation, and the sum of the N runs of D: (B, L, D) -> (B, L, D).

    No map leads back, so it has half the weights of a `FeedForward` of the same width. The activation is the sigmoid
    form of GELU, see `sigmoid_gelu`. Merity 2019, "Single Headed Attention RNN: Stop thinking with your head".

    dropout: share of the wide activations that is dropped in training.
    Raises ValueError unless d_ff is a multiple of d_model.
    """

    def __init__(self, *, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        if d_ff % d_model:
            raise ValueError(
                f"d_ff ({d_ff}) must be a multiple of d_model ({d_model}): the Boom layer sums runs of d_model numbers"
            )
        self.d_model = d_model
        self.widen = nn.Linear(d_model, d_ff)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """(B, L, D) -> (B, L, D)."""
        wide = self.dropout(sigmoid_gelu(self.widen(x)))
        return torch.unflatten(wide, -1, (-1, self.d_model)).sum(-2)


def sigmoid_gelu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Gives x * sigmoid(1.702 x), element by element.

    Hendrycks and Gimpel 2016, "Gaussian error linear units", section 2.
    """
    return x * torch.sigmoid(1.702 * x)
