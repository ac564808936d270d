"""What is known in advance of the steps after the end of every series of a panel."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from forecast.data.cells import FloatArray, IntArray
from forecast.data.findings import quoted
from forecast.data.future import Wanted
from forecast.data.panel.assembly import times_are_counted
from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.read import panel_rows
from forecast.data.panel.rows import SortedRows, in_order, nanoseconds, said
from forecast.data.reading.codebook import Codebook
from forecast.data.sources import CsvSource
from forecast.errors import UserError


@dataclass(frozen=True)
class StepsAfter:
    """The `steps` times after each series of a panel, as its files write them; counted: they write none."""

    history: PanelFrame
    steps: int
    counted: bool

    @property
    def _stepped(self) -> bool:
        return self.history.without_calendar

    @property
    def ends(self) -> IntArray:
        """The number (S,) of the first step after each series."""
        return self.history.steps + self.history.lengths

    def times(self) -> IntArray:
        """Those of all steps of the panel, up to the last that is forecast: nanoseconds, or numbers of the file."""
        calendar = self.history.calendar(self.steps)
        if not self._stepped:
            return nanoseconds(calendar)
        first, unit = self.history.numbers
        return first + unit * np.arange(len(calendar), dtype=np.int64)

    def said(self, series: int, step: int) -> str:
        """One of the steps after a series in words."""
        return said(int(self.times()[int(self.ends[series]) + step]), stepped=self._stepped)

    def wanted(self, series: int, columns: Sequence[str]) -> Wanted:
        """What is to be known of the steps after a series."""
        return Wanted(columns, self.steps, self.said(series, 0), self.said(series, self.steps - 1))

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


def read_panel_future(
    source: CsvSource, *, columns: Sequence[str], history: PanelFrame, series: IntArray, steps: int, book: Codebook
) -> FloatArray:
    """The values (S, P, K) of K columns at the P steps after each series; NaN for those that no forecast needs.

    source: the files, read as those of the history. series (M,): those that are forecast. book: which columns hold
    categories. UserError for a row of the
    history, for a series or a step without a row, and for a cell without a value.
    """
    rows = panel_rows(replace(source, columns=list(columns), drop=(), cache=None), book)
    after = StepsAfter(history, steps, times_are_counted(source))
    if not after.counted and rows.stepped != history.without_calendar:
        kinds = ["steps without a calendar" if one else "dates" for one in (rows.stepped, history.without_calendar)]
        raise UserError(f"{source.path} has {kinds[0]}, and the history {kinds[1]}. Write the times as there.")
    known = in_order(rows, source.duplicates, str(source.path))
    numbers = history.id_numbers
    of_history = np.array([numbers.get(name, -1) for name in known.ids], dtype=np.int64)
    values = np.full((len(history), steps, len(columns)), np.nan)
    there = np.zeros(values.shape[:2], dtype=np.bool_)
    owners = np.repeat(of_history, known.lengths)
    step = np.where(owners < 0, steps, after.of(known, owners))
    _check_steps(step, owners, known, after)
    used = step < steps
    values[owners[used], step[used]], there[owners[used], step[used]] = known.values[used], True
    _check_whole(values, there, series, str(source.path), after=after, columns=columns)
    return values


def _check_steps(step: IntArray, owners: IntArray, rows: SortedRows, after: StepsAfter) -> None:
    """UserError for a row of the history, and for one between two steps."""
    bad = np.flatnonzero(step < 0)
    if not bad.size:
        return
    row = int(bad[0])
    series = int(owners[row])
    name, time = (
        quoted(str(after.history.ids[series])),
        said(int(rows.times[row]), stepped=after.history.without_calendar),
    )
    if step[row] == -1:
        raise UserError(
            f"{rows.where(row)}: {time} lies in the history of the series {name}: what is known in advance begins "
            f"after it, with {after.said(series, 0)}. Leave such rows out, {int((step == -1).sum())} of {len(step)}."
        )
    raise UserError(
        f"{rows.where(row)}: {time} of the series {name} is between the steps that the history has, which are "
        f"{after.said(series, 0)} and so on. Write a row for each of these."
    )


def _check_whole(
    values: FloatArray, there: np.ndarray, series: IntArray, path: str, *, after: StepsAfter, columns: Sequence[str]
) -> None:
    """UserError for the first series that is missing, for a step, or for a value."""
    absent = series[~there[series].any(axis=1)]
    if absent.size:
        first = int(absent[0])
        raise UserError(
            f"{path} has no row of {absent.size} of {len(series)} series, the first is "
            f"{quoted(str(after.history.ids[first]))}; the forecast needs {after.wanted(first, columns)}. Add a row "
            "for each step of each series."
        )
    holes = np.argwhere(~there[series])
    if len(holes):
        first, step = int(series[holes[0, 0]]), int(holes[0, 1])
        more = f" and {len(holes) - 1} more steps" if len(holes) > 1 else ""
        raise UserError(
            f"{path} has no row of the series {quoted(str(after.history.ids[first]))} for {after.said(first, step)}"
            f"{more}; the forecast needs {after.wanted(first, columns)}. Add a row for each step of each series."
        )
    empty = np.argwhere(np.isnan(values[series]))
    if len(empty):
        first, step, column = int(series[empty[0, 0]]), int(empty[0, 1]), int(empty[0, 2])
        raise UserError(
            f"{path}: column {quoted(columns[column])} has no value for the series "
            f"{quoted(str(after.history.ids[first]))} at {after.said(first, step)}, and the forecast needs "
            f"{after.wanted(first, columns)}. Fill it in, or train without the column."
        )
