"""Whether a model has grown old: a day of forecasts after the other beside what the validation windows showed.

Page's CUSUM (Page 1954, "Continuous inspection schemes"): a running sum of how much worse than expected each day was,
less an allowance, never below zero; it says so above a limit. Days are standardized by validation windows of the same
number of steps, as Student's t of their mean and deviation brought to a normal score, so that few of them do not look
surer than they are (as in Hawkins 1987, "Self-starting CUSUM charts for location and scale"), and are cut off at
`Chart.most` (Hawkins 1993, "Robustification of cumulative sum charts by winsorization"): one holiday says nothing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri, stdtr

from forecast.data.cells import FloatArray

# Deviations of days are at least these: less is no break, however calm the validation windows were.
LEAST_LOG, LEAST_SHARE = 0.1, 0.02
SMALLEST = 1e-9  # standard deviations: the error of a perfect forecast, which has no logarithm


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A CUSUM. allowance, limit, most: in standard deviations of a day."""

    allowance: float
    limit: float
    most: float = 3.0

    def after(self, total: float, score: float) -> float:
        """The sum after a day; above its limit by no more than a day as expected takes off, which ends an alarm."""
        grown = total + min(score, self.most) - self.allowance
        return min(max(0.0, grown), self.limit + self.allowance)


# Errors and coverage beside those of validation; the error beside that of the baseline. Why these: decision 18.
CHARTS = {
    "errors": Chart(allowance=1.0, limit=4.0),
    "coverage": Chart(allowance=1.0, limit=4.0),
    "baseline": Chart(allowance=0.5, limit=5.0),
}


@dataclass(frozen=True, kw_only=True)
class Day:
    """What came of the first `steps` steps of a forecast: mean absolute errors, scaled; coverage by level in per cent.

    None: of intervals that are not there.
    """

    steps: int
    mae: float
    baseline_mae: float
    coverage: Mapping[float, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class Expected:
    """What the first 1, 2, ... P steps of a forecast have shown on validation windows.

    mae (P,): mean of the MAE; log_mae, log_std (P,): mean and deviation of its logarithm; worse_std (P,): deviation of
    the MAE less that of the baseline; levels (K,) in per cent, coverage, coverage_std (K, P). windows: how many, if one
    begins at each row. Scaled units.
    """

    windows: int
    mae: FloatArray
    log_mae: FloatArray
    log_std: FloatArray
    worse_std: FloatArray
    levels: FloatArray
    coverage: FloatArray
    coverage_std: FloatArray

    @classmethod
    def of(
        cls, errors: FloatArray, of_baseline: FloatArray, levels: FloatArray, inside: FloatArray, *, every: int = 1
    ) -> "Expected":
        """From absolute errors (W, P) of model and baseline, and shares inside of intervals (K, W, P).

        every: how many rows lie between the beginnings of two windows.
        """
        counts = np.arange(1, errors.shape[1] + 1)
        ours, theirs, shares = (np.cumsum(one, -1) / counts for one in (errors, of_baseline, inside))
        logs = np.log(np.maximum(ours, SMALLEST))
        return cls(
            windows=len(errors) * every,
            mae=ours.mean(0),
            log_mae=logs.mean(0),
            log_std=logs.std(0),
            worse_std=(ours - theirs).std(0),
            levels=levels,
            coverage=shares.mean(1),
            coverage_std=shares.std(1),
        )

    def arrays(self) -> dict[str, FloatArray]:
        """Its content as arrays; `Expected(**...)` takes them back."""
        return {name: np.asarray(value) for name, value in vars(self).items()}

    def scores(self, day: Day, level: float | None) -> dict[str, float]:
        """By how many standard deviations a day was worse than expected, by the names of CHARTS.

        level: of the intervals that are watched; None: none are.
        """
        at, apart = day.steps - 1, max(1, self.windows // day.steps)
        log_error = math.log(max(day.mae, SMALLEST))
        found = {
            "errors": normal_score((log_error - self.log_mae[at]) / max(self.log_std[at], LEAST_LOG), apart),
            "baseline": normal_score((day.mae - day.baseline_mae) / max(self.worse_std[at], SMALLEST), apart),
        }
        if level is not None:
            k = int(np.flatnonzero(self.levels == level)[0])
            short = self.coverage[k, at] - day.coverage[level]
            found["coverage"] = normal_score(short / max(self.coverage_std[k, at], LEAST_SHARE), apart)
        return found

    def beside(self, day: Day, level: float | None) -> dict[str, float]:
        """A day beside what was expected of it; level as in `scores`."""
        at = day.steps - 1
        found = {"mae": day.mae, "baseline_mae": day.baseline_mae, "expected_mae": float(self.mae[at])}
        if level is not None:
            k = int(np.flatnonzero(self.levels == level)[0])
            found |= {"coverage": day.coverage[level], "expected_coverage": float(self.coverage[k, at])}
        return found


def normal_score(standardized: float, count: int) -> float:
    """The normal score of a value standardized by the mean and deviation of `count` others.

    That of Student's t with count - 1 degrees of freedom.
    """
    t = float(standardized) / math.sqrt(1.0 + 1.0 / count)
    tail = float(ndtri(stdtr(max(1, count - 1), -abs(t))))  # of the small side: the large one rounds to 1
    return -math.copysign(tail, -t)


def watched(totals: Mapping[str, float], scores: Mapping[str, float]) -> dict[str, float]:
    """The sums of the charts after a day."""
    return {name: CHARTS[name].after(totals.get(name, 0.0), score) for name, score in scores.items()}


def alarms(totals: Mapping[str, float]) -> list[str]:
    """The charts above their limits."""
    return [name for name, total in totals.items() if total > CHARTS[name].limit]
