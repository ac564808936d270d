"""Distilling: between two encoder layers the sequence is halved."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from forecast.layers.circular_conv import CircularConv


class Distil(nn.Module):
    """Convolution (circular), batch normalisation, ELU, max pooling with stride 2: (B, L, D) -> (B, ceil(L / 2), D).

    Zhou et al. 2021, "Self-attention Distilling"; the batch normalisation is in the authors' code (29f2a73), not in the
    paper. In training its statistics are those of the batch.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.conv = CircularConv(d_model, d_model)
        self.norm = nn.BatchNorm1d(d_model)
        self.activation = nn.ELU()

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B M D"]:
        """(B, L, D) -> (B, M, D), M = ceil(L / 2)."""
        convolved = self.conv(x)
        activated = self.activation(self.norm(convolved.flatten(0, 1))).view_as(convolved)
        # as a picture one element high, (B, D, L, 1), for which torch pools all elements of a step at once
        pooled = F.max_pool2d(activated.mT.unsqueeze(-1), (3, 1), stride=(2, 1), padding=(1, 0))
        return pooled.squeeze(-1).mT
