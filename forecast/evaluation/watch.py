"""Whether a model has grown old: a day of forecasts after the other beside what the validation windows showed.

Page's CUSUM (Page 1954, "Continuous inspection schemes"): a running sum of how much worse than expected each day was,
less an allowance, never below zero; it says so above a limit. Days are standardized by validation windows of the same
number of steps, as Student's t of their mean and deviation brought to a normal score, so that few of them do not look
surer than they are (as in Hawkins 1987, "Self-starting CUSUM charts for location and scale"), and are cut off at
`Chart.most` (Hawkins 1993, "Robustification of cumulative sum charts by winsorization"): one holiday says nothing.

Of many series each day is the mean over them of how much worse than itself each was, beside what that mean was on the
validation days: series that err together are one witness, however many they are. Each is watched alone too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array
from scipy.special import ndtri, stdtr

from forecast.data.prepare import Prepared
from forecast.data.values.cells import FloatArray, IntArray
from forecast.errors import UserError
from forecast.evaluation.baselines import make_baselines, season
from forecast.evaluation.evaluate import MODEL, exact_float32, in_chunks, longest_look_back, look_back_of
from forecast.evaluation.rolling import FORECAST, forecasts_of
from forecast.evaluation.scored_intervals import Intervals, name_of
from forecast.models.base import ForecastModel

# Deviations of days are at least these: less is no break, however calm the validation windows were.
LEAST_LOG, LEAST_SHARE = 0.1, 0.02
SMALLEST = 1e-9  # standard deviations: the error of a perfect forecast, which has no logarithm
# More times at which windows begin are thinned evenly, and so are those of many series with more windows together.
MOST_TIMES, MOST_WINDOWS, LEAST_TIMES = 1000, 200_000, 30
BATCH = 256


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A CUSUM. allowance, limit, most: in standard deviations of a day."""

    allowance: float
    limit: float
    most: float = 3.0

    def after(self, total: npt.ArrayLike, score: npt.ArrayLike) -> FloatArray:
        """Sums (R,) after a day; above the limit by no more than a day as expected takes off, which ends an alarm."""
        grown = np.asarray(total) + np.minimum(score, self.most) - self.allowance
        return np.clip(grown, 0.0, self.limit + self.allowance)


