"""What is known in advance of the steps after the end of every series: the rows of a file of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from forecast.data.assembling.read import panel_rows
from forecast.data.assembling.regular import times_are_counted
from forecast.data.assembling.rows import SortedRows, prepare_rows, time_words
from forecast.data.panel import PanelFrame
from forecast.data.reading.table import Codebook
from forecast.data.reading.timestamps import AmbiguousTime
from forecast.data.sources import CsvSource
from forecast.data.values.cells import FloatArray, IntArray
from forecast.data.values.findings import quoted
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
        columns = f"column {listed(self.columns)}" if len(self.columns) == 1 else f"columns {listed(self.columns)}"
        steps = (
            f"the step {self.first}" if self.steps == 1 else f"the {self.steps} steps from {self.first} to {self.last}"
        )
        return f"the {columns} at {steps}"


@dataclass(frozen=True)
class StepsAfter:
    """The `steps` times after each series of a panel, as its files write them; counted: they write none."""

    history: PanelFrame
    steps: int
    counted: bool

    @property
    def stepped(self) -> bool:
        """Whether no calendar counts them."""
        return self.history.without_calendar

    @property
    def ends(self) -> IntArray:
        """The number (S,) of the first step after each series."""
        return self.history.steps + self.history.lengths

    def times(self) -> IntArray:
        """Those of all steps of the panel, up to the last that is forecast: nanoseconds, or numbers of the file."""
        return self.history.times(self.steps)

    def words(self, series: int, step: int) -> str:
        """One of the steps after a series in words."""
        return time_words(int(self.times()[int(self.ends[series]) + step]), stepped=self.stepped)

    def wanted(self, series: int, columns: Sequence[str]) -> Wanted:
        """What is to be known of the steps after a series."""
        return Wanted(columns, self.steps, self.words(series, 0), self.words(series, self.steps - 1))

    def of(self, rows: SortedRows, owners: IntArray) -> IntArray:
        """Which step (N,) after the end of its series each row is, from 0; -1: in the history, -2: between steps.

        owners (N,): the series of the rows in the history.
        """
        if self.counted:
            return np.arange(len(owners)) - np.repeat(rows.offsets[:-1], rows.lengths)
        times = self.times()
        places = np.searchsorted(times, rows.times)
        on = times[np.minimum(places, len(times) - 1)] == rows.times
        first = self.ends[owners]
        steps = np.where(on, places - first, np.where(places >= len(times), self.steps, -2))
        steps[rows.times <= times[first - 1]] = -1
        return steps


def read_future(
    source: CsvSource, *, columns: Sequence[str], history: PanelFrame, series: IntArray, steps: int, book: Codebook
) -> FloatArray:
    """The values (S, P, K) of K columns at the P steps after each series; NaN for those that no forecast needs.

    source: the files, read as those of the history. series (M,): those that are forecast. book: which columns hold
    categories. Rows without a time are the next steps. Later rows than are forecast are left alone. UserError for a row
    of the history, for a series or a step without a row, and for a cell without a value.
    """
    after = StepsAfter(history, steps, times_are_counted(source))
    known = _rows(source, columns, after, book)
    numbers = history.id_numbers
    of_history = np.array([numbers.get(name, -1) for name in known.ids], dtype=np.int64)
    values = np.full((len(history), steps, len(columns)), np.nan)
    places = np.full(values.shape[:2], -1)  # the row of each step
    owners = np.repeat(of_history, known.lengths)
    step = np.where(owners < 0, steps, after.of(known, owners))
    _check_steps(step, owners, known, after)
    used = np.flatnonzero(step < steps)
    values[owners[used], step[used]], places[owners[used], step[used]] = known.values[used], used
    _check_whole(values, places, series, known, after=after)
    return values


def _rows(source: CsvSource, columns: Sequence[str], after: StepsAfter, book: Codebook) -> SortedRows:
    """The rows of the files, with times written as those of the history."""
    history, name = after.history, str(source.path)
    source = replace(source, columns=list(columns), drop=(), cache=None)
    if history.time_zone not in (None, "UTC") and source.time_columns:  # of which few rows do not tell
        source = replace(source, time_zone=history.time_zone)
    try:
        rows = panel_rows(source, book, known=True)
    except AmbiguousTime as error:  # of few rows, read as those of the history were
        read = {key: getattr(history, key) for key in ("time_format", "time_zone")}
        read = {key: value for key, value in read.items() if {f"data.{key}": value} in error.candidates}
        if not read:
            raise
        rows = panel_rows(source.with_file(name, **read), book, known=True)
    if not after.counted and rows.stepped != after.stepped:
        kinds = ["steps without a calendar" if steps else "dates" for steps in (rows.stepped, after.stepped)]
        raise UserError(f"{name} has {kinds[0]}, and the history {kinds[1]}. Write the times as there.")
    return prepare_rows(rows, source)


def _check_steps(step: IntArray, owners: IntArray, rows: SortedRows, after: StepsAfter) -> None:
    """UserError for a row of the history, and for one between two steps."""
    bad = np.flatnonzero(step < 0)
    if not bad.size:
        return
    row = int(bad[0])
    series, history = int(owners[row]), after.history
    time = time_words(int(rows.times[row]), stepped=after.stepped)
    if step[row] == -1:
        raise UserError(
            f"{rows.where(row)}: {time} lies in the history{history.of_series(series)}, which ends at "
            f"{after.words(series, -1)}: what is known in advance begins after it, with {after.words(series, 0)}. "
            f"Leave such rows out, {int((step == -1).sum())} of {len(step)}."
        )
    raise UserError(
        f"{rows.where(row)}: {time}{history.of_series(series)} is between the steps of '{history.freq}' that the "
        f"history has, which are {after.words(series, 0)} and so on. Write a row for each of these."
    )


def _check_whole(
    values: FloatArray, places: IntArray, series: IntArray, rows: SortedRows, *, after: StepsAfter
) -> None:
    """UserError for the first series that is missing, for a step, or for a value. places (S, P): the row of each."""
    history, columns, there = after.history, rows.columns, places[series] >= 0
    absent = series[~there.any(axis=1)]
    if absent.size and history.id_column is not None:
        first = int(absent[0])
        raise UserError(
            f"{rows.name} has no row of {absent.size} of {len(series)} series, the first is "
            f"{quoted(str(history.ids[first]))}; the forecast needs {after.wanted(first, columns)}. Add a row for each "
            "step of each series."
        )
    holes = np.argwhere(~there)
    if len(holes):
        first, step = int(series[holes[0, 0]]), int(holes[0, 1])
        more = f" and {len(holes) - 1} more steps" if len(holes) > 1 else ""
        raise UserError(
            f"{rows.name} has no row{history.of_series(first)} for {after.words(first, step)}{more}; the forecast "
            f"needs {after.wanted(first, columns)}. Add a row for each step."
        )
    empty = np.argwhere(np.isnan(values[series]))
    if len(empty):
        first, step, column = int(series[empty[0, 0]]), int(empty[0, 1]), int(empty[0, 2])
        raise UserError(
            f"{rows.where(int(places[first, step]))}, column {quoted(columns[column])}: there is no value"
            f"{history.of_series(first)} at {after.words(first, step)}, and the forecast needs "
            f"{after.wanted(first, columns)}. Fill it in, or train without the column."
        )
