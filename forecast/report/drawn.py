"""What pictures and pages share: colours, how much of the past is drawn, rows without a calendar; no matplotlib."""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import pandas as pd
from jaxtyping import Integer, Shaped

LEAST_PAST = 48  # steps
Dash = str | tuple[float, Sequence[float]]


class Style(TypedDict, total=False):
    """How a line is drawn."""

    color: str
    linestyle: Dash
    linewidth: float


# Okabe and Ito's palette, which colour-blind readers can tell apart; the dashes serve readers of grey prints.
# Past and truth are one series, so both are solid.
STYLES: dict[str, Style] = {
    "past": {"color": "#8c8c8c", "linestyle": "-", "linewidth": 1.2},
    "truth": {"color": "#000000", "linestyle": "-", "linewidth": 1.2},
    "baseline": {"color": "#e69f00", "linestyle": ":", "linewidth": 1.8},
    "forecast": {"color": "#0072b2", "linestyle": (0, (5, 1.2)), "linewidth": 1.8},
}


def step_numbers(timestamps: pd.DatetimeIndex) -> Integer[np.ndarray, " N"] | None:
    """The numbers, from 1, of rows that no calendar counts; None for dates.

    data.freq=steps reads such rows as successive milliseconds from 1970 on, which no clock has measured.
    """
    since = timestamps.tz_localize(None).to_numpy().astype("datetime64[ns]").astype(np.int64)
    whole = timestamps[0].year == 1970 and bool((np.diff(since) == 10**6).all()) and not (since % 10**6).any()
    return since // 10**6 + 1 if whole and len(since) > 1 else None


def time_names(stamps: Shaped[np.ndarray, " N"]) -> list[str]:
    """Times in words, without the seconds where there are none; of rows without a calendar their numbers."""
    if stamps.dtype.kind != "M":
        return [f"step {number}" for number in stamps]
    return [str(time).removesuffix(":00") for time in pd.DatetimeIndex(stamps)]
