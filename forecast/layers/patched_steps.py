"""Patches as steps: a run of steps is one step of so many times as many columns."""

import torch
from jaxtyping import Float
from torch import Tensor


def patched(rows: Float[Tensor, "B L C"], patch_len: int, *, first: bool) -> Float[Tensor, "B N W"]:
    """Each patch_len steps side by side: (B, L, C) -> (B, N, W), N = L / patch_len rounded up, W = patch_len * C.

    All columns of a patch's first step stand before those of its second. What lacks to a whole patch are repetitions
    of the first step before it, when `first`, else of the last step behind the last.
    """
    lacking = -rows.shape[1] % patch_len
    if lacking and first:
        rows = torch.cat([rows[:, :1].expand(-1, lacking, -1), rows], dim=1)
    elif lacking:
        rows = torch.cat([rows, rows[:, -1:].expand(-1, lacking, -1)], dim=1)
    return torch.unflatten(rows, 1, (-1, patch_len)).flatten(2)


def unpatched(patches: Float[Tensor, "B N W"], patch_len: int, steps: int) -> Float[Tensor, "B P C"]:
    """The first `steps` steps of patches: (B, N, patch_len * C) -> (B, P, C)."""
    return torch.unflatten(patches, 2, (patch_len, -1)).flatten(1, 2)[:, :steps]
