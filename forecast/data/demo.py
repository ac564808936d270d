"""A made-up series shaped like ETTh1, of which the best possible error is known.

Each column is a signal (level, trend, daily and weekly seasons, one change of regime) plus AR(1) noise.
Whoever knew the signal could still not foresee the noise: `best_mse` is the error that is left.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from forecast.data.frame import SeriesFrame
from forecast.data.values.cells import FloatArray


class _Column(NamedTuple):
    """Amplitudes in the column's own units; `shift` and `swell` come with the change of regime."""

    level: float
    daily: float
    half_daily: float
    weekly: float
    trend: float  # from the first row to the last
    shift: float  # added to the level
    swell: float  # factor of the daily season
    phi: float  # noise: memory from hour to hour
    share: float  # noise: part of the column's whole variance


_COLUMNS = {
    "HUFL": _Column(7.0, 5.0, 1.6, 1.5, 1.0, 2.0, 1.25, 0.80, 0.20),
    "HULL": _Column(2.0, 1.4, 0.5, 0.5, 0.3, 0.0, 1.00, 0.75, 0.28),
    "MUFL": _Column(4.5, 4.6, 1.8, 1.3, 0.8, 1.8, 1.25, 0.82, 0.18),
    "MULL": _Column(0.8, 1.3, 0.4, 0.4, 0.2, 0.0, 1.00, 0.70, 0.30),
    "LUFL": _Column(3.0, 0.9, 0.2, 0.3, -0.3, -0.4, 1.00, 0.85, 0.22),
    "LULL": _Column(0.9, 0.5, 0.1, 0.2, -0.1, 0.0, 1.00, 0.90, 0.16),
    "OT": _Column(17.0, 6.0, 1.0, 2.0, -2.0, -3.0, 0.80, 0.88, 0.15),
}
_REGIME_CHANGE = 0.3  # of the rows: inside train, which is the first 70 %
_START = "2016-07-01 00:00"
MOST_ROWS = 2_000_000  # hours: pandas counts time until 2262


def demo_frame(*, seed: int = 7, rows: int = 4000) -> SeriesFrame:
    """`rows` hours of seven columns named as ETTh1's; `seed` draws the phases of the seasons and the noise.

    numpy's Generator draws the same numbers on every platform; the values are rounded to 6 decimals.
    """
    rng, signal, phi, sigma = _parts(seed, rows)
    noise = rng.standard_normal((rows, len(phi))) * sigma  # AR(1): x[t] = phi x[t-1] + sigma e[t]
    noise[0] /= np.sqrt(1 - phi**2)  # begun in its stationary state
    for t in range(1, rows):
        noise[t] += phi * noise[t - 1]
    timestamps = pd.date_range(_START, periods=rows, freq="h")
    return SeriesFrame(np.round(signal + noise, 6), timestamps, tuple(_COLUMNS), "h", "demo")


def best_mse(*, seed: int, rows: int, columns: Sequence[str], steps: int) -> FloatArray:
    """The expected MSE of the best possible forecast of `demo_frame(seed=seed, rows=rows)` -> (steps, len(columns)).

    In squared original units, for h = 1 .. steps: sigma^2 (1 - phi^(2h)) / (1 - phi^2), the variance of AR(1)
    noise h steps ahead when its present is known (Box and Jenkins, Time Series Analysis, chapter 5).
    """
    _, _, phi, sigma = _parts(seed, rows)
    index = [list(_COLUMNS).index(name) for name in columns]
    phi, sigma = phi[index], sigma[index]
    h = np.arange(1, steps + 1)[:, None]
    result: FloatArray = sigma**2 * (1 - phi ** (2 * h)) / (1 - phi**2)
    return result


def _parts(seed: int, rows: int) -> tuple[np.random.Generator, FloatArray, FloatArray, FloatArray]:
    """(generator, ready to draw the noise; signal (rows, 7); phi (7,); sigma (7,), the noise's step)."""
    rng, hour = np.random.default_rng(seed), np.arange(rows)[:, None]
    phases = rng.uniform(-0.5, 0.5, size=(3, len(_COLUMNS)))  # radians, of the day, the half day and the week
    level, daily, half, weekly, trend, shift, swell, phi, share = np.array(list(_COLUMNS.values())).T
    late = hour >= int(_REGIME_CHANGE * rows)
    day = daily * np.sin(2 * np.pi * hour / 24 + phases[0]) + half * np.sin(4 * np.pi * hour / 24 + phases[1])
    week = weekly * np.cos(2 * np.pi * hour / 168 + phases[2])
    signal: FloatArray = level + trend * hour / rows + np.where(late, swell, 1.0) * day + week + shift * late
    variance = signal.var(axis=0) * share / (1 - share)  # of the noise: `share` of signal and noise together
    return rng, signal, phi, np.sqrt(variance * (1 - phi**2))
