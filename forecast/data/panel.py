"""Many series of one frequency as one array."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.values.calendar import future_timestamps
from forecast.data.values.cells import FloatArray, Gaps, IntArray
from forecast.text.terminal import label


@dataclass(frozen=True)
class Repair:
    """What `data.gaps` did to a file.

    rows_added: rows that the file lacks. cells_filled: cells without a value in the rows that it has. longest_run: the
    most rows in succession that hold something filled in.
    """

    policy: Gaps = "refuse"
    rows_added: int = 0
    cells_filled: int = 0
    longest_run: int = 0


@dataclass(frozen=True, eq=False)
class Facts:
    """G facts of S series, one value for each: a number, or the number of a word, from 1 on.

    values (S, G). categories: the words of those that are none but words; 0 is another one. columns: those of the
    panel's files that they were read or joined from.
    """

    names: tuple[str, ...]
    values: npt.NDArray[np.float64]
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def column(self, name: str) -> npt.NDArray[np.float64]:
        """One of them (S,)."""
        return self.values[:, self.names.index(name)]

    def and_ids(self, name: str, ids: npt.NDArray[np.str_]) -> "Facts":
        """These, and after them the ids of the series as a category."""
        numbers = np.arange(1, len(ids) + 1, dtype=np.float64)[:, None]
        values, categories = np.hstack([self.values, numbers]), {**self.categories, name: ids.tolist()}
        return replace(self, names=(*self.names, name), values=values, categories=categories)

    def of(self, series: IntArray) -> "Facts":
        """Those of some series."""
        return replace(self, values=self.values[series])


@dataclass(frozen=True, eq=False, kw_only=True)
class PanelFrame:
    """S regular series, none empty; `read_panel` has checked them, so nothing after it does.

    values (N, C) float64, finite, in the units of the file: the rows of all series one after another, those of one in
    the order of time; it may be a memory-mapped file. measured (N, C): False where no file held the cell and it was
    filled; None: all were. offsets (S + 1,): series s has the rows offsets[s] to offsets[s + 1]. steps (S,): how many
    steps after `first` each begins. ids (S,) of strings, each once. first: the earliest timestamp, without a time zone.
    freq: a pandas alias, "ms" for steps without a calendar as in `layout.STEPS`. id_column, time_column: what a
    forecast calls them; None, of the ids, where a file without any is one series, whose id is empty. numbers: of steps
    without a calendar that of 1970-01-01, and how far apart they are in the file. stepped: whether a file without
    ids has such steps, and no milliseconds. repair: by which rule cells were filled. left_out: ids of series that were
    not taken, by the reason. checksum: of all bytes that were read. time_format: in which the times were read, None for
    ISO 8601 and columns of parts. time_zone: whose clock instants are shown by, None: they are none; clock: by
    which they are counted: UTC below a day, else that of time_zone. categories: of columns whose
    values are numbers of words, from 1 on, the words; 0 is another one. facts: of the series.
    """

    values: FloatArray
    offsets: IntArray
    steps: IntArray
    ids: npt.NDArray[np.str_]
    first: pd.Timestamp
    freq: str
    columns: tuple[str, ...]
    name: str
    measured: npt.NDArray[np.bool_] | None = None
    id_column: str | None = "unique_id"
    time_column: str = "date"
    numbers: tuple[int, int] = (1, 1)
    stepped: bool = False
    repair: Repair = field(default_factory=Repair)
    left_out: Mapping[str, list[str]] = field(default_factory=dict)
    checksum: str | None = None
    time_format: str | None = None
    time_zone: str | None = None
    clock: str | None = None
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    facts: Facts | None = None

    @classmethod
    def single(
        cls, values: FloatArray, timestamps: pd.DatetimeIndex, columns: Sequence[str], freq: str, name: str
    ) -> "PanelFrame":
        """One series without an id: values (N, C) at timestamps (N,), which are those of the frequency."""
        return cls(
            values=np.ascontiguousarray(values),
            offsets=np.array([0, len(values)]),
            steps=np.array([0]),
            ids=np.array([""]),
            first=timestamps[0].as_unit("ns"),
            freq=freq,
            columns=tuple(columns),
            name=name,
            id_column=None,
        )

    def __len__(self) -> int:
        """S."""
        return len(self.ids)

    @cached_property
    def lengths(self) -> IntArray:
        """The rows of each series (S,)."""
        return np.diff(self.offsets)

    @cached_property
    def since(self) -> npt.NDArray[np.integer[Any]] | None:
        """How many rows before each cell (N, C) the last measured one lies; None where none was drawn to a later."""
        if self.measured is None or self.repair.policy != "interpolate":
            return None
        return rows_since_measured(~self.measured, self.offsets[:-1])

    def calendar(self, more: int = 0) -> pd.DatetimeIndex:
        """The timestamp of each step from `first` to the last row of any series, and of `more` steps after it.

        Raises UserError where these leave the years that nanoseconds count.
        """
        calendar = self._calendar
        if not more:
            return calendar
        return pd.DatetimeIndex(calendar.append(future_timestamps(calendar[-1], self.freq, more)))

    @cached_property
    def _calendar(self) -> pd.DatetimeIndex:
        return pd.date_range(self.first, periods=int((self.steps + self.lengths).max()), freq=self.freq)

    def times(self, more: int = 0) -> IntArray:
        """Of each step of the calendar: nanoseconds, or its number in the file where that counts steps."""
        stamps = self.calendar(more).to_numpy().astype("datetime64[ns]").astype(np.int64)
        first, unit = self.numbers
        return first + unit * (stamps // 1_000_000) if self.freq == STEP_FREQ else stamps

    def shown(self, times: pd.DatetimeIndex) -> pd.DatetimeIndex:
        """Times of the calendar by the clock of time_zone."""
        return shown_times(times, self.clock, self.time_zone)

    def timestamps(self, series: int, more: int = 0) -> pd.DatetimeIndex:
        """The timestamps of the rows of one series, and of `more` steps after it, as they are shown."""
        steps = int(self.steps[series])
        return self.shown(self.calendar(more)[steps : steps + int(self.lengths[series]) + more])

    def end(self, series: int) -> str:
        """The time of the last row of one series, in words."""
        last = int(self.steps[series] + self.lengths[series]) - 1
        return f"step {self.times()[last]}" if self.without_calendar else str(self.timestamps(series)[-1])

    def rows(self, series: int) -> FloatArray:
        """The values (n, C) of one series."""
        return self.values[self.offsets[series] : self.offsets[series + 1]]

    def of_series(self, series: int) -> str:
        """Of series 'ID', for a message; nothing where the file has no ids."""
        return "" if self.id_column is None else f" of series '{label(str(self.ids[series]))}'"

    def named(self, series: int) -> str:
        """The file, and which of its series, for a message."""
        return self.name if self.id_column is None else f"{self.name}, series '{label(str(self.ids[series]))}'"

    def cut(self, series: IntArray, first: IntArray, stop: IntArray) -> "PanelFrame":
        """The rows first[i] to stop[i] of this array, of each of these series (M,)."""
        counts = stop - first
        rows = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        steps = self.steps[series] + first - self.offsets[:-1][series]
        earliest = int(steps.min(initial=len(self.calendar()) - 1))
        return replace(
            self,
            values=self.values[rows],
            measured=None if self.measured is None else self.measured[rows],
            offsets=np.concatenate([[0], np.cumsum(counts)]),
            steps=steps - earliest,
            first=self.calendar()[earliest],
            ids=self.ids[series],
            facts=None if self.facts is None else self.facts.of(series),
        )

    def tail(self, rows: int) -> "PanelFrame":
        """The last rows alone of each series."""
        first = np.maximum(self.offsets[:-1], self.offsets[1:] - rows)
        return self.cut(np.arange(len(self)), first, self.offsets[1:])

    def take(self, series: IntArray) -> "PanelFrame":
        """Some series alone (M,)."""
        return self.cut(series, self.offsets[:-1][series], self.offsets[1:][series])

    def of(self, columns: Sequence[str]) -> "PanelFrame":
        """Some columns alone, in this order."""
        if tuple(columns) == self.columns:
            return self
        places = [self.columns.index(name) for name in columns]
        return replace(
            self,
            values=np.ascontiguousarray(self.values[:, places]),
            measured=None if self.measured is None else self.measured[:, places],
            columns=tuple(columns),
            categories={name: words for name, words in self.categories.items() if name in columns},
        )

    @property
    def without_calendar(self) -> bool:
        """Whether its rows are steps that no calendar counts; a file without ids may hold milliseconds."""
        return self.freq == STEP_FREQ and (self.id_column is not None or self.stepped)

    @property
    def id_numbers(self) -> dict[str, int]:
        """The number of each series by its id."""
        return {str(name): number for number, name in enumerate(self.ids)}


def shown_times(times: pd.DatetimeIndex, clock: str | None, zone: str | None) -> pd.DatetimeIndex:
    """Naive times by the clock of another zone; None: they are no instants."""
    if clock is None or clock == zone:
        return times
    return times.tz_localize(clock).tz_convert(zone).tz_localize(None)


STEP_FREQ = "ms"  # of rows with data.freq=steps, as `layout.STEPS` says


def rows_since_measured(
    missing: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.integer[Any]]:
    """How many rows before each cell (N, C) the last measured one of its column lies: 0 for a measured cell.

    starts: the first row of each series, which count as measured; None: of one series.
    """
    starts = np.zeros(1, dtype=np.int64) if starts is None else starts
    numbers = np.arange(len(missing), dtype=np.int32)[:, None]
    last = np.where(missing, 0, numbers)
    last[starts] = numbers[starts]
    since = numbers - np.maximum.accumulate(last, axis=0)
    return since.astype(np.uint8) if since.max(initial=0) < 256 else since  # types that torch indexes
