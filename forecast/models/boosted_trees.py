"""Gradient boosted trees on what a window says of each step, as a model."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal, NamedTuple, TypedDict, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from forecast.bounds import Bound, Positive, at_least, between
from forecast.models.base import FittedModel, FittingRows, Options, WholeWindows, WindowShape
from forecast.models.ridge import Ridge, longest_look_back
from forecast.models.smoothing import Smoothing, seasons_held
from forecast.ops.smoothing import Setting
from forecast.ops.trees import Error, TreeSum, grow

LONGEST = 1008  # rows: six weeks of hours
LEAST_SEASON = 4  # steps: a shorter one is no season of a forecast
TRAIN_SHARE = 0.5  # of the train windows must have the rows that are read
FIRST_LAGS, LAGS = 7, 4  # the step's values so many seasons ago: of the shortest season, and of longer ones
LAST = 8  # values before the origin
GROWN_ON, CHOSEN_ON = 200_000, 50_000  # steps of windows, drawn by chance
GATHERED = 64  # windows at once, of which the same steps are drawn
STEPS = 65_536  # of windows and targets, whose features are held at once
LEAST_SCALE = 0.1  # of a window, in scaled units: one that hardly moves is not blown up
SEED = 0
FEWEST_TREES, FASTEST = 20, 0.3  # where the time is short: trees, and the share of each that is added at most
TIMED_ON, TIMED = 8, 5  # so many trees, on every so-many-th step, tell how long all will take
# Slow to fast, with a second season or without one.
SMOOTHINGS = (
    Setting(0.03, season=0.1, second=0.2, remainder=0.9),
    Setting(0.1, season=0.1, second=0.2, remainder=0.6),
    Setting(0.03, season=0.1, remainder=0.9),
    Setting(0.1, season=0.25, remainder=0.6),
    Setting(0.3, season=0.1),
    Setting(0.005, season=0.1, second=0.4, remainder=0.98),
)
RATE = Bound(lambda value: 0 < value <= 1, "must be above 0 and at most 1")


class Sample(NamedTuple):
    """Of M steps of windows: features (M, F), and what is to be added to the skip, in the window's scale (M,)."""

    features: Tensor
    target: Tensor
    scale: Tensor


class Grown(TypedDict):
    """Of the options of fitted trees those that depend on the time that there was."""

    trees: int
    learning_rate: float
    fitted: int


class ScaledWindows(NamedTuple):
    """Windows at level 0 and deviation 1 of their longest season.

    values (B, L, T), level and scale (B, 1, T), skip: the skip's forecast (B, P, T), None without one, smoothed: what
    SMOOTHINGS say (B, P, T, G), known (B, L, K): the covariates that change with time, future_known (B, P, F).
    """

    values: Tensor
    level: Tensor
    scale: Tensor
    skip: Tensor | None
    smoothed: Tensor | None
    known: Tensor
    future_known: Tensor


