"""Exponential smoothing of many series side by side, each with many settings."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

LEVELS, REMAINDERS = (0.005, 0.03, 0.1, 0.3, 0.6, 0.9), (0.0, 0.6, 0.9, 0.98)
TRENDS = ((0.0, 0.0), (0.1, 0.9), (0.2, 0.98))  # gains, as shares of the level's, and how they are damped
SEASONAL = (0.02, 0.1, 0.25, 0.5)
BESIDE_A_LONGER, LONGER = (0.02, 0.1), (0.05, 0.2, 0.4)
LEAST_OF_A_TREND, MOST_BESIDE_A_LONGER = 0.03, 0.3  # of a level's gain: what hardly moves has no slope

Values = npt.NDArray[np.floating]


class Setting(NamedTuple):
    """Gains of level, trend, season and second season; how a trend is damped, and a remainder from step to step."""

    level: float
    trend: float = 0.0
    damping: float = 0.0
    season: float = 0.0
    second: float = 0.0
    remainder: float = 0.0


def setting_grid(n_seasons: int) -> list[Setting]:
    """All settings that are tried with no season, one or two."""
    seasonal = [(0.0, 0.0), *((gain, 0.0) for gain in SEASONAL[: len(SEASONAL) * (n_seasons > 0)])]
    pairs = list(itertools.product(BESIDE_A_LONGER, LONGER)) if n_seasons > 1 else []
    grid = []
    for level, trend, remainder in itertools.product(LEVELS, TRENDS, REMAINDERS):
        if not trend[0] or (level >= LEAST_OF_A_TREND and not remainder):
            gains = seasonal + pairs * (level <= MOST_BESIDE_A_LONGER)
            grid += [Setting(level, *trend, *of_seasons, remainder) for of_seasons in gains]
    return grid


def smoothed(
    values: Values, settings: Sequence[Setting], seasons: Sequence[int], wanted: Mapping[int, Sequence[int]]
) -> dict[int, Values]:
    """For each origin in `wanted` the forecasts (S, N, G) of its steps (0: the row at the origin) for G settings.

    values (R, N): N series. seasons: steps of each, ascending, two at most. The first rows, as many as the longest
    season has steps, one without, are what a series begins with: their mean is the first level, what each season's
    steps differ from it are its first effects. Then, with r the error of what level, trend and seasons say of a row,
    each is moved by its gain times r, and the remainder is what of r is left. Taylor 2003, "Short-term electricity
    demand forecasting using double seasonal exponential smoothing", with the trend damped as by Gardner and McKenzie.
    """
    level, trend, damping, *gains, remainder = np.asarray(settings, dtype=values.dtype).T
    gains, begin = gains[: len(seasons)], max([1, *seasons])
    mean = values[:begin].mean(0)
    states = np.repeat(mean[:, None], len(settings), axis=1)
    slope, rest, effects, beyond = np.zeros_like(states), np.zeros_like(states), [], values[:begin] - mean
    for season, gain in zip(seasons, gains, strict=True):
        effect = np.stack([beyond[step::season].mean(0) for step in range(season)])
        beyond = beyond - effect[np.arange(begin) % season]
        effects.append(effect[:, :, None] * (gain > 0))
    left, of_slope = 1 - level - sum(gains), level * trend
    forecasts = {}
    for row in range(begin, len(values) + 1):
        if row in wanted:
            ahead = np.asarray(wanted[row])
            powers = np.arange(1, max(ahead) + 2, dtype=values.dtype)[:, None]
            steps = states + slope * (damping**powers).cumsum(0)[ahead][:, None]
            steps = steps + rest * (remainder**powers)[ahead][:, None]
            forecasts[row] = sum((effect[(row + ahead) % len(effect)] for effect in effects), start=steps)
        if row < len(values):
            slope = slope * damping
            states = states + slope
            error = values[row][:, None] - states
            for effect in effects:
                error -= effect[row % len(effect)]
            states += level * error
            slope += of_slope * error
            for effect, gain in zip(effects, gains, strict=True):
                effect[row % len(effect)] += gain * error
            rest = left * error
    return forecasts
