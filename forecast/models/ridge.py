"""Ridge regression on a long past, as a model."""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.bounds import Bound, Positive, at_least, between
from forecast.models.base import FittedModel, FittingRows, Gathered, Options, WholeWindows, WindowShape
from forecast.models.covariates import CovariateRegressors, joint_candidate, joint_sums
from forecast.ops.ridge import (
    STRENGTHS,
    LinearMap,
    Naive,
    intercept_share,
    maps_by_strength,
    mean_map,
    mean_squared_error,
)
from forecast.ops.window_sums import WindowSums

LONGEST = 1008  # rows: six weeks of hours; the cost grows with their cube
STEP = 1.5  # each look-back tried is so many times the next shorter one
LEAST = 1e-3  # share in the mean, in those of the best map: less would ask for rows that hardly count
ABOVE_ZERO = Bound(lambda value: value > 0, "must be greater than 0")
MOST_NUMBERS = 2_500  # of a window with covariates that a map is fitted to
MOST_COLUMNS = 16  # that are given a map each: every one costs as much as the shared map


class Candidate(NamedTuple):
    """A map fitted on the train windows and its MSE on the val windows.

    again: the map that the same choice gives on more windows, None without them.
    """

    linear: LinearMap
    error: float
    again: LinearMap | None = None


class RidgeOptions(TypedDict):
    """What was typed of a ridge; None lets its windows choose."""

    look_back: int | None
    naive: Naive | None
    strength: float | None
    columns: Literal["shared", "each"] | None
    tolerance: float
    intercept: float | None
    transform: Literal["asinh"] | None


