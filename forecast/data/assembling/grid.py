"""The steps of time that all series of a panel have: inferred from the rows inside them, and checked on every row."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import Day, Tick

from forecast.data.assembling.rows import PanelRows, time_words
from forecast.data.panel import STEP_FREQ
from forecast.data.values.cells import IntArray, counted
from forecast.data.values.frequency import first_deviation, grid_frequency, infer_frequency, rows_missing
from forecast.errors import UserError

_VOTERS = 32  # series that a frequency is inferred from
_FEWEST = 3  # rows that tell one
_FEW = 5  # rows: fewer may lie at a coarser step than others' by chance


@dataclass(frozen=True, eq=False)
class Grid:
    """The times that rows may have: `first`, and each step of `freq` from it.

    first, unit: in nanoseconds, or in steps of the file where `stepped`; unit: of a step, None where they differ.
    stamps: all times, then.
    """

    freq: str
    first: int
    unit: int | None
    stamps: IntArray | None = None
    stepped: bool = False

    def positions(self, times: IntArray) -> IntArray:
        """How many steps after `first` each time lies; -1 for one between steps."""
        if self.unit is not None:
            since = times - self.first
            # whole numbers one apart: none lies between
            if self.unit == 1:
                return since
            steps = since // self.unit
            steps[since != steps * self.unit] = -1
            return steps
        assert self.stamps is not None
        steps = np.searchsorted(self.stamps, times)
        # searchsorted puts a time after the last stamp beyond the array
        steps[self.stamps[np.minimum(steps, len(self.stamps) - 1)] != times] = -1
        return steps

    def times(self, positions: IntArray) -> IntArray:
        """The time of each step."""
        return self.first + positions * self.unit if self.unit is not None else self.stamps[positions]  # type: ignore[index]

    def words(self, time: int) -> str:
        """A time in words."""
        return time_words(time, stepped=self.stepped)


def panel_grid(rows: PanelRows, *, trained_on: str | None) -> Grid:
    """The grid on which all rows lie.

    trained_on: the frequency of a training, which the rows must have; None infers one. UserError, naming a series, for
    rows off the grid, series of different frequencies, and rows of which too few are inside one series.
    """
    counts_steps = trained_on == STEP_FREQ and (rows.stepped or rows.ids[0] != "")  # one series may be of milliseconds
    if trained_on is not None and rows.stepped != counts_steps:
        raise _different(rows, 0, "steps without a calendar" if rows.stepped else "dates", trained_on, trained_on)
    longest = int(rows.lengths.max())
    if trained_on is None and longest < (2 if rows.stepped else _FEWEST):
        raise UserError(
            f"{rows.name}: {len(rows.ids)} series of at most {counted(longest, 'row')} are too short to infer a "
            f"frequency. At least {_FEWEST} rows of one are needed. Is data.id_column the same in all rows of a series?"
        )
    if rows.stepped:
        first = int(rows.times.min())
        return Grid(STEP_FREQ, first, int(np.gcd.reduce(rows.times - first)) or 1, stepped=True)
    grid = _grid_of(trained_on or _frequency(rows), rows.times)
    positions = grid.positions(rows.times)
    for series in _voters(rows):
        _check_own(rows, series, positions[slice(*rows.offsets[series : series + 2])], grid.freq, trained_on)
    if (positions < 0).any():
        row = int((positions < 0).argmax())
        series = int(np.searchsorted(rows.offsets, row, side="right")) - 1
        raise UserError(
            f"{rows.where(row)}: {grid.words(int(rows.times[row]))}{rows.of_series(series)} is between the steps of "
            f"'{grid.freq}' that the other rows have, counted from {grid.words(grid.first)}. Round the times, or "
            "resample the file to one frequency."
        )
    return grid


def _check_own(rows: PanelRows, series: int, positions: IntArray, freq: str, trained_on: str | None) -> None:
    """UserError for a series that is regular at another frequency than the grid's. positions (n,): of its rows.

    One that has some steps of the grid alone, and two that follow one another, has gaps, as a shop without weekends; a
    training knows better.
    """
    stamps = _stamps(rows, series)
    own = None if rows_missing(stamps, freq) == 0 else infer_frequency(stamps)
    is_coarser = len(stamps) >= _FEW and np.diff(positions).min() > 1
    if own not in (None, freq) and (trained_on is not None or is_coarser or positions.min() < 0):
        raise _different(rows, series, f"the frequency '{own}'", freq, trained_on)


def _frequency(rows: PanelRows) -> str:
    """That of most rows of some series, the longest among them."""
    voters = _voters(rows)
    votes: Counter[str] = Counter()
    for stamps in (_stamps(rows, series) for series in voters):
        if freq := infer_frequency(stamps) or grid_frequency(stamps):
            votes[freq] += len(stamps)
    if votes:
        return votes.most_common(1)[0][0]
    stamps = _stamps(rows, voters[0])
    row, usual, expected = first_deviation(stamps)
    raise UserError(
        f"{rows.where(int(rows.offsets[voters[0]]) + row)}: the times{rows.of_series(voters[0])} are not regular: "
        f"{stamps[row]} follows {stamps[row - 1]}, where the usual step '{usual}' expects {expected}. Resample "
        f"the file to one frequency: data.resample={usual} data.aggregate=mean"
    )


def _voters(rows: PanelRows) -> list[int]:
    """Series with rows that tell a frequency: the longest, and some evenly spread."""
    order = np.argsort(-rows.lengths, kind="stable")  # of equally long ones the first
    order = order[rows.lengths[order] >= _FEWEST]
    voters: list[int] = order[:: len(order) // _VOTERS + 1].tolist()
    return voters


def _stamps(rows: PanelRows, series: int) -> pd.DatetimeIndex:
    """The times of a series."""
    start, stop = rows.offsets[series : series + 2].tolist()
    stamps: pd.DatetimeIndex = pd.DatetimeIndex(rows.times[start:stop].astype("datetime64[ns]"))
    return stamps


def _grid_of(freq: str, times: IntArray) -> Grid:
    """The grid of a frequency from the first of the times (N,) to the last."""
    first, last, offset = int(times.min()), int(times.max()), to_offset(freq)
    # in pandas 3 a Day is no Tick and has no nanos
    if isinstance(offset, (Tick, Day)):
        return Grid(freq, first, int((pd.Timestamp(0) + offset).value))
    start = offset.rollforward(pd.Timestamp(first))  # perhaps beyond the last, where none lies on the grid
    stamps = pd.date_range(start, max(start, pd.Timestamp(last)), freq=freq)
    every = stamps.to_numpy().astype("datetime64[ns]").astype(np.int64)
    return Grid(freq, int(every[0]), None, every)


def _different(rows: PanelRows, series: int, own: str, usual: str, trained_on: str | None) -> UserError:
    """What to say of a series of another frequency than that of the others, or of a training."""
    others = "other series have" if trained_on is None else "the model was trained on"
    return UserError(
        f"{rows.name}{rows.of_series(series)} has {own}; {others} '{usual}'. Resample the file to one frequency, as by "
        "data.resample=D data.aggregate=mean, or write series of each frequency into a file of their own."
    )
