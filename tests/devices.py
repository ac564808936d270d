"""A device without a GPU: tensors on `meta`, with their numbers, and no operation on two devices at once."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

META = torch.device("meta")
COPYING = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class OneDevice(TorchDispatchMode):
    """Within `with`, an operation on tensors of two devices is an error, but for copies and single numbers.

    A GPU takes some such operations, an index on the CPU among them, and waits for each; kernels of `meta` take more.
    """

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        check_one_device(function, args, kwargs or {})
        return function(*args, **(kwargs or {}))


def check_one_device(function, args, kwargs):
    devices = set()

    def note(tensor):
        if tensor.dim() or tensor.device.type != "cpu":
            devices.add(tensor.device.type)

    tree_map_only(torch.Tensor, note, (args, kwargs))
    if len(devices) > 1 and function not in COPYING:
        raise RuntimeError(f"{function} on tensors of {' and '.join(sorted(devices))}")
