"""The rule by which a printed error counts as reproduced, and its words."""

import math

from scipy import stats

from forecast.comparison.bootstrap import LEVEL
from forecast.comparison.rows import SeedSpread
from studies.published import SEEDS

# A share of the printed error: so far from it may the interval of ours reach.
WITHIN = 0.03
RULE = f"""Differences are in percent of the printed error; from {SEEDS} seeds on, their {100 * LEVEL:.0f} % interval
(Student's t over the seeds) stands behind them. A printed MSE is *reproduced* when {SEEDS} seeds or more put this
whole interval within {100 * WITHIN:.0f} %, *missed* when all of it is outside, and *not decided* when a part of it is
within; one or two seeds decide nothing. *within* and *outside* say where our mean is. An error that is lower by more
than {100 * WITHIN:.0f} % is a better forecast, but no reproduction. The MSE decides, by which models are trained and
selected; the MAE stands beside it. Closed-form NLinear is computed without randomness, so its one figure is *exact*
and needs no interval; the printed NLinear was trained, so it is never called reproduced."""


def outcome(published: float, ours: SeedSpread, *, exact: bool = False) -> str:
    """The verdict on a printed error, in the words of RULE. exact: ours is computed without any randomness."""
    low, high = published * (1 - WITHIN), published * (1 + WITHIN)
    side = "within" if low <= ours.mean <= high else "outside"
    if exact:
        return f"exact, {side}"
    if ours.runs < SEEDS:
        return f"{'one seed' if ours.runs == 1 else 'two seeds'}, {side}"
    first, last = interval(ours)
    if low <= first and last <= high:
        return "reproduced"
    if last < low or first > high:
        return "missed"
    return f"not decided, {side}"


def difference(published: float, ours: SeedSpread) -> str:
    """`+3.8 %` of the printed error; with SEEDS seeds or more its interval too, `+3.8 % [-3.5, +11.1]`."""
    mean, *ends = (
        f"{round(100 * (error / published - 1), 1) + 0.0:+.1f}"  # + 0.0: no "-0.0"
        for error in (ours.mean, *(interval(ours) if ours.runs >= SEEDS else ()))
    )
    return f"{mean} % [{', '.join(ends)}]" if ends else f"{mean} %"


def interval(ours: SeedSpread) -> tuple[float, float]:
    """The interval that holds the mean over all seeds with LEVEL, by Student's t. ours: of two runs or more."""
    assert ours.sd is not None, "one run has no interval"
    half = float(stats.t.ppf((1 + LEVEL) / 2, ours.runs - 1)) * ours.sd / math.sqrt(ours.runs)
    return ours.mean - half, ours.mean + half
