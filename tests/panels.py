"""Panels made by hand: every cell tells its series and its row."""

import numpy as np
import pandas as pd

from forecast.data.panel import PanelFrame

LENGTHS = (31, 7, 53, 19, 2)


def made_panel(lengths=LENGTHS, *, columns=("value",), steps=None, freq="D", seed=None, measured=None):
    """Series s, row r, column c holds 1000 s + r + c / 8, or noise for a seed; series begin at the given steps."""
    lengths = np.array(lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    series = np.repeat(np.arange(len(lengths)), lengths)
    rows = np.arange(offsets[-1]) - offsets[series]
    values = (1000 * series + rows)[:, None] + np.arange(len(columns)) / 8
    if seed is not None:
        values = np.random.default_rng(seed).normal(5 + series[:, None], 1 + series[:, None], values.shape)
    return PanelFrame(
        values=values.astype(np.float64),
        offsets=offsets,
        steps=np.array(steps if steps is not None else [3 * s for s in range(len(lengths))]),
        ids=np.array([f"s{s}" for s in range(len(lengths))]),
        first=pd.Timestamp("2024-01-30"),
        freq=freq,
        columns=tuple(columns),
        name="made.csv",
        measured=measured,
    )
