"""The attentions that all laws are tested on: one row each. A new attention adds a row."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from attention import lsh_oracle, oracles, pattern_oracles, prob_causal_oracle

from forecast.attention import reference
from forecast.attention.base import Mechanism
from forecast.attention.fixed import FixedAttention
from forecast.attention.full import FullAttention
from forecast.attention.logsparse import LogSparseAttention
from forecast.attention.lsh import LshAttention
from forecast.attention.prob import ProbAttention
from forecast.attention.prob_causal import CausalProbAttention
from forecast.attention.prob_informer2020 import Informer2020ProbAttention
from forecast.attention.prob_scrambled import ScrambledProbAttention
from forecast.attention.strided import StridedAttention
from forecast.attention.topk import TopKAttention


@dataclass(frozen=True)
class Case:
    """An attention as conf/attention/NAME.yaml builds it.

    make, make_dense: with sizes fit for tests, and with sizes at which it sees all it may see.
    oracle: its weights by its paper's rule, see oracles.py.
    dense_allowed: (causal, length) -> what it may see at its dense limit, (L, L).
    selects: which rows get attention depends on all rows, the reason why its causal form is no strict one.
    ignores: what of later steps a causal row does not depend on; without k, later keys decide which steps meet.
    averages: every row of its weights is a mean of values: not negative, summing to one.
    cheap: claims to cost less than L^2, so it may build no (L, L) tensor.
    """

    name: str
    make: Callable[..., Mechanism]
    make_dense: Callable[..., Mechanism]
    oracle: Callable[[Mechanism, np.ndarray, np.ndarray], np.ndarray]
    dense_allowed: Callable[[bool, int], np.ndarray] = lambda causal, length: (
        reference.causal_mask(length) if causal else oracles.everything(length, length)
    )
    selects: bool = False
    ignores: tuple[str, ...] = ("q", "k", "v")
    averages: bool = True
    cheap: bool = False


class InOrder(ScrambledProbAttention):
    """Its rows back in their places.

    As it is it breaks the laws of heads, of causality and of the dense limit, because heads and steps change places;
    test_prob_scrambled.py shows that and that nothing else is wrong with it.
    """

    def forward(self, q, k, v):
        out = super().forward(q, k, v)
        return out.transpose(1, 2).reshape(out.shape)


CASES = [
    Case("full", FullAttention, FullAttention, oracles.full),
    Case("single_head", FullAttention, FullAttention, oracles.full),  # its own part is the projection
    Case(
        "prob",
        partial(ProbAttention, factor=1),
        partial(ProbAttention, factor=1000),
        oracles.prob,
        selects=True,
        cheap=True,
    ),
    Case(
        "prob_informer2020",
        partial(Informer2020ProbAttention, factor=1),
        partial(Informer2020ProbAttention, factor=1000),
        oracles.prob_informer2020,
        selects=True,
        averages=False,  # an inactive row of the causal form is a sum
        cheap=True,
    ),
    Case(
        "prob_scrambled",
        partial(InOrder, factor=1),
        partial(InOrder, factor=1000),
        oracles.prob,
        selects=True,
        cheap=True,
    ),
    Case("topk", partial(TopKAttention, k=3), partial(TopKAttention, k=1000), oracles.topk),
    Case(
        "prob_causal",
        partial(CausalProbAttention, factor=1, budget=2),
        partial(CausalProbAttention, factor=1000),
        prob_causal_oracle.weights,
        cheap=True,
    ),
    Case(
        "lsh",
        partial(LshAttention, bucket_size=2, n_hashes=3),
        lsh_oracle.OnePair,
        lsh_oracle.weights,
        dense_allowed=lsh_oracle.dense_allowed,
        ignores=("q", "v"),
        cheap=True,
    ),
    Case(
        "logsparse",
        partial(LogSparseAttention, sub_len=4, window=1),
        partial(pattern_oracles.Whole, LogSparseAttention, "window"),
        pattern_oracles.logsparse,
        cheap=True,
    ),
    Case(
        "strided",
        partial(StridedAttention, window=3),
        partial(pattern_oracles.Whole, StridedAttention, "window"),
        pattern_oracles.strided,
        cheap=True,
    ),
    Case(
        "fixed",
        partial(FixedAttention, block=4, summary=2),
        partial(pattern_oracles.Whole, FixedAttention, "block"),
        pattern_oracles.fixed,
        cheap=True,
    ),
]