class Ridge(FittedModel):
    """A linear map of a column's past, fitted by ridge regression.

    Look-backs in steps of STEP up to LONGEST, or to what the train rows allow, and the naive forecasts that a map is
    shrunk towards (the last value, the mean, the last season) each give one map, at the strength that errs least on the
    val windows. The model is a mean of those maps, in which each has the share exp(-excess / `tolerance`) times its
    look-back; the excess is how far its error there lies above the least, in times of that: what the val rows can
    hardly tell apart is not chosen among. That mean is a linear map itself. Of its intercept a map keeps a share.

    window: the data's sizes; a map may read further back than seq_len. look_back, naive, strength: None tries those
    above, a value takes that alone; seen by `fit`. columns: shared, one map for all targets; each, one for every
    target; None joins the two for every target by the same rule, with more than MOST_COLUMNS targets shared. tolerance:
    0 takes the best map alone. intercept: the share of it that is kept, from 0 to 1; None: as `intercept_share` finds
    in the windows, and all of it with covariates.

    transform: asinh fits the map to asinh((y - median) / deviation), the deviation by medians too, of the train rows,
    and forecasts back: of spikes either way, as of prices, it sees the logarithm (Uniejewski et al. 2018, "Variance
    stabilizing transformations for electricity spot price forecasting").

    With covariates a map also reads the regressors that `CovariateRegressors` makes of them, whose ridge has a strength
    of its own, chosen on the val windows too; every target has its map then, unless columns=shared. The shares of those
    maps do not depend on their look-backs.
    """

    flexible = False
    roles = frozenset({"known", "static"})
    median: Tensor
    deviation: Tensor

    def __init__(
        self,
        *,
        window: WindowShape,
        look_back: Positive | None = None,
        naive: Naive | None = None,
        strength: Annotated[float, ABOVE_ZERO] | None = None,
        columns: Literal["shared", "each"] | None = None,
        tolerance: Annotated[float, at_least(0)] = 0.1,
        intercept: Annotated[float, between(0, 1)] | None = None,
        transform: Literal["asinh"] | None = None,
    ) -> None:
        super().__init__(window)
        self.rows = look_back or window.seq_len
        self.options: RidgeOptions = {
            "look_back": look_back,
            "naive": naive,
            "strength": strength,
            "columns": columns,
            "tolerance": tolerance,
            "intercept": intercept,
            "transform": transform,
        }
        if transform is not None:
            self.register_buffer("median", torch.zeros(window.n_targets))
            self.register_buffer("deviation", torch.ones(window.n_targets))
        maps = 1 if columns == "shared" else window.n_targets
        self.weight = nn.Parameter(torch.zeros(maps, window.pred_len, self.rows))
        self.bias = nn.Parameter(torch.zeros(maps, window.pred_len))
        self.regressors = CovariateRegressors(window) if window.covariates else None
        if self.regressors is not None:
            self.effect = nn.Parameter(torch.zeros(maps, window.pred_len, self.regressors.count))

    @property
    def look_back(self) -> int:
        """Rows of the longest map, or those of the covariates, where these are more."""
        return self.rows if self.regressors is None else max(self.rows, self.regressors.rows)

    def fit(self, rows: FittingRows, whole: FittingRows | None = None) -> Options:
        """Fits all maps, and returns the options with the look-back and the columns as chosen.

        whole: more rows, to which the maps that `rows` choose are fitted.
        """
        if self.options["transform"] is not None:
            self.find_scale(rows)
            rows, whole = self.seen(rows), None if whole is None else self.seen(whole)
        columns, n_targets = self.options["columns"], rows.series.shape[1]
        if n_targets == 1 or (columns is None and n_targets > MOST_COLUMNS):
            columns = "shared"
        if self.regressors is not None:
            joint = self.with_covariates(rows, self.regressors, shared=columns == "shared", whole=whole)
            return self.take([self.mean(rows, candidates) for candidates in joint])
        parts = [rows.series] if columns == "shared" else torch.split(rows.series, 1, dim=1)
        by_part = self.candidates(rows, parts, together=columns is None, whole=whole)
        if columns is None:
            *own, together = by_part
            shared = self.mean(rows, together)
            maps = [self.joined(rows, *pair, shared) for pair in zip(parts, own, strict=True)]
        else:
            maps = [self.mean(rows, candidates) for candidates in by_part]
        return self.take(maps)

    def find_scale(self, rows: FittingRows) -> None:
        """Takes median and deviation of the values that the train windows begin with."""
        values = rows.series[torch.from_numpy(rows.origins("train", 1))]
        self.median.copy_(values.median(0).values)
        # 1.4826: that of normal values is then their standard deviation
        self.deviation.copy_(1.4826 * (values - self.median).abs().median(0).values)
        self.deviation[self.deviation == 0] = 1.0  # more than half of the values are one and the same

    def seen(self, rows: FittingRows) -> FittingRows:
        """The rows as a map sees them."""

        def windows(split: str, look_back: int) -> WholeWindows:
            numbers, gather = rows.windows(split, look_back)

            def gathered(some: npt.NDArray[np.int64]) -> Gathered:
                past, past_known, future_known, target = gather(some)
                return Gathered(self.flat(past), past_known, future_known, self.flat(target))

            return WholeWindows(numbers, gathered)

        return replace(rows, series=self.flat(rows.series), windows=windows)

    def flat(self, values: Float[Tensor, "*N T"]) -> Float[Tensor, "*N T"]:
        """Values (..., T) as a map sees them."""
        if self.options["transform"] is None:
            return values
        return torch.asinh((values - self.median) / self.deviation).to(values.dtype)

    def raised(self, values: Float[Tensor, "*N T"]) -> Float[Tensor, "*N T"]:
        """The inverse of `flat`."""
        if self.options["transform"] is None:
            return values
        return (torch.sinh(values) * self.deviation + self.median).to(values.dtype)

    def refit(self, rows: FittingRows, whole: FittingRows, held_out: Options) -> Options:
        """The look-backs, naive forecasts, strengths and shares that `rows` choose, each map fitted to `whole`."""
        del held_out  # which names the longest look-back alone
        return self.fit(rows, whole)

    def take(self, means: Sequence[Candidate]) -> Options:
        """Takes the weights of maps; returns the options as they are then."""
        maps = [mean.again or mean.linear for mean in means]
        self.rows = max(linear.weight.shape[1] for linear in maps)
        weights = [nn.functional.pad(linear.weight, (self.rows - linear.weight.shape[1], 0)) for linear in maps]
        effects = [linear.effect.float() for linear in maps if linear.effect is not None]
        self.set_maps(
            torch.stack(weights).float(),
            torch.stack([linear.bias for linear in maps]).float(),
            torch.stack(effects) if effects else None,
        )
        return {**self.options, "look_back": self.rows, "columns": "each" if len(maps) > 1 else "shared"}

    def set_maps(
        self,
        weight: Float[Tensor, "maps P L"],
        bias: Float[Tensor, "maps P"],
        effect: Float[Tensor, "maps P M"] | None = None,
    ) -> None:
        """Puts these weights in place of its own, in the type that they have, which is that of its sums."""
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        if effect is not None:
            self.effect = nn.Parameter(effect)

    def joined(
        self, rows: FittingRows, column: Float[Tensor, "N 1"], candidates: Sequence[Candidate], shared: Candidate
    ) -> Candidate:
        """The mean of a column's own map and the shared one."""
        own = self.mean(rows, candidates)
        reach = max(own.linear.weight.shape[1], shared.linear.weight.shape[1])
        val = rows.sums(column, rows.origins("val", reach) - reach, reach + self.window.pred_len)
        return self.mean(
            rows, [candidate._replace(error=mean_squared_error(val, candidate.linear)) for candidate in (shared, own)]
        )

    def mean(self, rows: FittingRows, candidates: Sequence[Candidate]) -> Candidate:
        """The mean of maps, each with its share; see the class. Its own error is not computed: NaN."""
        if not candidates:
            raise ValueError(
                f"model.naive={self.options['naive']} with a season of {rows.period} and model.strength="
                f"{self.options['strength']}: no look-back tried is longer than the season, or the strength is too "
                "small for these rows. Set model.naive=null model.strength=null to let both be chosen."
            )
        least = min(candidate.error for candidate in candidates)
        tolerated = self.options["tolerance"] * least  # what costs a map all but 1 / e of its share
        excess = [candidate.error - least for candidate in candidates]
        shares = [math.exp(-more / tolerated) if tolerated > 0 else float(more == 0) for more in excess]
        if self.regressors is None:
            # Look-backs are a geometric grid: equal shares would give most of the mean to short ones, and a longer map
            # can do whatever a shorter one does.
            lengths = [candidate.linear.weight.shape[1] for candidate in candidates]
            shares = [share * length for share, length in zip(shares, lengths, strict=True)]
        kept = [pair for pair in zip(candidates, shares, strict=True) if pair[1] > LEAST * max(shares)]
        shares = [share for _, share in kept]
        again = [candidate.again for candidate, _ in kept if candidate.again is not None]
        linear = mean_map([candidate.linear for candidate, _ in kept], shares)
        return Candidate(linear, math.nan, mean_map(again, shares) if again else None)

    def candidates(
        self,
        rows: FittingRows,
        parts: Sequence[Float[Tensor, "N T"]],
        *,
        together: bool = False,
        whole: FittingRows | None = None,
    ) -> list[list[Candidate]]:
        """Of each part of the columns, and at the end of all `together`, the maps that its columns share.

        For each look-back and naive forecast that whose strength errs least on the val windows. whole: has the same
        series, so that the parts are its columns too.
        """
        look_backs = self.look_backs(rows)
        fitted = [(rows, "train"), (rows, "val"), *([] if whole is None else [(whole, "train")])]
        sums = [[self.sums(of, split, part, look_backs) for of, split in fitted] for part in parts]
        together_with = [*parts, *[rows.series] * together]
        candidates: list[list[Candidate]] = [[] for _ in together_with]
        for look_back in look_backs:
            of_parts = [tuple(next(window_sums) for window_sums in of_part) for of_part in sums]
            if together:
                of_parts.append(tuple(functools.reduce(WindowSums.plus, of) for of in zip(*of_parts, strict=True)))
            for part_candidates, of_part, series in zip(candidates, of_parts, together_with, strict=True):
                own = []
                for some, (of, split) in zip(of_part, fitted, strict=True):
                    share = self.options["intercept"]
                    if share is None and split == "train":
                        sizes = {"look_back": look_back, "pred_len": self.window.pred_len}
                        share = intercept_share(series, of.origins(split, look_back), **sizes)
                    own.append(some if share is None else some._replace(intercept=share))
                part_candidates.extend(self.maps(look_back, *own, period=rows.period))
        return candidates

    def sums(
        self, rows: FittingRows, split: str, series: Float[Tensor, "N T"], look_backs: Sequence[int]
    ) -> Iterator[WindowSums]:
        """For each look-back, longest first, over the windows of a split.

        A forecast that may begin so many rows after the first may do so after fewer: what the windows of a longer
        look-back sum to is a part of the next sums.
        """
        total, known = None, np.empty(0, dtype=np.int64)
        for look_back in look_backs:
            length, origins = look_back + self.window.pred_len, rows.origins(split, look_back)
            more = rows.sums(series, np.setdiff1d(origins, known, assume_unique=True) - look_back, length)
            total, known = more if total is None else total.last(length).plus(more), origins
            yield total

    def maps(
        self, look_back: int, train: WindowSums, val: WindowSums, whole: WindowSums | None = None, *, period: int | None
    ) -> Iterator[Candidate]:
        """For each naive forecast the map whose strength errs least on the val windows."""
        naive, strength = self.options["naive"], self.options["strength"]
        strengths = STRENGTHS if strength is None else (strength,)
        for name in naives(look_back, period):
            if naive in (None, name):
                fitted = partial(maps_by_strength, look_back=look_back, naive=name, period=period or 1)
                maps = fitted(train, strengths=strengths)
                errors = {strength: mean_squared_error(val, linear) for strength, linear in maps.items()}
                for best in sorted(errors, key=errors.__getitem__)[:1]:
                    again = {} if whole is None else fitted(whole, strengths=[best])
                    yield Candidate(maps[best], errors[best], None if whole is None else again.get(best, maps[best]))

    def with_covariates(
        self, rows: FittingRows, regressors: CovariateRegressors, *, shared: bool, whole: FittingRows | None
    ) -> Iterator[list[Candidate]]:
        """Of each target, or of all together, the maps for each look-back and naive forecast."""
        windows, pred_len = rows.windows, self.window.pred_len
        fitted = [(windows, "train"), (windows, "val")]
        fitted += [] if whole is None else [(whole.windows, "train")]
        counted = replace(rows, origins=lambda split, look_back: windows(split, look_back).numbers)
        most = max(1, MOST_NUMBERS - pred_len - regressors.count)
        look_backs = self.look_backs(counted, longest=min(LONGEST, most))
        by_split = [
            joint_sums(of(split, max(look_backs[0], regressors.rows)), regressors, look_backs[0], shared=shared)
            for of, split in fitted
        ]
        naive, strength, share = self.options["naive"], self.options["strength"], self.options["intercept"]
        for of_target in zip(*by_split, strict=True):
            own = [sums._replace(intercept=1.0 if share is None else share) for sums in of_target]
            yield [
                Candidate(*candidate)
                for look_back in look_backs
                for name in naives(look_back, rows.period)
                if naive in (None, name)
                for candidate in joint_candidate(
                    [sums.last(look_back + pred_len + regressors.count) for sums in own],
                    {"look_back": look_back, "pred_len": pred_len, "naive": name, "period": rows.period},
                    strengths=STRENGTHS if strength is None else (strength,),
                )
            ]

    def look_backs(self, rows: FittingRows, *, longest: int = LONGEST) -> list[int]:
        """The look-backs to be tried, longest first, whole seasons where they hold one."""
        if given := self.options["look_back"]:
            if not len(rows.origins("train", given)):
                raise ValueError(
                    f"model.look_back={given}: no window of the train rows reads back so far. Set "
                    "model.look_back=null to let it be chosen, or give fewer rows."
                )
            return [given]
        longest = longest_look_back(rows, longest=longest)
        lengths, length = [], float(longest)
        while length >= min(longest, max(2, rows.period or 1)):
            season = rows.period or 1
            lengths.append(int(length) // season * season or int(length))
            length /= STEP
        return list(dict.fromkeys(lengths))

    def forecast(
        self, past: Float[Tensor, "B L C"], past_known: Float[Tensor, "B L F"], future_known: Float[Tensor, "B P F"]
    ) -> Float[Tensor, "B P T"]:
        """Past (B, L, C), L = look_back -> forecast (B, P, T); of the known features the covariates are used."""
        targets = self.window.target_columns(past)
        if self.regressors is None:
            return self.extend(targets)
        targets = self.flat(targets)
        numbers = self.regressors.of(past_known, future_known)
        effects = torch.einsum("bm,tpm->bpt", numbers.to(self.effect.dtype), self.effect)
        return self.raised(self.mapped(targets[:, -self.rows :]) + effects.to(past.dtype))

    def extend(self, past: Float[Tensor, "B L T"]) -> Float[Tensor, "B P T"]:
        """(B, L, T) -> (B, P, T)."""
        return self.raised(self.mapped(self.flat(past)))

    def mapped(self, past: Float[Tensor, "B L T"]) -> Float[Tensor, "B P T"]:
        """(B, L, T) -> (B, P, T), as a map sees both. Its rows sum to one: so large values cost float32 no digits."""
        # a copy in which a column is one piece of memory: four times as fast to go on with
        columns = past.transpose(1, 2).to(self.weight.dtype, copy=True, memory_format=torch.contiguous_format)
        last = columns[..., -1:].clone()
        columns -= last
        if len(self.weight) == 1:
            forecast = columns @ self.weight[0].T + self.bias[0]
        else:
            forecast = torch.einsum("btl,tpl->btp", columns, self.weight) + self.bias
        return (forecast + last).transpose(1, 2).to(past.dtype)


def longest_look_back(rows: FittingRows, *, longest: int, train_share: float = 0.0) -> int:
    """The longest look-back, so many rows at most, that is fitted to no fewer windows than it reads rows.

    And keeps `rows.val_share` of the val windows and `train_share` of the train windows: where windows that touch a gap
    are left out, or series are short, a longer one has few of them, or none.
    """
    enough = rows.val_share * len(rows.origins("val", 1))
    least = train_share * len(rows.origins("train", 1))
    while longest > 1 and (
        len(rows.origins("train", longest)) < max(longest, least) or len(rows.origins("val", longest)) < enough
    ):
        longest -= max(1, longest // 10)
    return longest


def naives(look_back: int, period: int | None) -> list[Naive]:
    """The naive forecasts that so many rows can make."""
    return ["last", "mean", "season"] if period and 1 < period < look_back else ["last", "mean"]
