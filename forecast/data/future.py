"""What is known in advance of the steps after the end of every series: later rows of its files, or of others."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from forecast.data.panel import PanelFrame
from forecast.data.read import panel_rows
from forecast.data.reading.table import Codebook
from forecast.data.reading.timestamps import AmbiguousTime
from forecast.data.rows import PanelRows, prepare_rows, time_words
from forecast.data.sources import CsvSource
from forecast.data.values.cells import FloatArray, IntArray
from forecast.errors import UserError
from forecast.text.terminal import listed


def read_future(
    source: CsvSource,
    *,
    columns: Sequence[str],
    history: PanelFrame,
    series: IntArray,
    steps: int,
    book: Codebook,
    own: bool = False,
) -> FloatArray:
    """The values (S, P, K) of K columns at the P steps after each series; NaN for those that no forecast needs.

    source: the files, read as those of the history; own: whether they are these, with rows behind the last target.
    series (M,): those that are forecast. book: which columns hold categories. Rows without a time are the next steps.
    Rows of the history, and later ones than are forecast, are left alone. UserError for a value that is missing.
    """
    rows, numbers = _rows(source, columns, history, book), history.id_numbers
    owners = np.repeat(np.array([numbers.get(name, -1) for name in rows.ids], dtype=np.int64), rows.lengths)
    times, ends = history.times(steps), history.steps + history.lengths
    when, used = rows.times, owners >= 0
    if not source.time_columns and own:
        when = when + int(history.without_calendar)  # the first step is called 1
    elif not source.time_columns:
        places = np.arange(len(when)) - np.repeat(rows.offsets[:-1], rows.lengths)
        used &= places < steps
        when = times[np.where(used, ends[owners] + places, 0)]
    used &= when >= times[ends[owners]]
    ahead = times[ends[:, None] + np.arange(steps)]
    wanted = pd.MultiIndex.from_arrays([np.repeat(np.arange(len(history)), steps), ahead.ravel()])
    known = pd.DataFrame(rows.values[used], index=[owners[used], when[used]]).reindex(wanted)
    values: FloatArray = known.to_numpy().reshape(len(history), steps, len(columns))
    holes = np.argwhere(np.isnan(values[series]))
    if len(holes):
        first, step, column = int(series[holes[0, 0]]), int(holes[0, 1]), int(holes[0, 2])
        lacking, begin, end = (
            time_words(int(time), stepped=history.without_calendar) for time in ahead[first, [step, 0, -1]]
        )
        span = f"at {begin}" if steps == 1 else f"at the {steps} steps from {begin} to {end}"
        raise UserError(
            f"{source.path}: the column '{columns[column]}' has no value{history.of_series(first)} at {lacking}. The "
            f"forecast must be told {listed(columns)} {span}: write a row for each step below the history, without "
            "targets, or into a file written as the history is, future=FILE"
        )
    return values


def _rows(source: CsvSource, columns: Sequence[str], history: PanelFrame, book: Codebook) -> PanelRows:
    """The rows of the files, with times written as those of the history."""
    source = replace(source, columns=list(columns), drop=(), cache=None)
    if history.clock is not None and source.time_columns:  # of which few rows do not tell
        source = replace(source, time_zone=history.clock)
    try:
        rows = panel_rows(source, book)
    except AmbiguousTime as error:  # of few rows, read as those of the history were
        read = {key: getattr(history, key) for key in ("time_format", "time_zone")}
        read = {key: value for key, value in read.items() if {f"data.{key}": value} in error.candidates}
        if not read:
            raise
        rows = panel_rows(source.with_file(str(source.path), **read), book)
    return prepare_rows(rows, source)
