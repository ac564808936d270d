"""Where a window's columns lie and how far they spread, by which they are normalised."""

import math
from collections.abc import Callable, Mapping
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# Added to a window's variance: a constant column is divided by something.
EPSILON = 1e-5
TAIL = 0.25  # of the window's rows, which `tail` looks at

Normalization = Literal["mean_std", "last", "tail", "none"]
Padded = Bool[Tensor, "B L"] | None  # which rows fill the window in front of a short series
Place = tuple[Float[Tensor, "B 1 C"], Float[Tensor, "B 1 C"]]


def window_statistics(past: Float[Tensor, "B L C"], padded: Padded = None) -> Place:
    """Mean and standard deviation over time of each window's columns: (B, L, C) -> (B, 1, C) twice.

    padded (B, L): rows that do not count. EPSILON is added to the variance, so that a constant column is divided by
    something.
    """
    if padded is not None:
        counted = (~padded).unsqueeze(2)
        share = counted / counted.sum(1, keepdim=True)
        mean = (past * share).sum(1, keepdim=True)
        return mean, torch.sqrt(((past - mean).square() * share).sum(1, keepdim=True) + EPSILON)
    mean = past.mean(1, keepdim=True)
    # divided by L, not L - 1, which is 0 for a window of one step
    variance = past.var(1, keepdim=True, unbiased=False)
    return mean, torch.sqrt(variance + EPSILON)


def last_value(past: Float[Tensor, "B L C"], padded: Padded = None) -> Place:
    """The last value, and the standard deviation of the window: (B, L, C) -> (B, 1, C) twice."""
    return past[:, -1:], window_statistics(past, padded)[1]


def tail_statistics(past: Float[Tensor, "B L C"], padded: Padded = None) -> Place:
    """Mean and standard deviation of the last TAIL of the rows, two at least: (B, L, C) -> (B, 1, C) twice."""
    tail = slice(-max(2, math.ceil(TAIL * past.shape[1])), None)
    return window_statistics(past[:, tail], None if padded is None else padded[:, tail])


def unchanged(past: Float[Tensor, "B L C"], padded: Padded = None) -> Place:
    """0 and 1: (B, L, C) -> (B, 1, C) twice."""
    del padded
    first = past[:, :1]
    return torch.zeros_like(first), torch.ones_like(first)


NORMALIZATIONS: Mapping[str, Callable[[Tensor, Padded], Place]] = {
    "mean_std": window_statistics,
    "last": last_value,
    "tail": tail_statistics,
    "none": unchanged,
}
