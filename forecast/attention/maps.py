"""What attentions look at: the weights of each layer, computed beside the forecast and only when somebody looks."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from forecast.attention.base import Mechanism
from forecast.attention.prob_scrambled import ScrambledProbAttention

Place = tuple[str, int]  # a slot, and the number of a layer in it
METHODS = ("forward", "last_rows")  # by which a mechanism is called; inside the block each instance has its own

MEMBERS = re.compile(r"^(?:members\.\d+\.)*")  # of an ensemble, perhaps of ensembles


@contextmanager
def attention_weights(model: nn.Module) -> Iterator[dict[Place, Float[Tensor, "B H Q K"]]]:
    """A dictionary that holds, inside the block and after it, the attention weights of the model's last forecast.

    Its keys are (slot, layer): encoder, decoder (causal) or cross, of an ensemble after the member as in
    `members.1.encoder`, and the layer counted from 0 within the slot. A map is (B, H, Q, K), without gradient: row q
    are the shares of the K values in what query q gets. They sum to one, but for the inactive rows of causal
    `Informer2020ProbAttention`, which are sums, and for dropout in training.

    Q and K are those of the computation: rows that a decoder leaves out are not there, and the rows of decoding with a
    cache are joined to one map. `ScrambledProbAttention` is shown with heads and steps in their places.

    A mechanism gives its weights when the values are the identity, so each is called twice, with the same random
    numbers: the forecast keeps its bits, and costs its time and a matrix (Q, K) a head more.
    Raises ValueError for a model without attention.
    """
    mechanisms = [(name, part) for name, part in model.named_modules() if isinstance(part, Mechanism)]
    if not mechanisms:
        raise ValueError(
            f"{type(model).__name__} has no attention: none of its parts is a mechanism of forecast.attention"
        )
    maps: dict[Place, Tensor] = {}
    counts: Counter[str] = Counter()
    for name, mechanism in mechanisms:
        members, *_ = MEMBERS.findall(name)
        slot = members + ("cross" if "cross_attention" in name else "decoder" if mechanism.causal else "encoder")
        watch(mechanism, partial(maps.__setitem__, (slot, counts[slot])))
        counts[slot] += 1
    try:
        yield maps
    finally:
        for (_, mechanism), method in product(mechanisms, METHODS):
            del vars(mechanism)[method]


def watch(mechanism: Mechanism, keep: Callable[[Tensor], None]) -> None:
    """Has a mechanism hand its weights (B, H, Q, K) to `keep` at each call, decoding with a cache those of all rows."""
    latest: list[Tensor] = []  # the keys of the call before, and its map

    def called(method: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **sizes: int) -> Tensor:
        identity = torch.eye(v.shape[2], dtype=v.dtype, device=v.device).expand(*v.shape[:2], -1, -1)
        # forked: the call with the values draws the same numbers
        with torch.no_grad(), torch.random.fork_rng([v.device] if v.device.type == "cuda" else []):
            rows = method(q, k, identity, **sizes)
        if isinstance(mechanism, ScrambledProbAttention):
            rows = rows.transpose(1, 2).reshape(rows.shape)
        # decoding with a cache: self-attention has more keys than rows, cross-attention the same keys again
        if latest and (latest[0] is k if not sizes else k.shape[2] > q.shape[2]):
            rows = torch.cat([F.pad(latest[1], (0, k.shape[2] - latest[1].shape[3])), rows], dim=2)
        latest[:] = k, rows
        keep(rows)
        return method(q, k, v, **sizes)

    for name in METHODS:
        vars(mechanism)[name] = partial(called, getattr(mechanism, name))
