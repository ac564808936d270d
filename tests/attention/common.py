"""Inputs of an attention, a sampler whose keys the test chooses, and the size of the tensors that are made."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

B, H, Q, E = 2, 3, 11, 5
BOTH = pytest.mark.parametrize("causal", [False, True], ids=["plain", "causal"])


def qkv(n_queries=Q, n_keys=None, *, batch=B, heads=H, dtype=torch.float32, seed=0):
    """Random (batch, heads, length, E), as many keys as queries where no number is named."""
    generator = torch.Generator().manual_seed(seed)
    lengths = (n_queries, n_keys or n_queries, n_keys or n_queries)
    return [torch.randn(batch, heads, n, E, generator=generator, dtype=torch.float64).to(dtype) for n in lengths]


class ChosenKeys(nn.Module):
    """A sampler whose keys the test chose."""

    def __init__(self, sample):
        super().__init__()
        self.sample = torch.tensor(sample)

    def forward(self, n_queries, n_keys, n_samples, device):
        return self.sample


class LargestTensor(TorchDispatchMode):
    """The most elements of any tensor that an operation gives."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.most = max([getattr(self, "most", 0), *(t.numel() for t in tree_leaves(result) if torch.is_tensor(t))])
        return result
