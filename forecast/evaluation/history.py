"""What a user should know of the rows that a forecast starts from: which are made up, which far from training."""

import logging
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from forecast.data.grid import MOST_MISSING
from forecast.data.panel import PanelFrame
from forecast.data.values.cells import FloatArray, IntArray
from forecast.errors import UserError
from forecast.text.terminal import label

log = logging.getLogger(__name__)

FAR = 10.0  # standard deviations: no drift that a model could have learned from takes half of the rows so far
TINY = 0.01  # of the usual size of the train rows: another unit of measurement
NOTHING = 1e-6  # of it: zeros, as float32 has them
LISTED = 5  # columns


def report_filled(frame: PanelFrame, series: IntArray, *, seq_len: int, of: int) -> None:
    """Warns of what was filled in among the last `seq_len` rows of series (M,) in order, which the model reads.

    of: how many series are forecast, in other parts too. UserError where most of a column is made up there in each of
    them: nothing is left to start from.
    """
    if frame.measured is None or not series.size:
        return
    counts = made_up_cells(frame, int(series[0]), int(series[-1]) + 1, seq_len)[series - series[0]]
    rows = np.minimum(seq_len, frame.lengths[series])
    filled, guessed = (
        np.flatnonzero(flags.any(axis=1)) for flags in (counts > 0, counts > MOST_MISSING * rows[:, None])
    )
    if not filled.size:
        return
    first = int(filled[0])
    number, made_up, n_rows = int(series[first]), counts[first].astype(int), int(rows[first])
    stamps = frame.timestamps(number)[-n_rows:]
    end = int(frame.offsets[number + 1])
    gap = stamps[~frame.measured[end - n_rows : end].all(axis=1)]
    text = (
        f"{frame.name}: of the last seq_len = {seq_len} rows{frame.of_series(number)}, {stamps[0]} to {stamps[-1]}, "
        f"{len(gap)} were missing or incomplete (the first at {gap[0]}, the last at {gap[-1]})"
    )
    if len(guessed) == of:
        worst = int(made_up.argmax())
        raise UserError(
            f"{text}; column '{label(frame.columns[worst])}' has no value in {made_up[worst]} of them. A forecast from "
            "made-up rows is none: give a history whose last rows are measured."
        )
    names = [f"{count} of '{label(name)}'" for name, count in zip(frame.columns, made_up, strict=True) if count]
    more = f" and more in {len(names) - LISTED} other columns" if len(names) > LISTED else ""
    log.warning(
        "%s. data.gaps=%s filled values: %s%s.%s%s",
        *(text, frame.repair.policy, ", ".join(names[:LISTED]), more),
        " No past of the training held a filled row: the test error says nothing of such a forecast."
        if frame.repair.policy == "mask"
        else "",
        f" {len(filled)} of {len(series)} series hold such rows." if len(filled) > 1 else "",
    )
    if guessed.size:
        log.warning(
            "%d of %d series have more made-up than measured values in the last %d rows, the first is '%s': their "
            "forecasts are guesses.",
            *(len(guessed), len(series), seq_len, label(str(frame.ids[series[guessed[0]]]))),
        )


def made_up_cells(frame: PanelFrame, first: int, stop: int, rows: int) -> FloatArray:
    """How many cells (S, C) of the last rows of the series `first` to `stop` no file held."""
    begin, end = frame.offsets[first:stop], frame.offsets[first + 1 : stop + 1]
    some = frame.cut(np.arange(first, stop), np.maximum(begin, end - rows), end)
    assert some.measured is not None
    return np.add.reduceat(~some.measured, some.offsets[:-1], axis=0, dtype=np.float64)


def is_far(past: Tensor, level: Tensor) -> Tensor:
    """Which windows (B,) are, by their scaled past (B, L, C), what `report_far` warns of. level (B, C): mean / std."""
    usual = torch.hypot(level, torch.ones_like(level))
    largest = (past + level[:, None]).abs().amax(1)
    far = (past.abs() > FAR).sum(1) * 2 > past.shape[1]
    return (far | ((largest > NOTHING * usual) & (largest < TINY * usual))).any(1)


def report_far(values: FloatArray, columns: Sequence[str], mean: FloatArray, std: FloatArray, *, where: str) -> None:
    """Warns of columns whose values (n, C), original units, are of another size than those of the train rows.

    mean, std (C,): of the train rows. where: the rows, in words. A column is far when half of its values are more than
    FAR standard deviations from the mean of the train rows, or when all are less than TINY of its usual size there.
    """
    with np.errstate(over="ignore"):
        distance = np.median(np.abs((values - mean) / std), axis=0)
        usual = np.hypot(mean, std)
    largest = np.abs(values).max(axis=0)
    far = np.flatnonzero((distance > FAR) | ((largest > 0) & (largest < TINY * usual)))
    if not far.size:
        return
    lines = [
        f"column '{label(columns[c])}' has the median {np.median(values[:, c]):.4g}, in the train rows the mean "
        f"{mean[c]:.4g} and the standard deviation {std[c]:.4g} ({distance[c]:.3g} standard deviations)"
        for c in far[:LISTED]
    ]
    more = f"; {len(far) - LISTED} more columns alike" if len(far) > LISTED else ""
    log.warning(
        "%s: %s%s. The model has seen nothing like it, and its forecast is a guess. Are these the units and columns of "
        "the training? If so, train it anew with such rows.",
        *(where, "; ".join(lines), more),
    )
