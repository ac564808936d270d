"""What autograd keeps between a forward and its backward pass."""

import weakref

import torch


def kept_bytes(module, run, given):
    """Bytes that are alive for the backward pass after run(*given), those of the module's parameters aside."""
    live = weakref.WeakSet()

    class Kept:
        def __init__(self, tensor):
            self.tensor = tensor.detach()  # an output that is kept would keep the graph that keeps it
            live.add(self)

    with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.tensor):
        outputs = run(*given)
    storages = {s.data_ptr(): s.nbytes() for s in (kept.tensor.untyped_storage() for kept in live)}
    weights = {p.untyped_storage().data_ptr() for p in module.parameters()}
    del outputs
    return sum(n_bytes for place, n_bytes in storages.items() if place not in weights)
