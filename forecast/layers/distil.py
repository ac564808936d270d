"""Distilling: between two encoder layers the sequence is halved."""

from jaxtyping import Float
from torch import Tensor, nn


class Distil(nn.Module):
    """Convolution (circular), batch normalisation, ELU, max pooling with stride 2: (B, L, D) -> (B, ceil(L / 2), D).

    Zhou et al. 2021, "Self-attention Distilling"; the batch normalisation is in the authors' code (29f2a73), not in the
    paper. In training its statistics are those of the batch.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(d_model, d_model, kernel_size=3, padding=1, padding_mode="circular")
        self.norm = nn.BatchNorm1d(d_model)
        self.activation = nn.ELU()
        self.pool = nn.MaxPool1d(kernel_size=3, stride=2, padding=1)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B M D"]:
        """(B, L, D) -> (B, M, D), M = ceil(L / 2)."""
        pooled: Tensor = self.pool(self.activation(self.norm(self.conv(x.transpose(1, 2)))))
        return pooled.transpose(1, 2)
