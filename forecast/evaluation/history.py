"""What a user should know of the rows that a forecast starts from: which are made up, which far from training."""

import logging

import numpy as np
import numpy.typing as npt

from forecast.data.frame import SeriesFrame
from forecast.data.gaps import MOST_MISSING
from forecast.data.scaling import Scaler
from forecast.errors import UserError
from forecast.text.terminal import label

log = logging.getLogger(__name__)

FAR = 10.0  # standard deviations: no drift that a model could have learned from takes half of the rows so far
TINY = 0.01  # of the usual size of the train rows: another unit of measurement
LISTED = 5  # columns


def report_filled(frame: SeriesFrame, *, seq_len: int) -> None:
    """Warns of what was filled in among the last `seq_len` rows, which the model reads.

    UserError where most of a column is made up there: nothing is left to start from.
    """
    last = frame.tail(seq_len)
    if last.missing is None or last.filled is None or not last.filled.any():
        return
    counts, gap = last.missing.sum(axis=0), last.timestamps[last.filled]
    rows = (
        f"{frame.name}: of the last seq_len = {seq_len} rows, {last.timestamps[0]} to {last.timestamps[-1]}, "
        f"{len(gap)} were missing or incomplete (the first at {gap[0]}, the last at {gap[-1]})"
    )
    worst = int(counts.argmax())
    if counts[worst] > MOST_MISSING * len(last):
        raise UserError(
            f"{rows}; column '{label(frame.columns[worst])}' has no value in {counts[worst]} of them. A forecast from "
            "made-up rows is none: give a history whose last rows are measured."
        )
    filled = [f"{count} of '{label(name)}'" for name, count in zip(last.columns, counts, strict=True) if count]
    more = f" and more in {len(filled) - LISTED} other columns" if len(filled) > LISTED else ""
    policy = frame.repair.policy
    log.warning(
        "%s. data.gaps=%s filled values: %s%s.%s",
        *(rows, policy, ", ".join(filled[:LISTED]), more),
        " No past of the training held a filled row: the test error says nothing of such a forecast."
        if policy == "mask"
        else "",
    )


def report_far(values: npt.NDArray[np.float64], scaler: Scaler, *, where: str) -> None:
    """Warns of columns whose values (n, C), original units, are of another size than those of the train rows.

    where: the rows, in words. A column is far when half of its values are more than FAR standard deviations from the
    mean of the train rows, or when all are less than TINY of its usual size there.
    """
    with np.errstate(over="ignore"):
        distance = np.median(np.abs(scaler.transform(values)), axis=0)
        usual = np.hypot(scaler.mean, scaler.std)
    largest = np.abs(values).max(axis=0)
    far = np.flatnonzero((distance > FAR) | ((largest > 0) & (largest < TINY * usual)))
    if not far.size:
        return
    lines = [
        f"column '{label(scaler.columns[c])}' has the median {np.median(values[:, c]):.4g}, in the train rows the mean "
        f"{scaler.mean[c]:.4g} and the standard deviation {scaler.std[c]:.4g} ({distance[c]:.3g} standard deviations)"
        for c in far[:LISTED]
    ]
    more = f"; {len(far) - LISTED} more columns alike" if len(far) > LISTED else ""
    log.warning(
        "%s: %s%s. The model has seen nothing like it, and its forecast is a guess. Are these the units and columns of "
        "the training? If so, train it anew with such rows.",
        *(where, "; ".join(lines), more),
    )
