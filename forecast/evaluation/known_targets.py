"""Whether a column that is known in advance is a target under another name, which no one knows in advance."""

from itertools import product

import numpy as np
import pandas as pd

from forecast.data.prepare import Prepared
from forecast.data.roles import HOLIDAY
from forecast.data.values.cells import FloatArray

SERIES, ROWS = 20, 4_000  # of a panel are looked at; the last train rows, of all of them together
LATER = 7  # rows that a column may be ahead of its target, beyond the horizon
FEWEST_CHANGES = 10  # from one row to the next: a few may agree by chance
STILL = 1e-6  # of the largest value: changes that differ by less are those of a line, rounded
ROUNDING = 1e-4  # 1 - r² of the changes of a copy that was written with few digits


def known_targets(data: Prepared) -> dict[str, str]:
    """{column: which target it is} for columns known in advance whose changes are those of a target, up to a factor.

    In the train rows, at a lag of less than pred_len rows, which are still to be forecast, or of later rows, below 0.
    """
    others = (*data.hidden, HOLIDAY, *data.frame.categories)
    known = [name for name in data.covariates if name not in others]
    train, frame, parts, copies = data.splits["train"], data.frame, [], dict[str, str]()
    farthest = data.pred_len + LATER
    for series in range(0, len(frame), max(1, len(frame) // SERIES)) if known else ():
        stop = int(train.stop[series])
        rows = slice(max(int(train.first[series]), stop - ROWS // min(len(frame), SERIES)), stop)
        values = pd.DataFrame(frame.values[rows], columns=frame.columns)
        steps = (values if frame.measured is None else values.where(frame.measured[rows])).diff()
        spread = steps.std().where(steps.std() > STILL * values.abs().max())
        parts.append((steps / spread).reindex(range(len(steps) + farthest)))  # no lag reaches the next series
    changes = pd.concat(parts or [pd.DataFrame()])
    for name, target in product(known, data.target_names):
        lags = copied_lags(changes[name].to_numpy(), changes[target].to_numpy())
        if near := [lag for lag in sorted(lags, key=abs) if -farthest <= lag < data.pred_len]:
            copies.setdefault(name, f"'{name}' is the target '{target}' at lag {near[0]}, or a line of it")
    return copies


def copied_lags(known: FloatArray, target: FloatArray) -> list[int]:
    """The lags at which changes (n,), NaN for an unknown one, are those of a target of so many rows before."""
    there, target_there = 1.0 - np.isnan(known), 1.0 - np.isnan(target)
    known, target = np.nan_to_num(known), np.nan_to_num(target)
    squares = np.correlate(known**2, target_there, "full") * np.correlate(there, target**2, "full")
    alike = np.correlate(known, target, "full") ** 2 > (1 - ROUNDING) * squares
    many = np.correlate(there, target_there, "full") >= max(FEWEST_CHANGES, there.sum() / 2)
    return (np.flatnonzero(alike & many) - len(known) + 1).tolist()
