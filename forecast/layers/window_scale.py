"""Where a window's columns lie and how far they spread, by which they are normalised."""

import math
from collections.abc import Callable, Mapping
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

# Added to a window's variance: a constant column is divided by something.
EPSILON = 1e-5
TAIL = 0.25  # of the window's rows, which `tail` looks at

Normalization = Literal["mean_std", "last", "tail", "none"]
Place = tuple[Float[Tensor, "B 1 C"], Float[Tensor, "B 1 C"]]


def window_statistics(past: Float[Tensor, "B L C"]) -> Place:
    """Mean and standard deviation over time of each window's columns: (B, L, C) -> (B, 1, C) twice.

    EPSILON is added to the variance, so that a constant column is divided by something.
    """
    mean = past.mean(1, keepdim=True)
    # divided by L, not L - 1, which is 0 for a window of one step
    variance = past.var(1, keepdim=True, unbiased=False)
    return mean, torch.sqrt(variance + EPSILON)


def last_value(past: Float[Tensor, "B L C"]) -> Place:
    """The last value, and the standard deviation of the window: (B, L, C) -> (B, 1, C) twice."""
    return past[:, -1:], window_statistics(past)[1]


def tail_statistics(past: Float[Tensor, "B L C"]) -> Place:
    """Mean and standard deviation of the last TAIL of the rows, two at least: (B, L, C) -> (B, 1, C) twice."""
    return window_statistics(past[:, -max(2, math.ceil(TAIL * past.shape[1])) :])


def unchanged(past: Float[Tensor, "B L C"]) -> Place:
    """0 and 1: (B, L, C) -> (B, 1, C) twice."""
    first = past[:, :1]
    return torch.zeros_like(first), torch.ones_like(first)


NORMALIZATIONS: Mapping[str, Callable[[Tensor], Place]] = {
    "mean_std": window_statistics,
    "last": last_value,
    "tail": tail_statistics,
    "none": unchanged,
}
