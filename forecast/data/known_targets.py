"""Columns said to be known in advance that are a target under another name: nobody knows those."""

from itertools import product

import numpy as np
import pandas as pd

from forecast.data.prepare import Prepared
from forecast.data.roles import HOLIDAY
from forecast.data.values.cells import FloatArray

SERIES, ROWS = 100, 2_000  # of a panel are looked at; the last train rows of each
LATER = 7  # rows that a column may be ahead of its target, beyond the horizon
FEWEST_CHANGES = 10  # off a line: a few may agree by chance, a constant or a trend has none
ROUNDING = 1e-4  # 1 - r² of the changes of a copy that was written with few digits


def known_targets(data: Prepared) -> dict[str, str]:
    """{column: which target it is} for columns known in advance whose changes are those of a target, up to a factor.

    In all train rows, of the same row or of one near it: less than pred_len rows before it, which is still to be
    forecast, or a few more later.
    """
    known = [name for name in data.covariates if name not in (*data.hidden, HOLIDAY) and not data.frame.size_of(name)]
    series = range(0, len(data.frame), max(1, -(-len(data.frame) // SERIES))) if known else ()
    parts = [changes(data, s) for s in series]
    copies: dict[str, str] = {}
    for name, target in product(known, data.target_names):
        moving = [part for part in parts if {name, target} <= {*part}]
        lags = {*range(-data.pred_len - LATER, data.pred_len)} if moving else set()
        for part in moving:
            lags = lags and lags & copied_lags(part[name].to_numpy(), part[target].to_numpy())
        if lags and name not in copies:
            lag = min(lags, key=abs)
            when = f" of {abs(lag)} row{'s' * (abs(lag) > 1)} {'before' if lag > 0 else 'later'}" if lag else ""
            copies[name] = f"'{name}' is the target '{target}'{when}, or a line of it"
    return copies


def changes(data: Prepared, series: int) -> pd.DataFrame:
    """The columns that move of the last train rows of a series, less the row before; NaN where a value was made up."""
    frame, first, stop = data.frame, data.splits["train"].first[series], data.splits["train"].stop[series]
    rows = slice(max(first, stop - ROWS), stop)
    values = pd.DataFrame(np.array(frame.values[rows]), columns=frame.columns)
    if frame.measured is not None:
        values = values.where(frame.measured[rows])
    steps = values.diff()[1:]
    moves = (steps - steps.median()).abs() > 2e-7 * values.abs().max()  # float32 rounds
    return steps.loc[:, moves.sum() >= FEWEST_CHANGES]


def copied_lags(known: FloatArray, target: FloatArray) -> set[int]:
    """The lags at which changes (n,) of a column are those of a target before, in half of the rows at least."""
    there, held = 1.0 - np.isnan(known), 1.0 - np.isnan(target)
    known, target = np.nan_to_num(known), np.nan_to_num(target)
    squares = np.correlate(known**2, held, "full") * np.correlate(there, target**2, "full")
    alike = np.correlate(known, target, "full") ** 2 > (1 - ROUNDING) * squares
    alike &= 2 * np.correlate(there, held, "full") >= len(known)
    return set((np.flatnonzero(alike) - len(known) + 1).tolist())
