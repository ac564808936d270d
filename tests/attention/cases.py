"""The attentions that all laws are tested on: one row each. A new attention adds a row."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from forecast.attention.base import Mechanism
from forecast.attention.full import FullAttention
from forecast.attention.prob import ProbAttention
from forecast.attention.prob_informer2020 import Informer2020ProbAttention


@dataclass(frozen=True)
class Case:
    """An attention as conf/attention/NAME.yaml builds it.

    make, make_dense: with its default sizes, and with sizes at which it must equal full attention.
    selects: which rows get attention depends on all rows, the reason why its causal form is no strict one.
    averages: every row of its weights is a mean of values: not negative, summing to one.
    linear: claims to cost less than L^2, so it may build no (L, L) tensor.
    """

    name: str
    make: Callable[..., Mechanism]
    make_dense: Callable[..., Mechanism]
    selects: bool = False
    averages: bool = True
    linear: bool = False


CASES = [
    Case("full", FullAttention, FullAttention),
    Case(
        "prob",
        partial(ProbAttention, factor=1),
        partial(ProbAttention, factor=1000),
        selects=True,
        linear=True,
    ),
    Case(
        "prob_informer2020",
        partial(Informer2020ProbAttention, factor=1),
        partial(Informer2020ProbAttention, factor=1000),
        selects=True,
        averages=False,  # an inactive row of the causal form is a sum
        linear=True,
    ),
]
