"""Sees what is copied from one tensor to another."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

COPYING = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class Copies(TorchDispatchMode):
    """Within `with`, `seen` gets the device of every copy, and `gathered` counts the indexing operations.

    `awaited` counts those whose index lies on another device: it is copied there, and the program waits for a GPU.
    """

    def __init__(self):
        super().__init__()
        self.seen = []
        self.gathered = self.awaited = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func in COPYING:
            self.seen.append(result.device.type)
        self.gathered += func is torch.ops.aten.index_select.default
        if func is torch.ops.aten.index.Tensor:
            self.awaited += any(index is not None and index.device != args[0].device for index in args[1])
        return result
