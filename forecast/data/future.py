"""What is known in advance of the steps after a history: the rows of a file of its own, one for each step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.data.cells import FloatArray
from forecast.data.findings import Findings, quoted
from forecast.data.frame import SeriesFrame, one_series
from forecast.data.frequency import future_timestamps
from forecast.data.reading.codebook import Codebook
from forecast.data.reading.csv_columns import read_table
from forecast.data.reading.csv_text import CsvText, valid_separator
from forecast.data.reading.layout import Layout
from forecast.data.reading.table import Table, TableSpec
from forecast.data.reading.timestamps import AmbiguousTime
from forecast.errors import UserError
from forecast.text.terminal import listed


@dataclass(frozen=True)
class Wanted:
    """What a forecast must be told: these columns of P steps, of which the first and the last are said in words."""

    columns: Sequence[str]
    steps: int
    first: str
    last: str

    def __str__(self) -> str:
        what = f"column {listed(self.columns)}" if len(self.columns) == 1 else f"columns {listed(self.columns)}"
        steps = (
            f"the step {self.first}" if self.steps == 1 else f"the {self.steps} steps from {self.first} to {self.last}"
        )
        return f"the {what} at {steps}"


def wanted_after(history: SeriesFrame, columns: Sequence[str], steps: int) -> Wanted:
    """What is to be known of the steps after a history."""
    expected = future_timestamps(history.timestamps[-1], history.freq, steps)
    return Wanted(columns, steps, str(expected[0]), str(expected[-1]))


def read_future(
    path: Path | str, layout: Layout, *, columns: Sequence[str], history: SeriesFrame, steps: int, book: Codebook
) -> FloatArray:
    """The values (P, K) of K columns at the P steps after a history, from a file that `layout` says how to read.

    book: which columns hold categories. Rows of a file without a time column are the next steps. Later rows than are
    forecast are left alone. UserError for a row of the history, a step without a row and a cell without a value.
    """
    if history.time_zone not in (None, "UTC") and layout.time_columns:  # of which few rows do not tell
        layout = replace(layout, time_zone=history.time_zone)
    try:
        table = _table(Path(path), layout, columns, book)
    except AmbiguousTime as error:  # few rows may not tell day from month, as those of the history did
        if {"data.time_format": history.time_format} not in error.candidates:
            raise
        table = _table(Path(path), replace(layout, time_format=history.time_format), columns, book)
    expected = future_timestamps(history.timestamps[-1], history.freq, steps)
    wanted = wanted_after(history, columns, steps)
    if not layout.time_columns:
        if len(table.values) < steps:
            raise UserError(
                f"{path} has {len(table.values)} rows, and the forecast needs {wanted}. Add a row for each step."
            )
        return _whole(table.values[:steps], expected, table, range(steps), wanted)
    stamps = table.timestamps
    _check_times(stamps, expected, table, history, wanted)
    places = stamps.get_indexer(expected)
    if (places < 0).any():
        absent = expected[places < 0]
        raise UserError(
            f"{path} has no row for {absent[0]}{f' and {len(absent) - 1} more steps' if len(absent) > 1 else ''}; the "
            f"forecast needs {wanted}. Add a row for each step."
        )
    return _whole(table.values[places], expected, table, places.tolist(), wanted)


def _table(path: Path, layout: Layout, columns: Sequence[str], book: Codebook) -> Table:
    """The rows of a file in the order of time, NaN where a value is missing."""
    layout.check()
    findings = Findings(str(path), strict=True)
    text = CsvText(path, valid_separator(layout.separator)).verified(findings, layout.sheet)
    text.check_types([*layout.time_columns, *columns])
    header = text.header(layout.time_columns, findings)
    spec = TableSpec.of(header, layout, str(path), columns=columns, gaps="mask", codebook=book)
    table = read_table(text, spec, findings)
    return one_series(table, layout, findings) if layout.time_columns else table


def _check_times(
    stamps: pd.DatetimeIndex, expected: pd.DatetimeIndex, table: Table, history: SeriesFrame, wanted: Wanted
) -> None:
    """UserError for a row of the history, for one between two steps, and for two of one step."""
    path, end = table.text.path, history.timestamps[-1]
    early = np.flatnonzero(stamps <= end)
    if early.size:
        raise UserError(
            f"{path}: line {table.line(int(early[-1]))}: {stamps[early[-1]]} lies in the history, which ends at {end}: "
            f"what is known in advance begins after it, with {wanted.first}. Leave such rows out, {early.size} of "
            f"{len(stamps)}."
        )
    within = stamps <= expected[-1]
    off = np.flatnonzero(within & (expected.get_indexer(stamps) < 0))
    if off.size:
        raise UserError(
            f"{path}: line {table.line(int(off[0]))}: {stamps[off[0]]} is between the steps of '{history.freq}' that "
            f"the history has, which are {wanted.first} and so on. Write a row for each of these."
        )
    twice = np.flatnonzero(stamps.duplicated() & within)
    if twice.size:
        raise UserError(
            f"{path}: line {table.line(int(twice[0]))}: {stamps[twice[0]]} stands in a row before. Write one row for "
            "each step."
        )


def _whole(
    values: FloatArray, expected: pd.DatetimeIndex, table: Table, rows: Sequence[int], wanted: Wanted
) -> FloatArray:
    """The values (P, K); UserError where one is missing."""
    missing = np.isnan(values)
    if missing.any():
        step, column = np.argwhere(missing)[0].tolist()
        raise UserError(
            f"{table.text.path}: line {table.line(rows[step])}, column {quoted(wanted.columns[column])}: there is no "
            f"value at {expected[step]}, and the forecast needs {wanted}. Fill it in, or train without the column."
        )
    return values
