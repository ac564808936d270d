"""The attentions that all laws are tested on: one row each. A new attention adds a row."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from attention import lsh_oracle, oracles, pattern_oracles, prob_causal_oracle

from forecast.attention import reference
from forecast.attention.autocorrelation import AutoCorrelation
from forecast.attention.base import Mechanism
from forecast.attention.fixed import FixedAttention
from forecast.attention.full import FullAttention
from forecast.attention.logsparse import LogSparseAttention
from forecast.attention.lsh import LshAttention
from forecast.attention.mean import MeanAttention
from forecast.attention.none import NoAttention
from forecast.attention.prob import ProbAttention
from forecast.attention.prob_causal import CausalProbAttention
from forecast.attention.prob_informer2020 import Informer2020ProbAttention
from forecast.attention.prob_scrambled import ScrambledProbAttention
from forecast.attention.strided import StridedAttention
from forecast.attention.topk import TopKAttention


@dataclass(frozen=True)
class Case:
    """An attention as conf/attention/NAME.yaml builds it.

    oracle: its weights by its paper's rule, see oracles.py.
    sizes: fit for tests; dense_sizes: length -> sizes at which it sees all it may see.
    dense_allowed: (causal, length) -> what it may see at its dense limit, (L, L).
    selects: which rows get attention depends on all rows, the reason why its causal form is no strict one.
    ignores: what of later steps a causal row does not depend on; without k, later keys decide which steps meet.
    averages: every row of its weights is a mean of values: not negative, summing to one.
    blind: its weights depend on no query and no key; its dense limit is full attention of queries that are zero.
    circular: its weights are of delays: it has no dense limit and no causal form, and zeros stand in for missing keys.
    cheap: claims to cost less than L^2, so it may build no (L, L) tensor.
    """

    name: str
    kind: Callable[..., Mechanism]
    oracle: Callable[[Mechanism, np.ndarray, np.ndarray], np.ndarray]
    sizes: Mapping[str, Any] = field(default_factory=dict)
    dense_sizes: Callable[[int], Mapping[str, Any]] = lambda length: {}
    dense_allowed: Callable[[bool, int], np.ndarray] = lambda causal, length: (
        reference.causal_mask(length) if causal else oracles.everything(length, length)
    )
    selects: bool = False
    ignores: tuple[str, ...] = ("q", "k", "v")
    averages: bool = True
    blind: bool = False
    circular: bool = False
    cheap: bool = False

    @property
    def make(self):
        return partial(self.kind, **self.sizes)


class InOrder(ScrambledProbAttention):
    """Its rows back in their places.

    As it is it breaks the laws of heads, of causality and of the dense limit, because heads and steps change places;
    test_prob_scrambled.py shows that and that nothing else is wrong with it.
    """

    def forward(self, q, k, v, padding=None):
        out = super().forward(q, k, v, padding)
        return out.transpose(1, 2).reshape(out.shape)


def all_rows(length):
    return {"factor": 1000}


PROB = {"sizes": {"factor": 1}, "dense_sizes": all_rows, "selects": True, "cheap": True}
PATTERN = {"oracle": pattern_oracles.weights, "cheap": True}
AS_WIDE = {"dense_sizes": lambda length: {"window": length}}

CASES = [
    Case("full", FullAttention, oracles.full),
    Case("single_head", FullAttention, oracles.full),  # its own part is the projection
    Case(
        "none",
        NoAttention,
        oracles.none,
        dense_allowed=lambda causal, length: np.eye(length, dtype=bool),  # a step sees itself, whatever its size
        blind=True,
        cheap=True,
    ),
    Case("mean", MeanAttention, oracles.mean, blind=True, cheap=True),
    Case("autocorrelation", AutoCorrelation, oracles.autocorrelation, {"factor": 2}, circular=True, cheap=True),
    Case("topk", TopKAttention, oracles.topk, {"k": 3}, lambda length: {"k": 1000}),
    Case("prob", ProbAttention, oracles.prob, **PROB),
    # an inactive row of the causal form is a sum
    Case("prob_informer2020", Informer2020ProbAttention, oracles.prob_informer2020, averages=False, **PROB),
    Case("prob_scrambled", InOrder, oracles.prob, **PROB),
    Case(
        "prob_causal", CausalProbAttention, prob_causal_oracle.weights, {"factor": 1, "budget": 2}, all_rows, cheap=True
    ),
    Case(
        "lsh",
        LshAttention,
        lsh_oracle.weights,
        {"bucket_size": 2, "n_hashes": 3},
        lambda length: {"bucket_size": math.ceil(length / 2)},  # one pair of chunks holds all steps
        dense_allowed=lsh_oracle.dense_allowed,
        ignores=("q", "v"),
        cheap=True,
    ),
    Case("logsparse", LogSparseAttention, sizes={"sub_len": 4, "window": 1}, **PATTERN, **AS_WIDE),
    Case("strided", StridedAttention, sizes={"window": 3}, **PATTERN, **AS_WIDE),
    Case(
        "fixed",
        FixedAttention,
        sizes={"block": 4, "summary": 2},
        dense_sizes=lambda length: {"block": length},
        **PATTERN,
    ),
]
