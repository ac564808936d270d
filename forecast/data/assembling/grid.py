"""The steps of time that all series of a panel have: inferred from the rows inside them, and checked on every row."""

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import Day, Tick

from forecast.data.assembling.rows import SortedRows, time_words
from forecast.data.panel import STEP_FREQ
from forecast.data.values.cells import IntArray
from forecast.data.values.findings import counted, quoted
from forecast.data.values.frequency import first_deviation, grid_frequency, infer_frequency, is_exact
from forecast.errors import UserError

_log = logging.getLogger(__name__)
_VOTERS = 64  # series that a frequency is inferred from
_VOTER_ROWS = 5_000  # rows of each of them
_FEW = 5  # rows: fewer may lie at a coarser step than others' by chance
_NEAR = 1.2  # longest by shortest step of one frequency: months, quarters
_DAY = 86_400_000_000_000  # nanoseconds


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

    def number(self, position: int) -> tuple[int, int]:
        """The number that the file gives to a step without a calendar, and how far apart they are."""
        assert self.stepped and self.unit is not None
        return self.first + position * self.unit, self.unit

    def stamp(self, position: int) -> pd.Timestamp:
        """The timestamp of a step; of those without a calendar each is a millisecond, the first one 0."""
        stamp: pd.Timestamp = pd.Timestamp(0 if self.stepped else int(self.times(np.array([position]))[0]))
        return stamp


def panel_grid(rows: SortedRows, *, stepped: bool, trained_on: str | None) -> Grid:
    """The grid on which all rows lie.

    trained_on: the frequency of a training, which the rows must have; None infers one. UserError, naming a series, for
    rows off the grid, series of different frequencies, and rows of which too few are inside one series.
    """
    counts_steps = trained_on == STEP_FREQ and (stepped or rows.ids[0] != "")  # one series may be of milliseconds
    if trained_on is not None and stepped != counts_steps:
        raise UserError(
            f"{rows.name} has {'steps without a calendar' if stepped else 'dates'}; the model was trained on the "
            f"frequency {quoted(trained_on)}. Forecast from rows of that frequency, or train on this file."
        )
    if rows.moved is not None:
        _log.info("%s: %s", rows.name, rows.moved.note(len(rows.times)))
    if stepped and trained_on is None and len(rows.times) == 1:  # as of a column that is always 0, and no time
        raise _length_error(rows)
    grid = _steps(rows) if stepped else _calendar(rows, trained_on)
    # block by block: the rows may be mapped from a disk, and be more than memory holds
    for first, block in rows.blocks():
        positions = grid.positions(block.times)
        if (positions < 0).any():
            row = int(rows.offsets[first]) + int((positions < 0).argmax())
            raise _misfit(rows, grid, row, trained_on)
        for series, own in _coarser(block, positions, grid):
            raise _different(rows, grid, first + series, own)
    return grid


def _steps(rows: SortedRows) -> Grid:
    """Whole numbers, as far apart as the largest distance that divides all those inside the series."""
    unit = 0
    for _, block in rows.blocks():
        unit = int(np.gcd.reduce(np.unique(_inside(block, np.diff(block.times))), initial=unit))
    # no distance is known where each series has one row
    return Grid(STEP_FREQ, int(rows.times.min()), unit or 1, stepped=True)


def _inside(rows: SortedRows, distances: IntArray) -> IntArray:
    """Those of the distances (N - 1,) between rows of which both are of one series."""
    between = np.zeros(len(distances) + 1, dtype=bool)
    # series without rows at the end begin behind the last row
    between[rows.offsets[1:-1][rows.offsets[1:-1] < len(between)]] = True
    return distances[~between[1:]]


