"""Sees what is copied from one tensor to another."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

COPYING = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class Copies(TorchDispatchMode):
    """Within `with`, `seen` gets the device of every copy, and `gathered` counts the indexing operations."""

    def __init__(self):
        super().__init__()
        self.seen = []
        self.gathered = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func in COPYING:
            self.seen.append(result.device.type)
        self.gathered += func is torch.ops.aten.index_select.default
        return result
