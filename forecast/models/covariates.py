"""Columns that are known in advance as the regressors of a linear map."""

import functools
import logging
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from typing_extensions import TypedDict

from forecast.models.base import WholeWindows, WindowShape
from forecast.ops.joint_ridge import joint_map, joint_squared_error, joint_system
from forecast.ops.ridge import LinearMap, Naive
from forecast.ops.window_sums import WindowSums

log = logging.getLogger(__name__)

MOST_REGRESSORS = 1_000  # with more, the means of successive steps stand for them
MOST_CATEGORIES = 50  # of a column that have a regressor each; the later ones have none
MOST_WINDOWS = 50_000  # times targets, that a map is fitted to
AT_ONCE = 512  # windows gathered
EFFECT_STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e3)  # as `ridge.STRENGTHS`; the last leaves hardly anything


class CovariateRegressors:
    """The numbers that a linear map reads of a window's covariates: M of them, a category as 0 or 1.

    Of a column that changes with time those of the last J = min(L, P) known steps and of the P forecast steps, or the
    means of so many successive ones as keep M within MOST_REGRESSORS; of a fact of the series one.
    """

    def __init__(self, window: WindowShape) -> None:
        sizes = [min(max(1, size - 1), MOST_CATEGORIES) for size in window.covariates]
        self.sizes, self.facts = window.covariates, window.facts
        self.changing = [i for i in range(len(sizes)) if i not in window.facts]
        widths = [sum(sizes[i] for i in of) for of in (self.changing, window.facts)]
        self.step, n_known = 1, min(window.seq_len, window.pred_len)
        n_steps = n_known + window.pred_len
        while self.step < n_steps and -(-n_steps // self.step) * widths[0] + widths[1] > MOST_REGRESSORS:
            self.step += 1
        self.rows = n_known // self.step * self.step  # a mean holds known or forecast steps alone
        self.count = -(-(self.rows + window.pred_len) // self.step) * widths[0] + widths[1]

    def of(self, past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]) -> Float[Tensor, "B M"]:
        """The regressors of windows: the last of the known features are the covariates."""
        first = past_known.shape[1] - self.rows
        steps = torch.cat([past_known[:, first:], future_known], dim=1)[..., -len(self.sizes) :]
        parts = []
        if self.changing:
            numbers = self.numbers(steps, self.changing)
            if self.step > 1:
                numbers = F.avg_pool1d(numbers.transpose(1, 2), self.step, ceil_mode=True).transpose(1, 2)
            parts.append(numbers.flatten(1))
        if self.facts:
            parts.append(self.numbers(steps[:, -1:], self.facts).flatten(1))
        return torch.cat(parts, dim=1)

    def numbers(self, steps: Float[Tensor, "B R K"], chosen: Sequence[int]) -> Float[Tensor, "B R N"]:
        """The chosen covariates, each category of them as 0 or 1; that which the training did not see is all 0."""
        parts = []
        for i in chosen:
            column, size = steps[..., i : i + 1], self.sizes[i]
            if size:
                categories = torch.arange(1, 1 + min(max(1, size - 1), MOST_CATEGORIES), device=steps.device)
                column = (column == categories).to(steps.dtype)
            parts.append(column)
        return torch.cat(parts, dim=2)


def joint_sums(
    windows: WholeWindows, regressors: CovariateRegressors, look_back: int, *, shared: bool
) -> list[WindowSums]:
    """Sums over windows [past L | future P | regressors M], rows less the last of the past: of each target, or of all.

    A map whose rows sum to one forecasts rows that are shifted the same, shifted: so large levels cost no digits.
    More than MOST_WINDOWS windows are thinned evenly.
    """
    numbers, by_piece = windows.numbers, []
    n_targets = windows.gather(numbers[:1]).target.shape[2]
    if len(numbers) > (most := max(1, MOST_WINDOWS // n_targets)):
        log.info("Ridge with covariates: fitted to %d of %d windows, evenly spread", most, len(numbers))
        numbers = numbers[np.linspace(0, len(numbers) - 1, most).round().astype(np.int64)]
    for some in np.array_split(numbers, -(-len(numbers) // AT_ONCE)):
        past, past_known, future_known, target = windows.gather(some)
        rows = torch.cat([past[:, -look_back:], target], dim=1).double()
        rows -= past[:, -1:].double()
        numbers_of = regressors.of(past_known, future_known).double()
        parts = []
        for t in range(n_targets):
            joint = torch.cat([rows[..., t], numbers_of], dim=1)
            parts.append(WindowSums(joint.T @ joint, joint.sum(0), len(joint)))
        if shared:
            parts = [functools.reduce(WindowSums.plus, parts)]
        by_piece.append(parts)
    return [functools.reduce(WindowSums.plus, of_one) for of_one in zip(*by_piece, strict=True)]


class JointShape(TypedDict):
    """The keywords of `joint_system`."""

    look_back: int
    pred_len: int
    naive: Naive
    period: int | None


def joint_candidate(
    sums: Sequence[WindowSums], shape: JointShape, *, strengths: Sequence[float]
) -> Iterator[tuple[LinearMap, float, LinearMap | None]]:
    """The map whose two strengths err least on the val windows, with that error; none where no strength is enough.

    sums: of the train and the val windows, and of more windows, to which a second map is fitted at these strengths;
    without them it is None. First one strength for all regressors is chosen, then that of the covariates alone.
    """
    train, val, *more = sums
    system = joint_system(train, **shape)

    def tried(strength: float, effect_strength: float) -> Iterator[tuple[float, dict[str, float], LinearMap]]:
        both = {"strength": strength, "effect_strength": effect_strength}
        linear = joint_map(system, **both)
        if linear is not None:
            yield joint_squared_error(val, linear), both, linear

    fits = [fit for strength in strengths for fit in tried(strength, strength)]
    if fits:
        best = min(fits, key=lambda fit: fit[0])
        fits = [best, *(fit for effect in EFFECT_STRENGTHS for fit in tried(best[1]["strength"], effect))]
        error, both, linear = min(fits, key=lambda fit: fit[0])
        again = [joint_map(joint_system(whole, **shape), **both) or linear for whole in more]
        yield linear, error, again[0] if again else None