# Errors and coverage beside those of validation; the error beside that of the baseline. Why these: decision 18.
CHARTS = {
    "errors": Chart(allowance=1.0, limit=4.0),
    "baseline": Chart(allowance=0.5, limit=5.0),
    "coverage": Chart(allowance=1.0, limit=4.0),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Day:
    """What came of the first `steps` steps of a forecast of each series (S,), NaN where nothing did.

    Mean absolute errors, scaled; coverage: shares inside the intervals that are watched, None: none are.
    """

    steps: int
    mae: FloatArray
    baseline_mae: FloatArray
    coverage: FloatArray | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Expected:
    """What the first 1, 2, ... P steps of a forecast have shown on validation windows, of each of S series.

    mae (S, P): mean of the MAE; log_mae (S, P): of its logarithm; levels (K,) in per cent, coverage (K, S, P). The
    deviations (R, P) of R = 1 + S, of the mean over all series and of each: log_std, worse_std, of the MAE less that of
    the baseline, and coverage_std (K, R, P). windows (R,): how many, if one begins at each row; 0: nothing is expected.
    together: how many series have a window at a time, in the mean. Scaled units.
    """

    windows: IntArray
    together: FloatArray
    mae: FloatArray
    log_mae: FloatArray
    log_std: FloatArray
    worse_std: FloatArray
    levels: FloatArray
    coverage: FloatArray
    coverage_std: FloatArray

    @classmethod
    def of(
        cls,
        errors: FloatArray,
        of_baseline: FloatArray,
        levels: FloatArray,
        inside: FloatArray,
        *,
        every: int = 1,
        series: IntArray | None = None,
        times: IntArray | None = None,
    ) -> "Expected":
        """From absolute errors (W, P) of model and baseline, and shares inside of intervals (K, W, P).

        every: how many rows lie between the beginnings of two windows. series (W,): which each is of; None: all of one.
        times (W,): of their beginnings, from 0 on, none left out; None: no two are alike.
        """
        count = len(errors)
        series = np.zeros(count, dtype=np.int64) if series is None else series
        times = np.arange(count) if times is None else times
        steps, n_series = np.arange(1, errors.shape[1] + 1), int(series.max()) + 1
        windows = np.bincount(series, minlength=n_series)
        at_time = np.bincount(times)

        def of_series(values: FloatArray) -> FloatArray:
            return summed(values, series, n_series) / np.maximum(windows, 1)[:, None]

        def spread(values: FloatArray, mean: FloatArray) -> FloatArray:
            """Of the mean over all series, and of each."""
            apart = values - mean[series]
            all_series = summed(apart, times, len(at_time)) / at_time[:, None]
            return np.sqrt(np.concatenate([(all_series**2).mean(0)[None], of_series(apart**2)]))

        ours, theirs, shares = (np.cumsum(values, -1) / steps for values in (errors, of_baseline, inside))
        logs, worse = np.log(np.maximum(ours, SMALLEST)), ours - theirs
        log_mae = of_series(logs)
        empty = np.zeros((0, n_series, len(steps)))
        coverage = np.stack([of_series(share) for share in shares]) if len(shares) else empty
        spreads = [spread(share, mean)[None] for share, mean in zip(shares, coverage, strict=True)]
        return cls(
            windows=np.concatenate([[len(at_time)], windows]) * every,
            together=np.array(count / len(at_time)),
            mae=of_series(ours),
            log_mae=log_mae,
            log_std=spread(logs, log_mae),
            worse_std=spread(worse, of_series(worse)),
            levels=levels,
            coverage=coverage,
            coverage_std=np.concatenate([np.zeros((0, 1 + n_series, len(steps))), *spreads]),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Its content as arrays; `Expected(**...)` takes them back."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def with_series(self, count: int) -> "Expected":
        """The same with series behind, up to so many in all, of which nothing is expected."""
        more = count - self.mae.shape[0]
        of_series = {"windows": 0, **dict.fromkeys(("mae", "log_mae", "log_std", "worse_std"), 0)}
        of_series |= dict.fromkeys(("coverage", "coverage_std"), 1)

        def longer(array: np.ndarray, axis: int | None) -> np.ndarray:
            return array if axis is None else np.pad(array, [(0, more if i == axis else 0) for i in range(array.ndim)])

        return Expected(**{name: longer(array, of_series.get(name)) for name, array in self.arrays().items()})

    def scores(self, day: Day, level: float | None) -> FloatArray:
        """By how many standard deviations a day was worse than expected (R, charts): of all series, and of each.

        NaN where nothing is known or expected. level: of the intervals that are watched; None: none are.
        """
        at, apart = day.steps - 1, np.maximum(1, self.windows // day.steps)
        known = (self.windows[1:] > 0) & np.isfinite(day.mae)
        scores = np.full((len(self.windows), len(CHARTS)), np.nan)
        if not known.any():
            return scores
        with np.errstate(invalid="ignore"):
            worse = {
                "errors": (np.log(np.maximum(day.mae, SMALLEST)) - self.log_mae[:, at], self.log_std[:, at], LEAST_LOG),
                "baseline": (day.mae - day.baseline_mae, self.worse_std[:, at], SMALLEST),
            }
        if level is not None and day.coverage is not None:
            k = self._level(level)
            worse["coverage"] = self.coverage[k, :, at] - day.coverage, self.coverage_std[k, :, at], LEAST_SHARE
        # The mean over fewer series than on a validation day varies more: at most so, were they independent.
        fewer = np.ones(len(scores))
        fewer[0] = np.sqrt(np.maximum(1.0, self.together / known.sum()))
        for i, name in enumerate(CHARTS):
            if name in worse:
                own, std, least = worse[name]
                both = np.concatenate([[own[known].mean()], np.where(known, own, np.nan)])
                scores[:, i] = normal_score(both / np.maximum(std * fewer, least), apart)
        return scores

    def beside(self, day: Day, level: float | None) -> dict[str, float]:
        """A day beside what was expected of it, the mean over all series; level as in `scores`."""
        at, known = day.steps - 1, (self.windows[1:] > 0) & np.isfinite(day.mae)
        figures = {"mae": day.mae, "baseline_mae": day.baseline_mae, "expected_mae": self.mae[:, at]}
        if level is not None and day.coverage is not None:
            figures |= {"coverage": day.coverage, "expected_coverage": self.coverage[self._level(level), :, at]}
        return {name: float(values[known].mean()) for name, values in figures.items()}

    def _level(self, level: float) -> int:
        return int(np.flatnonzero(self.levels == level)[0])


def summed(values: FloatArray, groups: IntArray, count: int) -> FloatArray:
    """The sums (count, P) of values (W, P) of each group (W,)."""
    where = csr_array((np.ones(len(groups)), (groups, np.arange(len(groups)))), shape=(count, len(groups)))
    return where @ values


def normal_score(standardized: npt.ArrayLike, count: npt.ArrayLike) -> FloatArray:
    """The normal score of values standardized by the mean and deviation of `count` others.

    That of Student's t with count - 1 degrees of freedom.
    """
    t = np.asarray(standardized, dtype=np.float64) / np.sqrt(1.0 + 1.0 / np.asarray(count))
    tail = ndtri(
        stdtr(np.maximum(1, np.asarray(count) - 1), -np.abs(t))
    )  # of the small side: the large one rounds to 1
    return -np.copysign(tail, -t)


def watched(totals: FloatArray, scores: FloatArray) -> FloatArray:
    """The sums of the charts (R, charts) after a day; NaN: of one that has met no day."""
    grown = [chart.after(np.nan_to_num(totals[:, i]), scores[:, i]) for i, chart in enumerate(CHARTS.values())]
    return np.where(np.isnan(scores), totals, np.stack(grown, axis=1))


def alarms(totals: Mapping[str, float]) -> list[str]:
    """The charts above their limits."""
    return [name for name, total in totals.items() if total > CHARTS[name].limit]


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """Beside what a model is watched. baseline: its name in metrics.json; period: how far back it looks, in rows."""

    baseline: str
    period: int
    expected: Expected


@torch.inference_mode()
def reference(
    model: ForecastModel, data: Prepared, *, split: str, device: torch.device, intervals: Intervals | None
) -> Reference:
    """What a split has shown of a model and of the better of two naive forecasts, the last value and the last season.

    Of these alone: they learn nothing, so they do not grow old. The model must be in evaluation mode and on the device.
    """
    data = data.on(device)
    naive = make_baselines(data)
    forecasters: dict[str, ForecastModel] = {MODEL: model, **naive}
    windows = data.windows(split, look_back=longest_look_back(forecasters.values(), data))
    if not len(windows):
        raise UserError(
            f"{data.frame.name}: no series has a window of the validation rows, beside which it is to be watched. Give "
            "the first update the series that the model was trained on, with those rows."
        )
    look_backs = {name: look_back_of(forecaster, data) for name, forecaster in forecasters.items()}
    series, rows = windows.places(range(len(windows)))
    begins, times = np.unique(rows + (data.frame.steps - data.frame.offsets[:-1])[series], return_inverse=True)
    together = len(windows) / max(1, len(begins))
    every = -(-len(begins) // min(MOST_TIMES, max(LEAST_TIMES, int(MOST_WINDOWS / together))))
    chosen = np.flatnonzero(times % every == 0)
    errors: dict[str, list[torch.Tensor]] = {name: [] for name in forecasters}
    inside: list[torch.Tensor] = []
    with exact_float32():
        for batch in in_chunks(windows, chosen, BATCH, BATCH):
            forecasts = forecasts_of(forecasters, look_backs, batch, intervals)
            for name in forecasters:
                column = FORECAST if name == MODEL else name
                errors[name].append((forecasts[column] - batch.target).abs().mean(2).cpu())
            if intervals is not None:
                inside.append(shares_inside(forecasts, batch.target, intervals.calibration.levels))
    of = {name: torch.cat(parts).double().numpy() for name, parts in errors.items()}
    best = min(naive, key=lambda name: float(of[name].mean()))
    n_windows, pred_len = of[MODEL].shape
    shares = torch.cat(inside, dim=1).double().numpy() if inside else np.zeros((0, n_windows, pred_len))
    levels = np.array([] if intervals is None else intervals.calibration.levels, dtype=np.float64)
    series, times = series[chosen], times[chosen] // every
    expected = Expected.of(of[MODEL], of[best], levels, shares, every=every, series=series, times=times)
    return Reference(
        baseline=best,
        period=(season(data) or 1) if best != "last_value" else 1,
        expected=expected.with_series(len(data.frame)),
    )


def shares_inside(
    forecasts: Mapping[str, torch.Tensor], target: torch.Tensor, levels: tuple[float, ...]
) -> torch.Tensor:
    """Which share of the targets (B, P, T) the intervals of each level hold -> (K, B, P)."""
    shares = []
    for level in map(name_of, levels):
        held = (forecasts[f"lo-{level}"] <= target) & (target <= forecasts[f"hi-{level}"])
        shares.append(held.float().mean(2).cpu())
    return torch.stack(shares)
