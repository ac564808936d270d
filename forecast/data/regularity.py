"""Whether timestamps are regular, and the words for those that are not."""

import numpy as np
import pandas as pd

from forecast.data.reading.table import Table
from forecast.data.values.findings import GAPS_FIX, Findings, Gaps, counted, quoted
from forecast.data.values.frequency import (
    first_deviation,
    grid_frequency,
    infer_frequency,
    is_exact,
    is_frequency,
    rows_missing,
)
from forecast.errors import UserError

_MANY_REPEATS = 0.1  # share of rows: a clock set back repeats a few timestamps, stacked series repeat most


def regular_frequency(table: Table, findings: Findings, *, trained_on: str | None, gaps: Gaps) -> str | None:
    """The frequency, `trained_on` when given; errors for repeated, irregular and other timestamps.

    trained_on: a pandas alias or None to infer one. gaps: unless refuse, rows may be missing. None after an error.
    """
    path = table.text.path
    if trained_on is not None and not is_frequency(trained_on):
        raise UserError(
            f"{path} cannot be read as the checkpoint says: the frequency {quoted(trained_on)} that the model was "
            "trained on is no frequency. The checkpoint was changed by other means: use another checkpoint of its run."
        )
    # Compared, never by name: five business days are five days too, and one row has no frequency of its own.
    if trained_on is not None and is_exact(table.timestamps, trained_on):
        return trained_on
    ordered = table.ordered()
    if ordered is not table.timestamps:
        _check_order(table, findings)
    freq = infer_frequency(ordered) if len(ordered) >= 3 else None
    if trained_on is not None:
        # Every second row of a trained frequency is no gap: those rows have a frequency of their own.
        if freq is None and gaps != "refuse" and rows_missing(ordered, trained_on) is not None:
            return trained_on
        if len(ordered) < 3:
            expected = pd.date_range(table.timestamps[0], periods=len(table.timestamps), freq=trained_on)
            row = int((expected != table.timestamps).argmax())
            raise UserError(
                f"{path}: line {table.line(row)}: {table.timestamps[row]}, where the frequency '{trained_on}' "
                f"that the model was trained on expects {expected[row]}. Resample the file, or train on its frequency."
            )
    if freq is None:
        freq = _frequency_with_gaps(table, ordered, findings, gaps)
    if trained_on is not None:
        raise UserError(
            f"{path} has the frequency '{freq}'; the model was trained on '{trained_on}'. Resample the file, or "
            "train on this frequency."
        )
    return freq


def _check_order(table: Table, findings: Findings) -> None:
    """An error for timestamps that stand twice."""
    rows = np.flatnonzero(table.timestamps.notna())
    stamps = table.timestamps[rows]
    repeats = stamps.duplicated()
    if not repeats.any():
        return
    row = int(repeats.argmax())
    (first, _), (again, _) = table.records(rows[[int((stamps == stamps[row]).argmax()), row]].tolist()).values()
    message = (
        f"{table.text.path}: line {again}: the timestamp {table.words(stamps[row])} stands already in line {first}"
    )
    some = f"{int(repeats.sum())} of {counted(len(stamps), 'row')}"
    if repeats.mean() > _MANY_REPEATS:
        findings.error(
            f"{message}; {some} repeat one. This looks like several series in one file, "
            f"{int(stamps.value_counts().max())} below each other: choose one, as data.where='{{region: Albany}}', "
            "read all as a panel, as data.id_column=region, or set data.duplicates=mean or sum."
        )
    else:
        findings.error(f"{message}. Set data.duplicates=mean, sum, first or last ({some}).")


def _frequency_with_gaps(table: Table, ordered: pd.DatetimeIndex, findings: Findings, gaps: Gaps) -> str | None:
    """The frequency on whose grid irregular timestamps lie; an error for none, and for any that may not have gaps."""
    path = table.text.path
    if len(ordered) < 3:
        noun = "readable timestamps" if table.timestamps.hasnans else "rows"
        findings.error(
            f"{path}: {len(ordered)} {noun} are too few to infer a frequency. At least 3 are needed to read the file."
        )
        return None
    freq = grid_frequency(ordered)
    if freq is not None and gaps != "refuse":
        return freq
    row, usual, expected = first_deviation(ordered, over_gaps=gaps != "refuse")
    before, after = (int((table.timestamps == stamp).argmax()) for stamp in (ordered[row - 1], ordered[row]))
    records = table.records([before, after])
    expected = expected if table.numbers is None else table.words(pd.Timestamp(expected))
    steps = np.diff(ordered.to_numpy())
    alike = (steps == np.sort(steps)[len(steps) // 2]).mean()
    findings.error(
        f"{path}: line {records[after][0]}: the timestamps are not regular: {table.words(ordered[row])} follows "
        f"{table.words(ordered[row - 1])} (line {records[before][0]}), where the usual step '{usual}' expects "
        f"{expected}; {alike:.0%} of the steps are alike. Fill the gap, or resample the file to one frequency"
        f"{f', or set {GAPS_FIX}' if freq is not None else ''}."
    )
    return freq
