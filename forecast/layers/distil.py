"""Distilling: between two encoder layers the sequence is halved."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from forecast.layers.embedding import CircularConv


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
        # all steps as one batch: the same statistics as of (B, D, L), and the sequence need not be turned
        activated = self.activation(self.norm(convolved.flatten(0, 1))).view_as(convolved)
        return pooled(activated)


def pooled_mask(key_padding_mask: Bool[Tensor, "B L"]) -> Bool[Tensor, "B M"]:
    """Which steps of the halved sequence are made of masked ones alone: (B, L) -> (B, M), M = ceil(L / 2)."""
    return pooled((~key_padding_mask).float().unsqueeze(2)).squeeze(2) == 0


def pooled(x: Float[Tensor, "B L D"]) -> Float[Tensor, "B M D"]:
    """The maximum of every second step and its two neighbours: (B, L, D) -> (B, M, D), M = ceil(L / 2).

    Without gradients as maxima of whole rows, 30 times as fast on a CPU; with them torch's pooling, whose gradient goes
    to one of equal elements.
    """
    if torch.is_grad_enabled() and x.requires_grad:
        # as a picture one element high, (B, D, L, 1), for which torch pools all elements of a step at once
        picture = F.max_pool2d(x.mT.unsqueeze(-1), (3, 1), stride=(2, 1), padding=(1, 0))
        return picture.squeeze(-1).mT
    padded = F.pad(x, (0, 0, 1, 1), value=-math.inf)
    return torch.maximum(torch.maximum(padded[:, :-2:2], padded[:, 1:-1:2]), padded[:, 2::2])
