"""Exponential smoothing with many settings, as a model."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from forecast.bounds import Positive, Scale, at_least
from forecast.models.base import FittedModel, FittingRows, Options, WindowShape
from forecast.ops.smoothing import Setting, setting_grid, smoothed

Origins = npt.NDArray[np.int64]

LONGEST, STEP = 1008, 0.75  # rows that are read: six weeks of hours; lengths of pasts are known to about so much
WHOLE, MOST_SEASONS, FIRST = 2, 2, 4  # seasons that tell one from a trend; their kinds; of which a start is the mean
DAY, WEEK = 24, 7  # a season of so many steps or more may be a day; days
KEPT, FITTED_ON, AT_ONCE = 12, 512, 32  # settings; windows that choose them, half of train; settings tried at once
# Origins in a window, from a horizon before its end to so much of it; steps judged at each; rows that must lie before.
ORIGINS, FARTHEST, JUDGED, FEWEST = 12, 0.5, 24, 2
LEAST_ERROR, NO_ERROR = 1e-3, 1e-20  # of a window's deviation: smaller errors are no better; of a constant
PRIOR = 2  # origins: for how many those of other windows count
CLIPS, REACH = (0.0, 3.0, 1.5), 2  # of `clip`; seasons on either side whose median a value is compared with
# What is kept whatever the windows say, which may hold no season: of fast and slow levels, with a trend and a season.
DEFAULTS = (
    Setting(0.3),
    Setting(0.1, 0.2, 0.98),
    Setting(0.1, season=0.1),
    Setting(0.3, 0.1, 0.9, season=0.1),
    Setting(0.1, season=0.1, second=0.2, remainder=0.6),
)


class Smoothing(FittedModel):
    """Exponential smoothing: level, damped trend, up to two seasons, a remainder that fades; all are added.

    With a setting, what is forecast is a linear map of the window. The windows of the train and val rows choose KEPT
    settings of a grid, one after the other: that which lowers most the least error of each window. Of a forecast each
    has a share, exp(-excess / `temperature`): the excess is how far its mean absolute error at origins within the
    window itself, and a little of that in other windows, lies above the least, in times of that.

    Where a window begins with one value several times, its first row stands for rows that are not there: such rows do
    not count. In their place stand the first seasons, whose mean is what a window begins with.

    window: the data's sizes. look_back: rows that it reads; None: as many as the data have, LONGEST at most. seasons:
    their steps, two at most; None: that of the data and the shortest other one of the calendar, without a calendar a
    week of days, which the look-back holds twice. clip: values are brought to within so many mean absolute seasonal
    differences of the median of the seasons around them, 0: as they are; None: what errs least. temperature: of the
    shares. fitted: the numbers of each setting, and last its excess in all windows; None before the fit.
    """

    flexible = False
    longest, fitted_on = LONGEST, FITTED_ON
    maps: Tensor  # (R, S * G): to the judged steps at all origins, then to the forecast
    excess: Tensor  # (G,)
    judged: Tensor  # (S,): rows of what the maps take
    before: Tensor  # (E,): rows from each origin to the end of the window

    def __init__(
        self,
        *,
        window: WindowShape,
        look_back: Positive | None = None,
        seasons: Sequence[Positive] | None = None,
        clip: Annotated[float, at_least(0)] | None = None,
        temperature: Scale = 0.1,
        fitted: Sequence[Sequence[float]] | None = None,
    ) -> None:
        super().__init__(window)
        self._given = look_back, seasons, clip
        self.rows, self.seasons, self.clip = look_back or window.seq_len, sorted(seasons or ()), clip or 0.0
        self.temperature = temperature
        if len(self.seasons) > MOST_SEASONS:
            raise ValueError(
                f"model.seasons={self.seasons}: {MOST_SEASONS} at most are smoothed. Name the shortest ones."
            )
        settings = [Setting(*numbers[:-1]) for numbers in fitted or ()]
        self.take(settings or self.defaults, torch.tensor([numbers[-1] for numbers in fitted]) if fitted else None)

    @property
    def look_back(self) -> int:
        """Its own rows."""
        return self.rows

    @property
    def defaults(self) -> list[Setting]:
        """Those of DEFAULTS that need no more seasons than there are."""
        gains = [(setting.season, setting.second)[len(self.seasons) :] for setting in DEFAULTS]
        return [setting for setting, missing in zip(DEFAULTS, gains, strict=True) if not any(missing)]

    def take(self, settings: Sequence[Setting], excess: Float[Tensor, "G"] | None = None) -> None:
        """Puts these settings in place of its own, and the maps that they are."""
        self.settings = list(settings)
        rows, reach = max([1, *self.seasons]) + self.rows, max(1, min(self.window.pred_len, self.rows // 4))
        steps = np.unique(np.linspace(0, reach - 1, min(reach, JUDGED)).round().astype(np.int64)).tolist()
        before = np.geomspace(reach, max(3 * reach, FARTHEST * self.rows), ORIGINS).round().clip(max=self.rows)
        self.origins = dict.fromkeys((rows - before).astype(np.int64).tolist(), steps)
        by_origin = smoothed(np.eye(rows), settings, self.seasons, {**self.origins, rows: range(self.window.pred_len)})
        maps = np.concatenate([by_origin[row] for row in (*self.origins, rows)])  # (S, R, G)
        buffers = {
            "maps": torch.from_numpy(maps.transpose(1, 0, 2).reshape(rows, -1)).float(),
            "excess": torch.zeros(len(settings)) if excess is None else excess,
            "judged": torch.tensor([row + step for row in self.origins for step in steps]),
            "before": torch.tensor([rows - row for row in self.origins]),
        }
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer, persistent=False)

    def fit(self, rows: FittingRows) -> Options:
        """Chooses the look-back and the seasons, then the settings and by how much values are clipped."""
        look_back, seasons, clip = self._given
        pasts = {split: longest_pasts(rows, split) for split in ("train", "val")}
        reached = 2 * self.window.pred_len + max(int(of_split.max(initial=1)) for _, of_split in pasts.values())
        self.rows = look_back or min(self.longest, int(reached / STEP))  # rows to come have more before them
        if seasons is None:
            seasons = seasons_held(rows, min(reached, self.rows))
        self.seasons, self.clip = sorted(seasons), clip or 0.0
        self.take(self.defaults)
        windows = torch.cat([self.windows(rows, *of_split) for of_split in pasts.values()])
        past, truth = windows[:, : self.rows], windows[:, self.rows :]
        if len(past):
            self.take(*self.chosen(past))
            errors = {}
            for self.clip in CLIPS if clip is None else (clip,):
                errors[self.clip] = float((self.extend(past) - truth).abs().mean())
            self.clip = min(errors, key=errors.__getitem__)
        fitted = [[*setting, more] for setting, more in zip(self.settings, self.excess.tolist(), strict=True)]
        return {"look_back": self.rows, "seasons": self.seasons, "clip": self.clip, "fitted": fitted}

    def windows(self, rows: FittingRows, origins: Origins, pasts: Origins) -> Float[Tensor, "W D 1"]:
        """Some windows of single targets, past and future; before a past begins, its first row stands."""
        count = min(len(origins), max(1, self.fitted_on // 2 // rows.series.shape[1]))
        drawn = np.linspace(0, len(origins) - 1, count).round().astype(np.int64)
        places = np.maximum(np.arange(-self.rows, self.window.pred_len), -pasts[drawn, None]) + origins[drawn, None]
        return rows.series[torch.from_numpy(places)].transpose(1, 2).flatten(0, 1).unsqueeze(2).float()

    def chosen(self, past: Float[Tensor, "W L 1"]) -> tuple[list[Setting], Float[Tensor, "G"]]:
        """The settings that are kept, and the excess of each in all windows."""
        grid = list(dict.fromkeys([*self.defaults, *setting_grid(len(self.seasons))]))
        prepared, counted = self.prepared(past)
        values, parts = prepared[:, 0].T.numpy(), []
        for first in range(0, len(grid), AT_ONCE):
            by_origin = smoothed(values, grid[first : first + AT_ONCE], self.seasons, self.origins)
            forecasts = torch.from_numpy(np.concatenate([by_origin[row] for row in self.origins]))
            parts.append(self.errors(prepared, counted, forecasts.transpose(0, 1).unsqueeze(1))[0][:, 0])
        errors = torch.cat(parts, dim=1)
        excess, kept = errors / errors.amin(1, keepdim=True) - 1, list(range(len(self.defaults)))
        while len(kept) < KEPT:
            kept.append(int(torch.minimum(excess[:, kept].amin(1, keepdim=True), excess).mean(0).argmin()))
        kept, mean = list(dict.fromkeys(kept)), excess.mean(0)
        return [grid[place] for place in kept], mean[kept] - mean[kept].min()

    def extend(self, past: Float[Tensor, "B L T"]) -> Float[Tensor, "B P T"]:
        """(B, L, T) -> (B, P, T)."""
        prepared, counted = self.prepared(past)
        mapped = torch.unflatten(prepared @ self.maps, 2, (-1, len(self.settings)))
        errors, origins = self.errors(prepared, counted, mapped[:, :, : len(self.judged)])
        excess = errors / errors.amin(2, keepdim=True) - 1
        excess = (origins * excess + PRIOR * self.excess) / (origins + PRIOR)
        shares = torch.softmax(-excess / self.temperature, dim=2).unsqueeze(2)
        return (mapped[:, :, len(self.judged) :] * shares).sum(3).transpose(1, 2) + past[:, -1:]

    def each(self, past: Float[Tensor, "B L T"]) -> Float[Tensor, "B P T G"]:
        """What each setting says."""
        count = len(self.settings)
        mapped = self.prepared(past)[0] @ self.maps[:, len(self.judged) * count :]
        return torch.unflatten(mapped, 2, (-1, count)).transpose(1, 2) + past[:, -1:, :, None]

    def errors(
        self, prepared: Float[Tensor, "B T R"], counted: Int[Tensor, "B T 1"], forecasts: Float[Tensor, "B T S G"]
    ) -> tuple[Float[Tensor, "B T G"], Int[Tensor, "B T 1"]]:
        """Mean absolute errors within the windows, over the origins that have rows before them; how many have."""
        errors = (forecasts - prepared[:, :, self.judged, None]).abs()
        errors = torch.unflatten(errors, 2, (len(self.before), -1)).mean(3)
        judged = (counted - self.before >= FEWEST).unsqueeze(3)
        origins, least = judged.sum(2), LEAST_ERROR * prepared.std(2, keepdim=True) + NO_ERROR
        return (errors * judged).sum(2) / origins.clamp(min=1) + least, origins

    def prepared(self, past: Float[Tensor, "B L T"]) -> tuple[Float[Tensor, "B T R"], Int[Tensor, "B T 1"]]:
        """What the maps take, less the last value, and how many rows of each window count."""
        columns = (past - past[:, -1:]).transpose(1, 2).contiguous()
        counted = ((columns != columns[..., :1]).long().cumsum(2) > 0).sum(2, keepdim=True) + 1
        start = self.rows - counted
        if self.clip:
            columns = clipped(columns, start, season=min(self.seasons, default=1), most=self.clip)
        return with_first_seasons(columns, start, self.seasons), counted


class QuickSmoothing(Smoothing):
    """With two weeks of hours at most and few windows: what every training has time for."""

    longest, fitted_on = 336, 128


def longest_pasts(rows: FittingRows, split: str) -> tuple[Origins, Origins]:
    """The origins (W,) of a split, and how many rows may be read before each: STEP of those that may, or more."""
    origins, pasts, length = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), LONGEST
    while length:
        more = np.setdiff1d(rows.origins(split, length), origins, assume_unique=True)
        origins, pasts = np.append(origins, more), np.append(pasts, np.full(len(more), length))
        length = int(length * STEP)
    order = np.argsort(origins)
    return origins[order], pasts[order]


def seasons_held(rows: FittingRows, most: int) -> list[int]:
    """The seasons that so many rows hold twice, two at most, ascending."""
    period = rows.period or 0
    longer = () if rows.seasons or period < DAY else (WEEK * period,)  # of a file without times
    seasons = [season for season in {period, *rows.seasons, *longer} if 1 < season <= most // WHOLE]
    return sorted(sorted(seasons, key=lambda season: (season != period, season))[:MOST_SEASONS])


def clipped(
    columns: Float[Tensor, "B T L"], start: Int[Tensor, "B T 1"], *, season: int, most: float
) -> Float[Tensor, "B T L"]:
    """Values no farther than `most` mean seasonal differences from the median of the seasons around them.

    start: the first rows that count.
    """
    places = torch.arange(columns.shape[2], device=columns.device)
    difference = (columns[..., season:] - columns[..., :-season]).abs()
    compared = places[: -season or None][: difference.shape[2]] >= start
    scale = (difference * compared).sum(2, keepdim=True) / compared.sum(2, keepdim=True).clamp(min=1)
    around = torch.arange(-REACH, REACH + 1, device=columns.device)[:, None] * season + places  # (A, L)
    inside = (around >= start.unsqueeze(3)) & (around < len(places))
    values = columns[..., around.clamp(0, len(places) - 1)].masked_fill(~inside, torch.inf)
    middle = (inside.sum(2, keepdim=True) - 1).clamp(min=0) // 2
    median = values.sort(2).values.gather(2, middle)[:, :, 0]
    near = torch.minimum(torch.maximum(columns, median - most * scale), median + most * scale)
    return torch.where((scale > 0) & (places >= start), near, columns)


def with_first_seasons(
    columns: Float[Tensor, "B T L"], start: Int[Tensor, "B T 1"], seasons: Sequence[int]
) -> Float[Tensor, "B T R"]:
    """Columns in front of whose first rows stand their first seasons, in place of what does not count too.

    One more of the longest season; of a window the longest that it holds twice, and without one its first rows.
    """
    begin, rows = max([1, *seasons]), columns.shape[2]
    counted, period = rows - start, torch.ones_like(start)
    for season in sorted(seasons):
        period = torch.where(counted >= WHOLE * season, season, period)
    seasons_held = (counted // (2 * period)).clamp(1, FIRST)
    first = start + torch.arange(begin, device=columns.device) % period
    season_sum = sum(
        columns.gather(2, (first + place * period).clamp(max=rows - 1)) * (place < seasons_held)
        for place in range(FIRST)
    )
    places = torch.arange(-begin, rows, device=columns.device)
    fill = (season_sum / seasons_held).gather(2, (places - start) % period)
    return torch.where(places >= start, torch.cat([fill[..., :begin], columns], dim=2), fill)
