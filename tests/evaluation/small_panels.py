"""Small panels made by hand: unequal, short and gappy series."""

import numpy as np
import pandas as pd

from forecast.data.panel import PanelFrame
from forecast.data.prepare import prepare
from forecast.data.split import LastSplit, panel_cuts

LENGTHS = (61, 17, 43, 89, 5, 43)
COLUMNS = ("y", "z", "x")
L, P = 11, 5


def panel(lengths=LENGTHS, columns=COLUMNS, *, gaps=0.0, seed=0, freq="h", values=None):
    """Random walks of other levels and scales; series s begins 3 s steps after the first. gaps: share of cells."""
    draws, n = np.random.default_rng(seed), sum(lengths)
    which = np.repeat(np.arange(len(lengths)), lengths)
    if values is None:
        walk = draws.normal(size=(n, len(columns))).cumsum(0) + 3 * np.sin(np.arange(n) * 2 * np.pi / 7)[:, None]
        values = 10.0 ** (which % 3 - 1)[:, None] * (walk + 20 * which[:, None])
    return PanelFrame(
        values=np.ascontiguousarray(values, dtype=np.float64),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        steps=3 * np.arange(len(lengths)),
        ids=np.array([f"shop {number}" for number in range(len(lengths))]),
        first=pd.Timestamp("2021-03-01"),
        freq=freq,
        columns=columns,
        name="shops.csv",
        measured=draws.random((n, len(columns))) >= gaps if gaps else None,
    )


def prepared(
    frame, *, seq_len=L, pred_len=P, targets=(0, 2), pad=False, scaling="series", split=None, season=7, covariates=()
):
    """Scaled; by default the last two horizons of each series are test, the two before them val."""
    data = prepare(
        frame,
        splits=panel_cuts(split or LastSplit(horizon=pred_len, val=2, test=2), frame, pred_len=pred_len),
        targets=targets,
        seq_len=seq_len,
        pred_len=pred_len,
        encoding="timeF",
        pad=pad,
        scaling=scaling,
        season=season,
        covariates=covariates,
    )
    data.check_enough()
    return data
