"""Patches of columns: runs of steps that become one element of a sequence, and what stands beside a column."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from forecast.ops.columns import take_columns

CATEGORY_WIDTH = 4  # numbers that a category has at each step


def count_patches(seq_len: int, patch_len: int, stride: int) -> int:
    """How many patches `cut_patches` makes. Raises ValueError when there is none."""
    if patch_len > seq_len + stride:
        raise ValueError(
            f"model.patch_len ({patch_len}) must be at most seq_len ({seq_len}) + model.stride ({stride}), the window "
            f"with its padding: set model.patch_len={seq_len + stride} or lower, or seq_len={patch_len - stride} or "
            "higher"
        )
    return (seq_len + stride - patch_len) // stride + 1


def cut_patches(columns: Float[Tensor, "S L"], patch_len: int, stride: int) -> Float[Tensor, "S N W"]:
    """S series of L steps into N patches of W = patch_len: (S, L) -> (S, N, W).

    Each series is lengthened by `stride` repetitions of its last value, and a patch starts at every stride-th step as
    long as it fits; what is left over at the end is padding.
    """
    padded = F.pad(columns.unsqueeze(1), (0, stride), mode="replicate").squeeze(1)
    return padded.unfold(1, patch_len, stride)


class ColumnsBeside(nn.Module):
    """What stands beside a column in its patches: observed columns in those of the window, and the known features in
    these and in further patches of the forecast steps, (B, N, D) with N those of both.

    A map each from a patch of the observed columns, of the known features in the window and of those at the forecast
    steps to the D elements; a category has CATEGORY_WIDTH numbers of its own, the one that the training did not see
    zeros. The patches of the forecast steps hold every one of these, the last one's last step over again.

    n_observed: columns. n_known: F. covariates (K,): what the last K of the F are, 0 for a number, n for one of n
    categories; with none the known features are not read and there are no further patches.
    """

    def __init__(
        self,
        *,
        n_observed: int,
        n_known: int,
        covariates: Sequence[int],
        pred_len: int,
        patch_len: int,
        stride: int,
        d_model: int,
    ) -> None:
        super().__init__()
        self.patch_len, self.stride = patch_len, stride
        self.observed = nn.Linear(n_observed * patch_len, d_model, bias=False) if n_observed else None
        self.categories = [n_known - len(covariates) + i for i, size in enumerate(covariates) if size]
        self.numbers = [i for i in range(n_known) if i not in self.categories]
        self.tables = nn.ModuleList(nn.Embedding(size, CATEGORY_WIDTH, padding_idx=0) for size in covariates if size)
        width = (len(self.numbers) + CATEGORY_WIDTH * len(self.categories)) * patch_len
        self.known = nn.Linear(width, d_model, bias=False) if covariates else None
        self.future = nn.Linear(width, d_model) if covariates else None
        self.future_stride = min(stride, patch_len)  # a wider one would leave steps out
        beyond_first = -(-max(0, pred_len - patch_len) // self.future_stride)
        self.future_rows = beyond_first * self.future_stride + patch_len
        self.n_future = 1 + beyond_first if covariates else 0

    def forward(
        self, past: Float[Tensor, "B L O"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B N D"]:
        """Observed columns (B, L, O), known features (B, L, F) and (B, P, F) -> (B, N, D)."""
        parts = []
        if self.observed is not None:
            parts.append(self.observed(self.cut(past)))
        if self.known is None or self.future is None:
            return parts[0]
        parts.append(self.known(self.cut(self.steps(past_known))))
        ahead = self.steps(future_known).transpose(1, 2)
        ahead = F.pad(ahead, (0, self.future_rows - ahead.shape[2]), mode="replicate")
        patches = ahead.unfold(2, self.patch_len, self.future_stride).transpose(1, 2).flatten(2)
        return torch.cat([torch.stack(parts).sum(0), self.future(patches)], dim=1)

    def cut(self, columns: Float[Tensor, "B L O"]) -> Float[Tensor, "B N OW"]:
        """The patches of all columns side by side: (B, L, O) -> (B, N, O W)."""
        rows = columns.transpose(1, 2)
        patches = cut_patches(rows.flatten(0, 1), self.patch_len, self.stride)  # (B * O, N, W)
        return patches.reshape(*rows.shape[:2], *patches.shape[1:]).transpose(1, 2).flatten(2)

    def steps(self, known: Float[Tensor, "B R F"]) -> Float[Tensor, "B R N"]:
        """Known features with the numbers of their categories: (B, R, F) -> (B, R, N)."""
        parts = [take_columns(known, self.numbers)] if self.numbers else []
        parts += [table(known[..., i].long()) for i, table in zip(self.categories, self.tables, strict=True)]
        return torch.cat(parts, dim=2)
