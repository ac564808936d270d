"""Looking into a mechanism: the keys that it draws are the test's, the tensors that it makes are counted."""

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Given(nn.Module):
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
