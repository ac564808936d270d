"""Convolution over the steps of a window that is closed to a circle."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from forecast.ops.autocast import autocast_dtype
from forecast.ops.recompute import recomputed


class CircularConv(nn.Conv1d):
    """Each step from itself and its two neighbours, those of the ends from the other end: (B, L, C) -> (B, L, D).

    The parameters are those of a Conv1d with kernel_size 3. The neighbours stand beside each step, so that it is one
    matrix product and the sequence need not be turned.
    """

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__(n_inputs, n_outputs, kernel_size=3)

    def forward(self, x: Float[Tensor, "B L C"]) -> Float[Tensor, "B L D"]:
        """(B, L, C) -> (B, L, D)."""
        dtype = autocast_dtype(x.device)
        if dtype is not None:
            x = x.to(dtype)  # once, and not the three copies
        beside = neighbours(x)
        with recomputed(beside, lambda: neighbours(x)):
            # (D, C, 3) -> (D, 3 C), in the order of `neighbours`: all columns of a step together
            return F.linear(beside, self.weight.transpose(1, 2).flatten(1), self.bias)


def neighbours(x: Float[Tensor, "B L C"]) -> Float[Tensor, "B L D"]:
    """Each step between the one before and the one after: (B, L, C) -> (B, L, 3 C)."""
    closed = torch.cat([x[:, -1:], x, x[:, :1]], dim=1)
    return torch.cat([closed[:, :-2], x, closed[:, 2:]], dim=-1)
