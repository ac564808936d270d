"""What attentions look at: the weights of each layer, computed beside the forecast and only when somebody looks."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from forecast.attention.base import Mechanism, Padding
from forecast.attention.prob import ProbAttention
from forecast.attention.prob_scrambled import ScrambledProbAttention

Place = tuple[str, int]  # a slot, and the number of a layer in it
METHODS = ("forward", "last_rows")  # by which a mechanism is called; inside the block each instance has its own

MEMBERS = re.compile(r"^(?:members\.\d+\.)*")  # of an ensemble, perhaps of ensembles


class Maps(dict[Place, Float[Tensor, "B H Q K"]]):
    """Attention weights by slot and layer.

    active, measures: of each ProbSparse attention which queries attend, (B, H, Q), and the measure that they were
    chosen by, (B, H, Q).
    """

    def __init__(self) -> None:
        super().__init__()
        self.active: dict[Place, Bool[Tensor, "B H Q"]] = {}
        self.measures: dict[Place, Float[Tensor, "B H Q"]] = {}

    def keep(self, place: Place, weights: Tensor, active: Tensor | None, measure: Tensor | None) -> None:
        """Takes those of one call in place of those of the call before."""
        self[place] = weights
        if active is not None and measure is not None:
            self.active[place], self.measures[place] = active, measure


@contextmanager
def attention_weights(model: nn.Module) -> Iterator[Maps]:
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
    maps = Maps()
    counts: Counter[str] = Counter()
    for name, mechanism in mechanisms:
        members, *_ = MEMBERS.findall(name)
        slot = members + ("cross" if "cross_attention" in name else "decoder" if mechanism.causal else "encoder")
        watch(mechanism, partial(maps.keep, (slot, counts[slot])))
        counts[slot] += 1
    try:
        yield maps
    finally:
        for (_, mechanism), method in product(mechanisms, METHODS):
            del vars(mechanism)[method]


def watch(mechanism: Mechanism, keep: Callable[[Tensor, Tensor | None, Tensor | None], None]) -> None:
    """Has a mechanism hand its weights (B, H, Q, K) to `keep` at each call, decoding with a cache those of all rows.

    With them, for ProbSparse, which rows are active and their measure, (B, H, Q) both; else None.
    """
    latest: list[Tensor] = []  # the keys of the call before, and its map

    def called(
        method: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, *padding: Padding, **sizes: int
    ) -> Tensor:
        def beside(call: Callable[..., Tensor], *arguments: Tensor) -> Tensor:
            # forked: the call with the values draws the same numbers
            with torch.no_grad(), torch.random.fork_rng([v.device] if v.device.type == "cuda" else []):
                return call(*arguments, *padding, **sizes)

        identity = torch.eye(v.shape[2], dtype=v.dtype, device=v.device).expand(*v.shape[:2], -1, -1)
        rows = beside(method, q, k, identity)
        if isinstance(mechanism, ScrambledProbAttention):
            rows = rows.transpose(1, 2).reshape(rows.shape)
        # decoding with a cache: self-attention has more keys than rows, cross-attention the same keys again
        if latest and (latest[0] is k if not sizes else k.shape[2] > q.shape[2]):
            rows = torch.cat([F.pad(latest[1], (0, k.shape[2] - latest[1].shape[3])), rows], dim=2)
        latest[:] = k, rows
        active = measure = None
        if isinstance(mechanism, ProbAttention):
            measure, selected = beside(mechanism.measured, q, k), beside(mechanism.selected, q, k)
            # an unused slot is -1: it goes to a place after the last row, which is cut off
            places = selected.where(selected >= 0, q.shape[2])
            active = F.pad(torch.zeros_like(measure, dtype=torch.bool), (0, 1)).scatter(2, places, True)[..., :-1]
        keep(rows, active, measure)
        return method(q, k, v, *padding, **sizes)

    for name in METHODS:
        vars(mechanism)[name] = partial(called, getattr(mechanism, name))
