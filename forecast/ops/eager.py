"""Where a form of our own for CPUs is taken."""

import torch
from torch import Tensor


def eager_on_cpu(x: Tensor) -> bool:
    """Whether x lies on a CPU and nothing is being compiled: GPUs and compilers have better forms of their own."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()