class BoostedTrees(FittedModel):
    """Regression trees that lower the error of a ridge one after the other, one function for all steps and targets.

    Friedman 2001, "Greedy Function Approximation: A Gradient Boosting Machine". Each step of the forecast is a row of
    features: the values of the same step in the last seasons, the last values before the origin, means of the last
    seasons, the step's number, its calendar, what is known of it in advance and what was known a season before, and the
    skip's forecast. Values are brought to level 0 and deviation 1 of the longest season before the origin.

    How many trees there are is chosen on the val windows, none among the choices: there it is no worse than its skip.

    window: the data's sizes. look_back: rows that it reads; None: what the seasons' lags need, or what the train rows
    allow. seasons: their steps; None: those of the data's calendar. skip: what the trees' sum is added to: ridge, or
    none, the level of the window. skip_options: as `fit` has chosen them, None before. smoothed: whether what
    SMOOTHINGS forecast are features too. smoothing_options: of these, as `skip_options`. error: what the trees lower.
    trees: at most. leaves, depth: of a tree, at most. learning_rate: the share of a tree that is added. seconds:
    in which they are grown; where these are too few for all trees there are fewer, each of a larger share, and what
    the fit has chosen depends on the machine; None: however long it takes. fitted: how many trees there are; None
    before the fit.
    """

    roles = frozenset({"known", "static"})

    def __init__(
        self,
        *,
        window: WindowShape,
        look_back: Positive | None = None,
        seasons: Sequence[Positive] | None = None,
        skip: Literal["ridge", "none"] = "ridge",
        skip_options: Mapping[str, object] | None = None,
        smoothed: bool = False,
        smoothing_options: Mapping[str, object] | None = None,
        error: Error = "squared",
        trees: Annotated[int, between(1, 10**5)] = 300,
        leaves: Annotated[int, Bound(lambda value: value > 1, "must be greater than 1")] = 31,
        depth: Positive = 8,
        learning_rate: Annotated[float, RATE] = 0.08,
        seconds: Annotated[float, at_least(0)] | None = None,
        fitted: Annotated[int, at_least(0)] | None = None,
    ) -> None:
        super().__init__(window)
        self.given_look_back, self.given_seasons = look_back, seasons
        self.rows, self.seasons = look_back or window.seq_len, list(seasons or ())
        self.changing = [i for i in range(len(window.covariates)) if i not in window.facts]
        self.grow = partial(grow, leaves=leaves, depth=depth, error=error)
        self.most, self.learning_rate, self.seconds, self.error = trees, learning_rate, seconds, error
        self.trees = TreeSum(count=fitted or 0, nodes=2 * leaves - 1, depth=depth)
        targets = tuple(range(window.n_targets))
        plain = replace(window, n_columns=window.n_targets, targets=targets, observed=(), outputs=1)
        self.skip: Ridge | None = None
        if skip == "ridge":
            make: Callable[..., Ridge] = Ridge
            self.skip = make(window=plain, **(skip_options or {}))
        self.smoothing: Smoothing | None = None
        if smoothed:
            of_window: Callable[..., Smoothing] = Smoothing
            self.smoothing = of_window(window=plain, **(smoothing_options or {}))
            self.smoothing.take(SMOOTHINGS)

    @property
    def look_back(self) -> int:
        """Its own rows, or those of the skip, where these are more."""
        return self.rows if self.skip is None else max(self.rows, self.skip.look_back)

    def fit(self, rows: FittingRows) -> Options:
        """Fits the skip, then the trees to what it leaves."""
        skip = {} if self.skip is None else {"skip_options": self.skip.fit(rows)}
        self.choose_rows(rows)
        self.trees = self.grown(rows, self.most)
        val = rows.windows("val", self.look_back)
        chosen = self.best_count(self.sample(val, CHOSEN_ON)) if len(val.numbers) else 0
        self.trees = self.trees.first(chosen)
        return {**skip, **self.chosen()}

    def refit(self, rows: FittingRows, whole: FittingRows, held_out: Options) -> Options:
        """As many trees as the held-out model has, whatever time these took, grown on the windows of `whole`."""
        skip = {} if self.skip is None else {"skip_options": self.skip.refit(rows, whole, {})}
        self.choose_rows(rows)
        self.seconds = None
        grown = cast(Grown, held_out)
        self.most, self.learning_rate = grown["trees"], grown["learning_rate"]
        self.trees = self.grown(whole, grown["fitted"])
        return {**skip, **self.chosen()}

    def chosen(self) -> dict[str, object]:
        """The options of the trees as a fit leaves them."""
        grown = {"trees": self.most, "learning_rate": self.learning_rate, "seconds": None, "fitted": len(self.trees)}
        smoothing = self.smoothing
        smoothed = None if smoothing is None else {"look_back": smoothing.rows, "seasons": smoothing.seasons}
        return {"look_back": self.rows, "seasons": self.seasons, "smoothing_options": smoothed, **grown}

    def choose_rows(self, rows: FittingRows) -> None:
        """The look-back and the seasons, as far as they are open; the smoothings take what is read anyway.

        Raises ValueError for those that are given, where no train window reads so many rows.
        """
        given, look_back = self.given_seasons, self.given_look_back
        seasons = (
            [season for season in {*rows.seasons, rows.period or 0} if season >= LEAST_SEASON]
            if given is None
            else given
        )
        read = [season * count for season, count in lag_counts(seasons) if 2 * season <= LONGEST]
        wanted = max([self.window.seq_len, *read])
        self.rows = look_back or longest_look_back(rows, longest=min(LONGEST, wanted), train_share=TRAIN_SHARE)
        self.seasons = sorted({season for season in seasons if season <= self.rows})
        if look_back and not len(rows.origins("train", look_back)):
            raise ValueError(
                f"model.look_back={look_back}: no train window has so many rows before its forecast. Set "
                "model.look_back=null to let it be chosen, or give fewer rows."
            )
        if given is not None and (longer := set(given) - set(self.seasons)):
            raise ValueError(
                f"model.seasons={list(given)}: {max(longer)} steps are more than the {self.rows} rows that a window "
                "reads. Set model.seasons=null for those of the calendar, give shorter ones, or a longer "
                "model.look_back."
            )
        if self.smoothing is not None:
            self.smoothing.rows, self.smoothing.seasons = self.look_back, seasons_held(rows, self.look_back)
            self.smoothing.take(SMOOTHINGS)

    def grown(self, rows: FittingRows, count: int) -> TreeSum:
        """So many trees for what the skip leaves of train windows; none where there is no such window."""
        windows = rows.windows("train", self.look_back)
        if not count or not len(windows.numbers):
            return self.trees.first(0)
        sample = self.sample(windows, GROWN_ON)
        if self.seconds is not None:
            count = self.trees_in_time(sample, self.seconds)
        return self.grow(sample.features, sample.target, count=count, learning_rate=self.learning_rate)

    def trees_in_time(self, sample: Sample, seconds: float) -> int:
        """How many trees can be grown in that time: from then on `most`, of a larger share where they are few."""
        features, target = sample.features[::TIMED_ON], sample.target[::TIMED_ON]
        spent = []
        for count in (1, 1 + TIMED):
            begin = time.perf_counter()
            self.grow(features, target, count=count, learning_rate=self.learning_rate)
            spent.append(TIMED_ON * (time.perf_counter() - begin))
        of_a_tree = max(1e-6, (spent[1] - spent[0]) / TIMED)
        trees = min(self.most, max(FEWEST_TREES, int((seconds - spent[0]) / of_a_tree)))
        self.learning_rate = max(self.learning_rate, min(FASTEST, self.learning_rate * self.most / trees))
        self.most, self.seconds = trees, None
        return trees

    @torch.inference_mode()
    def sample(self, windows: WholeWindows, most: int) -> Sample:
        """At most about so many steps of windows: of as many windows as can be, evenly spread, some steps each."""
        numbers, pred_len, n_targets = windows.numbers, self.window.pred_len, self.window.n_targets
        steps = min(pred_len, max(1, most // (len(numbers) * n_targets)))
        if len(numbers) > (enough := max(1, most // (steps * n_targets))):
            numbers = numbers[np.linspace(0, len(numbers) - 1, enough).round().astype(np.int64)]
        drawn, parts = torch.Generator().manual_seed(SEED), []
        for some in np.array_split(numbers, -(-len(numbers) // GATHERED)):
            *known, target = windows.gather(some)
            chosen = torch.randperm(pred_len, generator=drawn)[:steps].sort().values
            scaled = self.scaled(*known)
            base, scale = self.base(scaled, chosen), scaled.scale
            missed = ((target[:, chosen] - base) / scale).flatten()
            parts.append((self.features(scaled, chosen), missed, scale.expand_as(base).flatten()))
        return Sample(*(torch.cat(pieces) for pieces in zip(*parts, strict=True)))

    @torch.inference_mode()
    def best_count(self, val: Sample) -> int:
        """How many of the first trees err least on steps of val windows; 0: none helps."""
        errors = []
        for forecast in self.trees.after_each(val.features):
            missed = (forecast - val.target) * val.scale
            errors.append(float(missed.abs().mean() if self.error == "absolute" else missed.square().mean()))
        return errors.index(min(errors))

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P T"]:
        """Past (B, L, C), L = look_back -> forecast (B, P, T)."""
        scaled = self.scaled(self.window.target_columns(past), past_known, future_known)
        steps = torch.arange(self.window.pred_len, device=past.device)
        if torch.compiler.is_compiling():  # for any number of windows
            return self.of_steps(scaled, steps)
        at_once = max(1, STEPS // max(1, len(past) * self.window.n_targets))
        return torch.cat([self.of_steps(scaled, some) for some in torch.split(steps, at_once)], dim=1)

    def of_steps(self, scaled: ScaledWindows, steps: Int[Tensor, "S"]) -> Float[Tensor, "B S T"]:
        """The forecast of some steps."""
        base = self.base(scaled, steps)
        added: Tensor = self.trees(self.features(scaled, steps))
        return base + scaled.scale * added.view(base.shape)

    def scaled(
        self, targets: Float[Tensor, "B L T"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> ScaledWindows:
        """What is the same for all steps of windows."""
        skip = None
        if self.skip is not None:
            skip = self.skip(*(part[:, -self.skip.look_back :] for part in (targets, past_known)), future_known)
        smoothed = None if self.smoothing is None else self.smoothing.each(targets[:, -self.smoothing.rows :])
        targets = targets[:, -self.rows :]
        last = targets[:, -(self.seasons[-1] if self.seasons else self.rows) :]
        level = last.mean(1, keepdim=True)
        scale = (last.var(1, keepdim=True, correction=0) + LEAST_SCALE**2).sqrt()
        first = future_known.shape[2] - len(self.window.covariates)
        known = past_known[:, -self.rows :, [first + i for i in self.changing]]
        return ScaledWindows((targets - level) / scale, level, scale, skip, smoothed, known, future_known)

    def base(self, scaled: ScaledWindows, steps: Int[Tensor, "S"]) -> Float[Tensor, "B S T"]:
        """What the trees' sum is added to: the skip's forecast, or the level."""
        return scaled.level.expand(-1, len(steps), -1) if scaled.skip is None else scaled.skip[:, steps]

    def features(self, scaled: ScaledWindows, steps: Int[Tensor, "S"]) -> Float[Tensor, "M G"]:
        """What the trees read of some steps (M, G), M = B * S * T."""
        values, level, scale, skip, smoothed, known, future_known = scaled
        shape = (values.shape[0], len(steps), values.shape[2])
        read = values.shape[1]
        features = [values[:, self.seasons_ago(steps, *lag)] for lag in self.lags]
        features += [values[:, -back : read - back + 1] for back in range(1, min(LAST, read) + 1)]
        features += [values[:, -season:].mean(1, keepdim=True) for season in self.seasons[:-1]]
        features += [level, scale, steps[:, None].to(values), torch.arange(shape[2], device=values.device).to(values)]
        if skip is not None:
            features.append((skip[:, steps] - level) / scale)
        if smoothed is not None:
            features += [(part - level) / scale for part in smoothed[:, steps].unbind(3)]
        of_known = [future_known[:, steps], *(known[:, self.seasons_ago(steps, season, 0)] for season in self.seasons)]
        features += [part[:, :, i : i + 1] for part in of_known for i in range(part.shape[2])]
        return torch.stack([feature.expand(shape) for feature in features]).flatten(1).T

    @property
    def lags(self) -> list[tuple[int, int]]:
        """The seasons, and how many whole ones lie between a step and its value that is read, beyond the least."""
        return [(season, more) for season, count in lag_counts(self.seasons) for more in range(count)]

    def seasons_ago(self, steps: Int[Tensor, "S"], season: int, more: int) -> Int[Tensor, "S"]:
        """The rows of the past that lie whole seasons before the steps: the last such ones, or so many seasons before.

        Where the past does not go back so far, the first row that it has of these.
        """
        ago = torch.minimum(steps // season + 1 + more, (self.rows + steps) // season)
        return self.rows + steps - ago * season


def lag_counts(seasons: Sequence[int]) -> list[tuple[int, int]]:
    """The seasons, shortest first, and of how many of each a step's value is read."""
    return [(season, LAGS if place else FIRST_LAGS) for place, season in enumerate(sorted(seasons))]
