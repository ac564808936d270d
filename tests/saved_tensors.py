"""What autograd saves between a forward and its backward pass."""

import weakref

import torch


def saved_bytes(module, run, inputs):
    """Bytes that are alive for the backward pass after run(*inputs), those of the module's parameters aside."""
    live = weakref.WeakSet()

    class Saved:
        def __init__(self, tensor):
            self.tensor = tensor.detach()  # a saved output would keep alive the graph that saves it
            live.add(self)

    with torch.autograd.graph.saved_tensors_hooks(Saved, lambda saved: saved.tensor):
        outputs = run(*inputs)
    storages = {s.data_ptr(): s.nbytes() for s in (saved.tensor.untyped_storage() for saved in live)}
    weights = {p.untyped_storage().data_ptr() for p in module.parameters()}
    del outputs
    return sum(n_bytes for place, n_bytes in storages.items() if place not in weights)
