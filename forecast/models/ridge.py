"""Ridge regression on a long past, as a model."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from forecast.bounds import Bound, Positive, at_least
from forecast.models.base import FittedModel, FittingRows, WindowShape
from forecast.ops.ridge import STRENGTHS, LinearMap, Naive, mean_map, mean_squared_error, ridge_maps
from forecast.ops.window_sums import window_sums

LONGEST = 1008  # rows: six weeks of hours; the cost grows with their cube
STEP = 1.5  # each look-back tried is so many times the next shorter one
ABOVE_ZERO = Bound(lambda value: value > 0, "must be greater than 0")
MOST_COLUMNS = 16  # that are given a map each: every one costs as much as the shared map


class Candidate(NamedTuple):
    """A map fitted on the train windows and its MSE on the val windows."""

    linear: LinearMap
    error: float


class Ridge(FittedModel):
    """A linear map of a column's past, fitted by ridge regression.

    Look-backs in steps of STEP up to LONGEST, or to what the train rows allow, and the naive forecasts that a map is
    shrunk towards (see `ops.ridge.naive_forecast`) each give one map, at the strength that errs least on the val
    windows. The model is the mean of those maps whose error there is at most `tolerance` above the least: what the val
    rows can hardly tell apart is not chosen among. That mean is a linear map itself.

    window: the data's sizes; a map may read further back than seq_len. look_back, naive, strength: None tries those
    above, a value takes that alone; seen by `fit`. columns: shared, one map for all targets; each, one for every
    target; None joins the two for every target by the same rule, with more than MOST_COLUMNS targets shared.
    """

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

    @property
    def look_back(self) -> int:
        """Rows of the longest map."""
        return self.rows

    def fit(self, rows: FittingRows) -> dict[str, Any]:
        """Fits all maps, and returns the options with the look-back and the columns as chosen."""
        columns, n_targets = self.options["columns"], rows.series.shape[1]
        if columns is None and n_targets > MOST_COLUMNS:
            columns = "shared"
        shared = None if columns == "each" and n_targets > 1 else self.mean_of_best(rows, rows.series)
        maps = [] if shared is None else [shared]
        if columns != "shared" and n_targets > 1:
            maps = [self.map_for(rows, column, shared) for column in rows.series.T.unsqueeze(-1)]
        chosen = "each" if len(maps) > 1 and any(one is not shared for one in maps) else "shared"
        maps = maps if chosen == "each" else maps[:1]
        whole = mean_map(maps)  # for the length
        self.rows = whole.weight.shape[1]
        weights = [nn.functional.pad(one.weight, (self.rows - one.weight.shape[1], 0)) for one in maps]
        self.weight = nn.Parameter(torch.stack(weights).float())
        self.bias = nn.Parameter(torch.stack([one.bias for one in maps]).float())
        return self.options | {"look_back": self.rows, "columns": chosen}

    def map_for(self, rows: FittingRows, column: Float[Tensor, "N 1"], shared: LinearMap | None) -> LinearMap:
        """A map of a column's own; beside a shared one the mean of the two, or that which errs clearly less."""
        own = self.mean_of_best(rows, column)
        if shared is None:
            return own
        reach = max(own.weight.shape[1], shared.weight.shape[1])
        val = window_sums(column, rows.origins("val", reach) - reach, reach + self.window.pred_len)
        both = [Candidate(one, mean_squared_error(val, one)) for one in (shared, own)]
        kept = self.best(both)
        return shared if len(kept) == 1 and kept[0] is shared else mean_map(kept)

    def best(self, candidates: Sequence[Candidate]) -> list[LinearMap]:
        """Those whose error is at most `tolerance` above the least."""
        most = (1 + self.options["tolerance"]) * min(candidate.error for candidate in candidates)
        return [candidate.linear for candidate in candidates if candidate.error <= most]

    def mean_of_best(self, rows: FittingRows, series: Float[Tensor, "N T"]) -> LinearMap:
        """The mean of the best maps that the columns of a series share."""
        candidates = list(self.candidates(rows, series))
        if not candidates:
            raise ValueError(
                f"model.naive={self.options['naive']} with a season of {rows.period} and model.strength="
                f"{self.options['strength']}: no look-back tried is longer than the season, or the strength is too "
                "small for these rows. Leave both out."
            )
        return mean_map(self.best(candidates))

    def candidates(self, rows: FittingRows, series: Float[Tensor, "N T"]) -> Iterator[Candidate]:
        """For each look-back and naive forecast the map whose strength errs least on the val windows."""
        pred_len, naive, strength = self.window.pred_len, self.options["naive"], self.options["strength"]
        for look_back in self.look_backs(rows):
            train, val = (
                window_sums(series, rows.origins(split, look_back) - look_back, look_back + pred_len)
                for split in ("train", "val")
            )
            strengths = STRENGTHS if strength is None else (strength,)
            for name in naives(look_back, rows.period):
                if naive in (None, name):
                    maps = ridge_maps(train, look_back, naive=name, period=rows.period or 1, strengths=strengths)
                    tried = [Candidate(one, mean_squared_error(val, one)) for one in maps]
                    yield from sorted(tried, key=lambda one: one.error)[:1]

    def look_backs(self, rows: FittingRows) -> list[int]:
        """The look-backs to be tried, longest first, whole seasons where they hold one.

        A map is fitted to no fewer windows than it reads rows, and keeps half of the val windows: where windows that
        touch a gap are left out, a longer one has few of them, or none.
        """
        if given := self.options["look_back"]:
            if not len(rows.origins("train", given)):
                raise ValueError(
                    f"model.look_back={given}: no window of the train rows reads back so far. Leave it out, or take "
                    "fewer rows."
                )
            return [given]
        longest, enough = LONGEST, len(rows.origins("val", 1)) / 2
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

    def extend(self, past: Float[Tensor, "B L T"]) -> Float[Tensor, "B P T"]:
        """(B, L, T) -> (B, P, T). The rows of a map sum to one: so large values cost float32 no digits."""
        columns = past.transpose(1, 2)
        last = columns[..., -1:]
        weight, bias = (one.expand(columns.shape[1], *one.shape[1:]) for one in (self.weight, self.bias))
        return (torch.einsum("btl,tpl->btp", columns - last, weight) + bias + last).transpose(1, 2)


def naives(look_back: int, period: int | None) -> list[Naive]:
    """The naive forecasts that so many rows can make."""
    return ["last", "mean", "season"] if period and 1 < period < look_back else ["last", "mean"]
