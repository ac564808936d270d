"""Whether timestamps are regular, and the words for those that are not."""

import numpy as np
import pandas as pd

from forecast.data.csv_text import CsvText
from forecast.data.frequency import first_deviation, grid_frequency, infer_frequency, is_exact, rows_missing
from forecast.data.gaps import FIXES, Gaps
from forecast.errors import UserError

_MANY_REPEATS = 0.1  # share of rows: a clock set back repeats a few timestamps, stacked series repeat most


def regular_frequency(text: CsvText, timestamps: pd.DatetimeIndex, trained_on: str | None, *, gaps: Gaps) -> str:
    """The frequency, `trained_on` when given; an error for repeated, unsorted, irregular and other timestamps.

    timestamps (N,). trained_on: a pandas alias or None to infer one. gaps: unless refuse, rows may be missing.
    """
    # Compared, never by name: five business days are five days too, and one row has no frequency of its own.
    if trained_on is not None and is_exact(timestamps, trained_on):
        return trained_on
    _refuse_repeats(text, timestamps)
    _refuse_unsorted(text, timestamps)
    # Every second row of a trained frequency is no gap: those rows have a frequency of their own.
    other = infer_frequency(timestamps) if len(timestamps) >= 3 else None
    if trained_on is not None and other is None and gaps != "refuse" and _lacks_rows(timestamps, trained_on):
        return trained_on
    if trained_on is not None and len(timestamps) < 3:
        raise UserError(_off_the_grid(text, timestamps, trained_on))
    freq = other or _inferred(text, timestamps, gaps=gaps)
    if trained_on is not None:
        raise UserError(
            f"{text.path} has the frequency '{freq}'; the model was trained on '{trained_on}'. Resample the file, or "
            "train on this frequency."
        )
    return freq


def _lacks_rows(timestamps: pd.DatetimeIndex, freq: str) -> bool:
    return rows_missing(timestamps, freq) is not None


def _off_the_grid(text: CsvText, timestamps: pd.DatetimeIndex, freq: str) -> str:
    expected = pd.date_range(timestamps[0], periods=len(timestamps), freq=freq)
    row = int((expected != timestamps).argmax())
    return (
        f"{text.path}: line {text.line(row)}: {timestamps[row]}, where the frequency '{freq}' that the model was "
        f"trained on expects {expected[row]}. Resample the file, or train on its frequency."
    )


def _inferred(text: CsvText, timestamps: pd.DatetimeIndex, *, gaps: Gaps) -> str:
    """The frequency of increasing timestamps that are not regular, or an error for too few and for irregular ones."""
    if len(timestamps) < 3:
        raise UserError(
            f"{text.path}: {len(timestamps)} rows are too few to infer a frequency. At least 3 are needed to "
            "read the file, and far more to train."
        )
    freq = grid_frequency(timestamps)
    if freq is not None and gaps != "refuse":
        return freq
    row, usual, expected = first_deviation(timestamps, over_gaps=gaps != "refuse")
    raise UserError(
        f"{text.path}: line {text.line(row)}: the timestamps are not regular: {timestamps[row]} follows "
        f"{timestamps[row - 1]} (line {text.line(row - 1)}), where the usual step '{usual}' expects "
        f"{expected}. Fill the gap, or resample the file to one frequency{'' if freq is None else f', or set {FIXES}'}."
    )


def _refuse_unsorted(text: CsvText, timestamps: pd.DatetimeIndex) -> None:
    back = np.flatnonzero(timestamps[1:] < timestamps[:-1])
    if back.size:
        row = int(back[0]) + 1
        raise UserError(
            f"{text.path}: line {text.line(row)}: {timestamps[row]} comes after {timestamps[row - 1]}, but "
            "is earlier. Sort the rows by time."
        )


def _refuse_repeats(text: CsvText, timestamps: pd.DatetimeIndex) -> None:
    repeats = timestamps.duplicated()
    if not repeats.any():
        return
    row = int(repeats.argmax())
    first = int((timestamps == timestamps[row]).argmax())
    what = (
        f"{text.path}: line {text.line(row)}: the timestamp {timestamps[row]} stands already in line {text.line(first)}"
    )
    if repeats.mean() > _MANY_REPEATS:
        raise UserError(
            f"{what}; {int(repeats.sum())} of {len(timestamps)} rows repeat one. This looks like several "
            "series in one file: write one file per series, or one column per series."
        )
    raise UserError(f"{what}. Drop or average the repeated rows.")
