"""Columns said to be known in advance that are a target under another name: nobody knows those."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from forecast.data.prepare import Prepared
from forecast.data.roles import HOLIDAY
from forecast.data.values.cells import FloatArray

SERIES = 100  # of a panel are looked at
ROWS = 4_000  # the last train rows of each
LATER = 7  # rows that a column may be ahead of its target, beyond the horizon
FEWEST_CHANGES = 10  # from one row to the next: a few may agree by chance
# 1 - r² of a copy that was written with few digits, of its values and of their changes. Changes are looked at too, as
# any two smooth curves, or trends, correlate.
ROUNDING, ROUNDING_OF_CHANGES = 1e-6, 1e-4

Pair = tuple[FloatArray, FloatArray]  # of a series the rows (n,) of a known column, and of a target


class KnownTarget(NamedTuple):
    """A column known in advance that is a target of `lag` rows before it, of later rows below 0; perhaps scaled."""

    column: str
    target: str
    lag: int
    scaled: bool

    def __str__(self) -> str:
        rows = f"{abs(self.lag)} row{'s' * (abs(self.lag) > 1)}"
        when = "" if not self.lag else f" of {rows} {'before' if self.lag > 0 else 'later'}"
        return f"'{self.column}' is the target '{self.target}'{when}{', scaled' * self.scaled}"


def known_targets(data: Prepared) -> list[KnownTarget]:
    """The columns known in advance that in all train rows are a target of the same row, or of one near it.

    Near: less than pred_len rows before it, which is still to be forecast, or a few more later. Or a target times a
    number, plus one; up to rounding.
    """
    known = [name for name in data.covariates if name not in (*data.hidden, HOLIDAY) and not data.frame.size_of(name)]
    parts = list(train_rows(data)) if known else []
    copies = (copy_in(parts, name, data) for name in known)
    return [copy for copy in copies if copy is not None]


def copy_in(parts: list[FloatArray], name: str, data: Prepared) -> KnownTarget | None:
    """The first target that a column is, in all these rows (n, C)."""
    columns = data.frame.columns
    for target in data.target_names:
        pairs = [(part[:, columns.index(name)], part[:, columns.index(target)]) for part in parts]
        pairs = [pair for pair in pairs if all(changes(values) >= FEWEST_CHANGES for values in pair)]
        for lag in sorted(range(-data.pred_len - LATER, data.pred_len), key=lambda lag: (abs(lag), lag < 0)):
            moved = [moved_by(lag, *pair) for pair in pairs]
            if moved and all(map(is_copy, moved, pairs)):
                same = all(np.allclose(known, of, rtol=1e-6, equal_nan=True) for known, of in moved)
                return KnownTarget(name, target, lag, not same)
    return None


def train_rows(data: Prepared) -> Iterator[FloatArray]:
    """Values (n, C) of the train rows of some series; NaN where one was made up."""
    train, frame = data.splits["train"], data.frame
    held = np.flatnonzero(train.stop > train.first)
    for s in held[:: max(1, -(-len(held) // SERIES))]:
        last = slice(int(max(train.first[s], train.stop[s] - ROWS)), int(train.stop[s]))
        values = np.array(frame.values[last])
        if frame.measured is not None:
            values[~frame.measured[last]] = np.nan
        yield values


def changes(values: FloatArray) -> int:
    """How often a value (n,) does not lie on the line that most of them lie on, as a constant's or a trend's do."""
    steps = np.diff(values[~np.isnan(values)])
    if not steps.size:
        return 0
    return int((np.abs(steps - np.median(steps)) > 2e-7 * np.nanmax(np.abs(values))).sum())  # float32 rounds


def moved_by(lag: int, known: FloatArray, target: FloatArray) -> Pair:
    """Each row beside the target of `lag` rows before; NaN in both where one of them is missing."""
    rows = len(known) - abs(lag)
    known, target = known[max(0, lag) :][: max(0, rows)], target[max(0, -lag) :][: max(0, rows)]
    return known + 0 * target, target + 0 * known


def is_copy(moved: Pair, pair: Pair) -> bool:
    """Whether one, with at least half of its rows, is the other times a number, plus one."""
    first, second = (np.diff(values) for values in moved)
    held = ~np.isnan(first)
    if 2 * held.sum() < len(pair[0]) - 1:
        return False
    first, second = first[held], second[held]
    if (first @ second) ** 2 < (1 - ROUNDING_OF_CHANGES) * (first @ first) * (second @ second) or not first.any():
        return False
    there = ~np.isnan(moved[0])
    return bool(1 - np.corrcoef(moved[0][there], moved[1][there])[0, 1] ** 2 <= ROUNDING)