def _calendar(rows: SortedRows, trained_on: str | None) -> Grid:
    votes: Counter[str] = Counter()
    anchors: dict[str, int] = {}
    for series in _voters(rows):
        stamps = _stamps(rows, series)
        if trained_on is not None:
            vote = trained_on if is_exact(stamps, trained_on) else infer_frequency(stamps)
            if vote not in (trained_on, None):
                raise _frequency_error(rows, series, vote, trained_on)
            vote = trained_on
        else:
            vote = infer_frequency(stamps) or grid_frequency(stamps)
        if vote is not None:
            # a row is a vote, and the longest series with a frequency, which votes first, places its grid
            votes[vote] += len(stamps)
            anchors.setdefault(vote, int(rows.times[rows.offsets[series]]))
    if votes:
        freq = votes.most_common(1)[0][0]
        return _grid_of(freq, anchors[freq], rows.times)
    if trained_on is not None:
        return _grid_of(trained_on, int(rows.times[0]), rows.times)
    return _without_votes(rows)


def _without_votes(rows: SortedRows) -> Grid:
    """From the times of all series together, where none has three; UserError where no series is regular."""
    longest = int(rows.lengths.argmax())
    if rows.lengths[longest] >= 3:
        stamps = _stamps(rows, longest)
        row, usual, expected = first_deviation(stamps)
        steps = np.diff(stamps.to_numpy())
        alike = (steps == np.sort(steps)[len(steps) // 2]).mean()
        raise UserError(
            f"{rows.where(int(rows.offsets[longest]) + row)}: the times{rows.of_series(longest)} are not regular: "
            f"{stamps[row]} follows {stamps[row - 1]}, where the usual step '{usual}' expects {expected}; {alike:.0%} "
            "of the steps are alike. Resample the file to one frequency: data.resample=h data.aggregate=mean"
        )
    stamps = pd.DatetimeIndex(np.unique(rows.times).astype("datetime64[ns]"))
    freq = infer_frequency(stamps) or grid_frequency(stamps) if len(stamps) >= 3 else None
    if freq is None:
        raise _length_error(rows)
    return _grid_of(freq, int(rows.times[0]), rows.times)


def _length_error(rows: SortedRows) -> UserError:
    """What to say of rows that tell no frequency."""
    return UserError(
        f"{rows.name}: {len(rows.ids)} series of at most {counted(int(rows.lengths.max()), 'row')} are too short to "
        "infer a frequency. At least 3 rows of one are needed to read the file."
    )


def _voters(rows: SortedRows) -> list[int]:
    """Series of three rows and more: the longest, and some evenly spread."""
    enough = np.flatnonzero(rows.lengths >= 3)
    # stable: which of equally long series vote depends on their order alone
    longest = enough[np.argsort(-rows.lengths[enough], kind="stable")[: _VOTERS // 2]]
    spread = enough[np.linspace(0, max(len(enough) - 1, 0), num=min(len(enough), _VOTERS // 2)).astype(int)]
    return list(dict.fromkeys([*longest.tolist(), *spread.tolist()]))


def _stamps(rows: SortedRows, series: int) -> pd.DatetimeIndex:
    """The times of a series, of many series of the first rows."""
    start, stop = rows.offsets[series : series + 2].tolist()
    times = rows.times[start : stop if len(rows.ids) == 1 else min(stop, start + _VOTER_ROWS)]
    stamps: pd.DatetimeIndex = pd.DatetimeIndex(np.asarray(times).astype("datetime64[ns]"))
    return stamps


def _grid_of(freq: str, anchor: int, times: IntArray) -> Grid:
    """The grid of a frequency through the time `anchor`, from the first of the times (N,) to the last."""
    first, last = int(times.min()), int(times.max())
    offset = to_offset(freq)
    # in pandas 3 a Day is no Tick and has no nanos
    if isinstance(offset, (Tick, Day)):
        unit = offset.n * _DAY if isinstance(offset, Day) else int(offset.nanos)
        # rounded up, so that the grid begins at the first time or less than a step before it
        return Grid(freq, anchor - -(-(anchor - first) // unit) * unit, unit)
    # from the anchor both ways: counted from `first`, steps of several months could miss the anchor
    middle = pd.Timestamp(anchor)
    before = len(pd.date_range(pd.Timestamp(first), middle, freq=freq)) + 1
    parts = [
        pd.date_range(end=middle, periods=before, freq=freq)[:-1],
        pd.date_range(middle, pd.Timestamp(last), freq=freq),
    ]
    stamps = np.concatenate([part.to_numpy().astype("datetime64[ns]").astype(np.int64) for part in parts])
    if not len(stamps):  # no time of the frequency: what follows is one, and the rows lie before it
        stamps = pd.date_range(middle, periods=1, freq=freq).to_numpy().astype("datetime64[ns]").astype(np.int64)
    stamps = stamps[stamps >= first]
    return Grid(freq, int(stamps[0]), None, stamps)


def _misfit(rows: SortedRows, grid: Grid, row: int, trained_on: str | None) -> UserError:
    """What to say of a row between the steps of the grid."""
    series = rows.series_of(row)
    name, time = quoted(rows.ids[series]), grid.words(int(rows.times[row]))
    if grid.stepped:
        return UserError(
            f"{rows.where(row)}: the series {name} has {time}, where all series have every {grid.unit}th step and the "
            f"first has {grid.words(grid.first)}. Number the rows of all series alike, one apart."
        )
    stamps = _stamps(rows, series)
    own = infer_frequency(stamps) or grid_frequency(stamps) if len(stamps) >= 3 else None
    if own is not None and own != grid.freq:
        if trained_on is None:
            return _different(rows, grid, series, own)
        return _frequency_error(rows, series, own, trained_on)
    return UserError(
        f"{rows.where(row)}: {time}{rows.of_series(series)} is between the steps of '{grid.freq}' that "
        f"{'other series have' if len(rows.ids) > 1 else 'the other rows have'}, counted from "
        f"{grid.words(grid.first)}. Round the times, or resample the file to one frequency."
    )


def _frequency_error(rows: SortedRows, series: int, freq: str, trained_on: str) -> UserError:
    """What to say of a series of another frequency than that of a training."""
    return UserError(
        f"{rows.name}{rows.of_series(series)} has the frequency '{freq}'; the model was trained on '{trained_on}'. "
        "Resample the file, or train on this frequency."
    )


def _coarser(rows: SortedRows, positions: IntArray, grid: Grid) -> Iterator[tuple[int, str]]:
    """Series that lie on the grid, but regularly have only some of its steps, and the frequency of each."""
    held = np.flatnonzero(rows.lengths > 0)
    # series without rows left out: reduceat takes an empty part for its first element
    lasts = rows.offsets[1:][held] - 1
    distances = np.diff(positions, append=positions[-1:])
    # the distance behind a last row leads into another series: too large for the minimum, then 0 for the maximum
    distances[lasts] = distances.max(initial=0) + 1  # none
    shortest = np.minimum.reduceat(distances, rows.offsets[held])
    distances[lasts] = 0
    furthest = np.maximum.reduceat(distances, rows.offsets[held])
    coarse = (shortest > 1) & (furthest <= _NEAR * shortest) & (rows.lengths[held] >= _FEW)
    for place in np.flatnonzero(coarse)[:_VOTERS].tolist():
        if not grid.stepped:
            own = infer_frequency(_stamps(rows, int(held[place])))
        else:
            own = f"every {shortest[place]} steps" if shortest[place] == furthest[place] else None
        if own is not None:
            yield int(held[place]), own


def _different(rows: SortedRows, grid: Grid, series: int, own: str) -> UserError:
    usual = "every step" if grid.stepped else f"'{grid.freq}'"
    own = own if grid.stepped else f"'{own}'"
    other = next((s for s in _voters(rows) if s != series and _has(rows, s, grid)), None)
    others = "the others" if other is None else f"the series {quoted(rows.ids[other])}"
    return UserError(
        f"{rows.name}: the series {quoted(rows.ids[series])} has rows at the frequency {own}, and {others} at {usual}. "
        "Bring all series to one frequency, or write those of each into a file of their own."
    )


def _has(rows: SortedRows, series: int, grid: Grid) -> bool:
    """Whether a series has two steps of the grid one after the other."""
    start, stop = rows.offsets[series : series + 2].tolist()
    positions = grid.positions(rows.times[start : min(stop, start + _VOTER_ROWS)])
    return bool(((np.diff(positions) == 1) & (positions[1:] >= 0) & (positions[:-1] >= 0)).any())
