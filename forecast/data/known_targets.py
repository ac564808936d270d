"""Columns said to be known in advance that are a target under another name: nobody knows those."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.signal import correlate

from forecast.data.prepare import Prepared
from forecast.data.roles import HOLIDAY
from forecast.data.values.cells import FloatArray

SERIES = 100  # of a panel are looked at
ROWS = 20_000  # the last train rows of each
LATER = 7  # rows that a column may be ahead of its target, beyond the horizon
FEWEST_CHANGES = 10  # from one row to the next: a few may agree by chance
# 1 - r² of a copy that was written with few digits, of its values and of their changes. Changes are looked at too, as
# any two smooth curves, or trends, correlate.
ROUNDING, ROUNDING_OF_CHANGES = 1e-6, 1e-4


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
    copies = []
    known = [name for name in data.covariates if name not in (*data.hidden, HOLIDAY) and not data.frame.size_of(name)]
    parts = list(train_rows(data)) if known else []
    for name in known:
        for target in data.target_names:
            pairs = [
                (part[:, data.frame.columns.index(name)], part[:, data.frame.columns.index(target)]) for part in parts
            ]
            pairs = [pair for pair in pairs if all(changes(values) >= FEWEST_CHANGES for values in pair)]
            if pairs and (copy := shared_lag(pairs, data.pred_len)) is not None:
                lag, scaled = copy
                copies.append(KnownTarget(name, target, lag, scaled))
                break
    return copies


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


def shared_lag(pairs: list[tuple[FloatArray, FloatArray]], reach: int) -> tuple[int, bool] | None:
    """The smallest lag below `reach` at which the first (n,) of each pair is the second, and whether it is scaled."""
    lags = np.arange(-reach - LATER, reach)
    alike = np.logical_and.reduce([of_changes(np.diff(known), np.diff(target), lags) for known, target in pairs])
    for lag in sorted(lags[alike].tolist(), key=lambda lag: (abs(lag), lag < 0)):
        moved = [(known[max(0, lag) :], target[max(0, -lag) :]) for known, target in pairs]
        moved = [(known[: len(target)], target[: len(known)]) for known, target in moved]
        both = [~np.isnan(known + target) for known, target in moved]
        moved = [(known[mask], target[mask]) for (known, target), mask in zip(moved, both, strict=True)]
        if all(1 - np.corrcoef(known, target)[0, 1] ** 2 <= ROUNDING for known, target in moved):
            return lag, not all(np.allclose(known, target, rtol=1e-6) for known, target in moved)
    return None


def of_changes(known: FloatArray, target: FloatArray, lags: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """At which lags all changes (n,) of the one, at least half of them, are those of the other times one number."""
    (a, held), (b, of) = ((np.nan_to_num(part), (~np.isnan(part)).astype(float)) for part in (known, target))
    places = len(b) - 1 + lags  # of a full correlation: known[i] beside target[i - lag]
    inside = (places >= 0) & (places < len(a) + len(b) - 1)

    def sums(of_known: FloatArray, of_target: FloatArray) -> FloatArray:
        whole: FloatArray = correlate(of_known, of_target, mode="full", method="fft")[np.where(inside, places, 0)]
        return whole

    square = sums(a**2, of) * sums(held, b**2)
    enough = inside & (sums(held, of) >= len(a) / 2) & (square > 1e-9 * (a @ a) * (b @ b))
    alike: npt.NDArray[np.bool_] = enough & (1 - sums(a, b) ** 2 / np.where(enough, square, 1) <= ROUNDING_OF_CHANGES)
    return alike
