"""Columns of a tensor by their numbers."""

from collections.abc import Sequence

import torch
from torch import Tensor


def take_columns(x: Tensor, columns: Sequence[int], dim: int = 2) -> Tensor:
    """The columns of x along `dim`, in their order: a view where each follows the one before it, else a copy.

    By slices: a GPU is waited for to index by a list of numbers, which is copied there each time.
    """
    runs: list[list[int]] = []  # begin and length of columns that follow each other
    for column in columns:
        if runs and column == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([column, 1])
    parts = [x.narrow(dim, begin, length) for begin, length in runs or [[0, 0]]]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim)
