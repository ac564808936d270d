"""Ridge regression on a long past, as a model."""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.bounds import Bound, Positive, at_least
from forecast.models.base import FittedModel, FittingRows, WindowShape
from forecast.models.covariates import CovariateRegressors, joint_candidate, joint_sums
from forecast.ops.ridge import STRENGTHS, LinearMap, Naive, mean_map, mean_squared_error, ridge_maps
from forecast.ops.window_sums import WindowSums

LONGEST = 1008  # rows: six weeks of hours; the cost grows with their cube
STEP = 1.5  # each look-back tried is so many times the next shorter one
LEAST = 1e-3  # share in the mean, in those of the best map: less would ask for rows that hardly count
ABOVE_ZERO = Bound(lambda value: value > 0, "must be greater than 0")
MOST_NUMBERS = 2_500  # of a window with covariates that a map is fitted to
MOST_COLUMNS = 16  # that are given a map each: every one costs as much as the shared map


class Candidate(NamedTuple):
    """A map fitted on the train windows and its MSE on the val windows."""

    linear: LinearMap
    error: float


class Ridge(FittedModel):
    """A linear map of a column's past, fitted by ridge regression.

    Look-backs in steps of STEP up to LONGEST, or to what the train rows allow, and the naive forecasts that a map is
    shrunk towards (see `ops.ridge.naive_forecast`) each give one map, at the strength that errs least on the val
    windows. The model is a mean of those maps, in which each has the share exp(-excess / `tolerance`); the excess is
    how far its error there lies above the least, in times of that: what the val rows can hardly tell apart is not
    chosen among. That mean is a linear map itself.

    window: the data's sizes; a map may read further back than seq_len. look_back, naive, strength: None tries those
    above, a value takes that alone; seen by `fit`. columns: shared, one map for all targets; each, one for every
    target; None joins the two for every target by the same rule, with more than MOST_COLUMNS targets shared. tolerance:
    0 takes the best map alone.

    With covariates a map also reads the regressors that `CovariateRegressors` makes of them, whose ridge has a strength
    of its own, chosen on the val windows too; every target has its map then, unless columns=shared.
    """

    roles = frozenset({"known", "static"})

    def __init__(
        self,
        *,
        window: WindowShape,
        look_back: Positive | None = None,
        naive: Naive | None = None,
        strength: Annotated[float, ABOVE_ZERO] | None = None,
        columns: Literal["shared", "each"] | None = None,
        tolerance: Annotated[float, at_least(0)] = 0.1,
    ) -> None:
        super().__init__(window)
        self.rows = look_back or window.seq_len
        self.options: dict[str, Any] = {"look_back": look_back, "naive": naive, "strength": strength}
        self.options |= {"columns": columns, "tolerance": tolerance}
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

    def fit(self, rows: FittingRows) -> dict[str, Any]:
        """Fits all maps, and returns the options with the look-back and the columns as chosen."""
        columns, n_targets = self.options["columns"], rows.series.shape[1]
        if n_targets == 1 or (columns is None and n_targets > MOST_COLUMNS):
            columns = "shared"
        if self.regressors is not None:
            maps = [
                self.mean(rows, one) for one in self.with_covariates(rows, self.regressors, shared=columns == "shared")
            ]
            return self.take(maps)
        parts = [rows.series] if columns == "shared" else torch.split(rows.series, 1, dim=1)
        found = self.candidates(rows, parts, together=columns is None)
        if columns is None:
            *own, together = found
            shared = self.mean(rows, together)
            maps = [self.joined(rows, *one, shared) for one in zip(parts, own, strict=True)]
        else:
            maps = [self.mean(rows, one) for one in found]
        return self.take(maps)

    def take(self, maps: Sequence[LinearMap]) -> dict[str, Any]:
        """Takes the weights of maps; returns the options as they are then."""
        self.rows = max(one.weight.shape[1] for one in maps)
        weights = [nn.functional.pad(one.weight, (self.rows - one.weight.shape[1], 0)) for one in maps]
        self.weight = nn.Parameter(torch.stack(weights).float())
        self.bias = nn.Parameter(torch.stack([one.bias for one in maps]).float())
        if effects := [one.effect for one in maps if one.effect is not None]:
            self.effect = nn.Parameter(torch.stack(effects).float())
        return self.options | {"look_back": self.rows, "columns": "each" if len(maps) > 1 else "shared"}

    def joined(
        self, rows: FittingRows, column: Float[Tensor, "N 1"], found: Sequence[Candidate], shared: LinearMap
    ) -> LinearMap:
        """The mean of a column's own map and the shared one."""
        own = self.mean(rows, found)
        reach = max(own.weight.shape[1], shared.weight.shape[1])
        val = rows.sums(column, rows.origins("val", reach) - reach, reach + self.window.pred_len)
        return self.mean(rows, [Candidate(one, mean_squared_error(val, one)) for one in (shared, own)])

    def mean(self, rows: FittingRows, candidates: Sequence[Candidate]) -> LinearMap:
        """The mean of maps, each with its share; see the class."""
        if not candidates:
            raise ValueError(
                f"model.naive={self.options['naive']} with a season of {rows.period} and model.strength="
                f"{self.options['strength']}: no look-back tried is longer than the season, or the strength is too "
                "small for these rows. Set model.naive=null model.strength=null to let both be chosen."
            )
        least = min(candidate.error for candidate in candidates)
        one = self.options["tolerance"] * least  # what costs a map all but 1 / e of its share
        excess = [candidate.error - least for candidate in candidates]
        shares = [math.exp(-more / one) if one > 0 else float(more == 0) for more in excess]
        kept = [(candidate.linear, share) for candidate, share in zip(candidates, shares, strict=True) if share > LEAST]
        return mean_map(*zip(*kept, strict=True))

    def candidates(
        self, rows: FittingRows, parts: Sequence[Float[Tensor, "N T"]], *, together: bool = False
    ) -> list[list[Candidate]]:
        """Of each part of the columns, and at the end of all `together`, the maps that its columns share.

        For each look-back and naive forecast that whose strength errs least on the val windows.
        """
        look_backs = self.look_backs(rows)
        train, val = ([self.sums(rows, split, part, look_backs) for part in parts] for split in ("train", "val"))
        found: list[list[Candidate]] = [[] for _ in range(len(parts) + together)]
        for look_back in look_backs:
            pairs = [(next(one), next(other)) for one, other in zip(train, val, strict=True)]
            if together:
                pairs.append(tuple(functools.reduce(WindowSums.plus, sums) for sums in zip(*pairs, strict=True)))
            for one, pair in zip(found, pairs, strict=True):
                one.extend(self.maps(look_back, *pair, period=rows.period))
        return found

    def sums(
        self, rows: FittingRows, split: str, series: Float[Tensor, "N T"], look_backs: Sequence[int]
    ) -> Iterator[WindowSums]:
        """For each look-back, longest first, over the windows of a split.

        A forecast that may begin so many rows after the first may do so after fewer: what the windows of a longer
        look-back sum to is a part of the next sums.
        """
        found, known = None, np.empty(0, dtype=np.int64)
        for look_back in look_backs:
            length, origins = look_back + self.window.pred_len, rows.origins(split, look_back)
            more = rows.sums(series, np.setdiff1d(origins, known, assume_unique=True) - look_back, length)
            found, known = more if found is None else found.last(length).plus(more), origins
            yield found

    def maps(self, look_back: int, train: WindowSums, val: WindowSums, *, period: int | None) -> Iterator[Candidate]:
        """For each naive forecast the map whose strength errs least on the val windows."""
        naive, strength = self.options["naive"], self.options["strength"]
        strengths = STRENGTHS if strength is None else (strength,)
        for name in naives(look_back, period):
            if naive in (None, name):
                maps = ridge_maps(train, look_back, naive=name, period=period or 1, strengths=strengths)
                tried = [Candidate(one, mean_squared_error(val, one)) for one in maps]
                yield from sorted(tried, key=lambda one: one.error)[:1]

    def with_covariates(
        self, rows: FittingRows, regressors: CovariateRegressors, *, shared: bool
    ) -> Iterator[list[Candidate]]:
        """Of each target, or of all together, the maps for each look-back and naive forecast."""
        windows, pred_len = rows.windows, self.window.pred_len
        assert windows is not None
        counted = replace(rows, origins=lambda split, look_back: windows(split, look_back).numbers)
        most = max(1, MOST_NUMBERS - pred_len - regressors.count)
        look_backs = self.look_backs(counted, longest=min(LONGEST, most))
        train, val = (
            joint_sums(windows(split, max(look_backs[0], regressors.rows)), regressors, look_backs[0], shared=shared)
            for split in ("train", "val")
        )
        naive, strength = self.options["naive"], self.options["strength"]
        for pair in zip(train, val, strict=True):
            yield [
                Candidate(*one)
                for look_back in look_backs
                for name in naives(look_back, rows.period)
                if naive in (None, name)
                for one in joint_candidate(
                    [sums.last(look_back + pred_len + regressors.count) for sums in pair],
                    {"look_back": look_back, "pred_len": pred_len, "naive": name, "period": rows.period},
                    strengths=STRENGTHS if strength is None else (strength,),
                )
            ]

    def look_backs(self, rows: FittingRows, *, longest: int = LONGEST) -> list[int]:
        """The look-backs to be tried, longest first, whole seasons where they hold one.

        A map is fitted to no fewer windows than it reads rows, and keeps `rows.val_share` of the val windows: where
        windows that touch a gap are left out, or series are short, a longer one has few of them, or none.
        """
        if given := self.options["look_back"]:
            if not len(rows.origins("train", given)):
                raise ValueError(
                    f"model.look_back={given}: no window of the train rows reads back so far. Set "
                    "model.look_back=null to let it be chosen, or give fewer rows."
                )
            return [given]
        enough = rows.val_share * len(rows.origins("val", 1))
        while longest > 1 and (
            len(rows.origins("train", longest)) < longest or len(rows.origins("val", longest)) < enough
        ):
            longest -= max(1, longest // 10)
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
        numbers = self.regressors.of(past_known, future_known)
        return self.extend(targets[:, -self.rows :]) + torch.einsum("bm,tpm->bpt", numbers, self.effect)

    def extend(self, past: Float[Tensor, "B L T"]) -> Float[Tensor, "B P T"]:
        """(B, L, T) -> (B, P, T). The rows of a map sum to one: so large values cost float32 no digits."""
        columns = as_rows(past, past.dtype)
        last = columns[..., -1:].clone()
        columns -= last
        if len(self.weight) == 1:
            forecast = columns @ self.weight[0].T + self.bias[0]
        else:
            forecast = torch.einsum("btl,tpl->btp", columns, self.weight) + self.bias
        return (forecast + last).transpose(1, 2)


def as_rows(columns: Float[Tensor, "B L T"], dtype: torch.dtype) -> Float[Tensor, "B T L"]:
    """A copy (B, L, T) -> (B, T, L) in which a column is one piece of memory: four times as fast to go on with."""
    return columns.transpose(1, 2).to(dtype, copy=True, memory_format=torch.contiguous_format)


def naives(look_back: int, period: int | None) -> list[Naive]:
    """The naive forecasts that so many rows can make."""
    return ["last", "mean", "season"] if period and 1 < period < look_back else ["last", "mean"]
