"""ProbSparse attention whose causal form is strictly causal."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from forecast.attention.base import Padding, check_self_lengths
from forecast.attention.key_sampling import KeySamplingName
from forecast.attention.prob import ProbAttention, n_active
from forecast.bounds import Positive, Scale, Seed, Share

BLOCK_ROWS = 256  # compared with each other at once


class CausalProbAttention(ProbAttention):
    """ProbSparse attention in which no later step decides whether a row is active. Not causal it is `ProbAttention`.

    When causal, rows are taken in the order of time. Row i, the (i+1)-th, is a candidate if fewer than
    n_active(i + 1, factor) of the rows before it have a measure as large as its own or larger: on a tie the earlier
    row wins. The first `budget` * n_active(L, factor) candidates are active, in that order. The measure is
    that of `ProbAttention`, which looks at keys up to the row's own step alone; which keys are sampled depends on the
    length and the seed. So a row depends on nothing but itself and the steps before it.

    At most `budget` * u rows attend, u = n_active(L, factor): the cost stays that of L log L. Of independent, equally
    distributed measures about factor * ln(L)^2 / 2 rows are candidates, beside the first rows, which all are; from
    ln(L) near 2 * budget on, or where the measure grows with time, the budget is spent early: the late rows
    then are all inactive, each the mean of its past.

    After Zhou et al. 2021, "Informer", whose rule lets all rows compete; the rule here is our own.

    budget: how many times n_active(L, factor) rows may attend in a causal layer.
    """

    def __init__(
        self,
        *,
        causal: bool,
        layer: int,
        factor: Positive = 5,
        budget: Positive = 4,
        key_sampling: KeySamplingName = "per_query",
        scale: Scale | None = None,
        dropout: Share = 0.0,
        eval_seed: Seed | None = 0,
    ) -> None:
        super().__init__(
            causal=causal,
            layer=layer,
            factor=factor,
            key_sampling=key_sampling,
            scale=scale,
            dropout=dropout,
            eval_seed=eval_seed,
        )
        self.budget = budget

    def forward(
        self,
        q: Float[Tensor, "B H Q E"],
        k: Float[Tensor, "B H K E"],
        v: Float[Tensor, "B H K V"],
        padding: Padding | None = None,
    ) -> Float[Tensor, "B H Q V"]:
        """Of q (B, H, Q, E), k (B, H, K, E), v (B, H, K, V) -> (B, H, Q, V)."""
        if not self.causal:
            return super().forward(q, k, v, padding)
        check_self_lengths("causal ProbSparse attention", q.shape[2], k.shape[2])
        length = q.shape[2]
        slots = self.selected(q, k)
        # an unused slot works on a spare row after the last, which is cut off
        active = slots.where(slots >= 0, length)
        context, rows = (F.pad(x, (0, 0, 0, 1)) for x in (self._inactive(v), q))
        return self._activate(active, context, rows, k, v)[:, :, :length]

    @torch.no_grad()  # row numbers carry no gradient
    def selected(
        self, q: Float[Tensor, "B H Q E"], k: Float[Tensor, "B H K E"], padding: Padding | None = None
    ) -> Int[Tensor, "B H U"]:
        """The active rows: q (B, H, Q, E), k (B, H, K, E) -> (B, H, U).

        When causal U is min(budget * n_active(Q, factor), Q) slots: the active rows in the order of time, then -1 in
        each unused slot.
        """
        if not self.causal:
            return super().selected(q, k, padding)
        n_slots = min(self.budget * n_active(q.shape[2], self.factor), q.shape[2])
        return first_rows(candidates(self.measured(q, k), self.factor), n_slots)


def candidates(measure: Float[Tensor, "B H Q"], factor: int) -> Bool[Tensor, "B H Q"]:
    """Which rows have fewer than n_active(i + 1, factor) rows before them of a measure at least theirs: (B, H, Q).

    In blocks of rows: each is compared within itself and with the largest measures before it, so that no (Q, Q) tensor
    is built. More of them than n_active(Q, factor) decide nothing.
    """
    length = measure.shape[2]
    # a tie counts as larger: of equal measures the earlier row is the candidate, whatever comes later
    lengths = torch.arange(1, length + 1, device=measure.device)
    # in float64 no logarithm of a whole number is rounded to a whole one, but that of 1
    limits = (factor * lengths.double().log().ceil()).long().clamp(min=1).minimum(lengths)
    n_largest = n_active(length, factor)
    largest = measure[:, :, :0]  # (B, H, T), T at most n_active(Q, factor)
    blocks = []
    for start in range(0, length, BLOCK_ROWS):
        block = measure[:, :, start : start + BLOCK_ROWS]
        before = (largest.unsqueeze(2) >= block.unsqueeze(3)).sum(-1)
        within = (block.unsqueeze(2) >= block.unsqueeze(3)).tril(-1).sum(-1)
        blocks.append(before + within < limits[start : start + BLOCK_ROWS])
        largest = torch.cat([largest, block], dim=2)
        largest = largest.topk(min(n_largest, largest.shape[2]), dim=2).values
    return torch.cat(blocks, dim=2)


def first_rows(chosen: Bool[Tensor, "B H Q"], n_slots: int) -> Int[Tensor, "B H U"]:
    """The numbers of the first chosen rows, -1 in each slot left over: (B, H, Q) -> (B, H, U), U = n_slots."""
    rank = chosen.cumsum(2) - 1
    # what has no slot goes to one more, which is cut off
    slot = rank.where(chosen & (rank < n_slots), n_slots)
    slots = torch.full((*chosen.shape[:2], n_slots + 1), -1, device=chosen.device)
    return slots.scatter(2, slot, torch.arange(chosen.shape[2], device=chosen.device).expand_as(slot))[:, :, :n_slots]
