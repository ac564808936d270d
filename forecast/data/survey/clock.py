"""The timestamps of a file: readable, in order, regular, and whether somebody changed the clock."""

from dataclasses import dataclass, field
from datetime import date, timedelta

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.tseries.frequencies import to_offset
from pandas.tseries.offsets import Tick

from forecast.data.frequency import first_deviation, grid_frequency, grid_stamps, infer_frequency, rows_missing
from forecast.data.gaps import MISSING_WORDS, MOST_MISSING, runs
from forecast.data.survey.findings import Finding, cell_words, many

SHOWN_RUNS = 3
LAST_YEAR = 9999  # of Python's dates
STACKED = 0.1  # share of rows that repeat a timestamp: fewer are a slip or a clock set back, more are several series
_ZONE = r"(?<=:\d\d)(?:\.\d+)?\s*(Z|[+-]\d\d(?::?\d\d)?|UTC|GMT|[A-Z]{3,4})$"
_DATE = r"^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}"
_CLOCK = ("now", "today")  # pandas would look at the clock


@dataclass
class Clock:
    """What the time column says.

    stamps: the readable timestamps, in file order, without their zones; rows: the row of each. freq: the pandas alias
    of them sorted, None when they have none; missing: rows of its grid that are not there.
    """

    stamps: pd.DatetimeIndex
    rows: npt.NDArray[np.int64]
    freq: str | None = None
    missing: int = 0
    findings: list[Finding] = field(default_factory=list)

    def say(self, level: str, text: str) -> None:
        """Adds a finding."""
        assert level in ("stop", "gap", "note")
        self.findings.append(Finding(level, text))  # type: ignore[arg-type]


def looks_like_dates(cells: list[str]) -> float:
    """The share of cells that begin as a date does."""
    filled = pd.Series([cell for cell in cells if cell], dtype=str)
    return float(filled.str.contains(_DATE).mean()) if len(filled) else 0.0


def survey_clock(cells: list[str], lines: list[int]) -> Clock:
    """Reads the cells of the time column; lines: of the file, one for each."""
    column = pd.Series(cells, dtype=str)
    zones = column.str.extract(_ZONE)[0]
    bare = column.where(zones.isna(), column.str.replace(_ZONE, "", regex=True).str.strip())
    stamps = pd.DatetimeIndex(pd.to_datetime(bare.mask(bare.isin(_CLOCK)), format="ISO8601", errors="coerce"))
    readable = np.asarray((stamps.year >= 1) & (stamps.year <= LAST_YEAR))  # NaT has no year
    rows = np.flatnonzero(readable)
    clock = Clock(stamps[readable], rows)
    _zones(clock, zones, cells, lines)
    _unreadable(clock, cells, lines, np.flatnonzero(~readable))
    repeated = _repeats(clock, lines)
    unique = clock.stamps.sort_values().unique()
    if len(unique) < 3:
        few = f"{many(len(unique), 'timestamp')}: too few to infer a frequency; a training needs far more."
        clock.say("stop", few if readable.all() else "Too few other timestamps are left to infer a frequency.")
        return clock
    absent = _regularity(clock, unique, lines)
    _clock_changes(clock, absent, repeated)
    return clock


def _zones(clock: Clock, zones: "pd.Series[str]", cells: list[str], lines: list[int]) -> None:
    found = zones.dropna()
    if found.empty:
        return
    first = int(found.index[0])
    kinds = found.unique().tolist()
    changing = f" {len(kinds)} of them: {', '.join(kinds[:4])}." if len(kinds) > 1 else ""
    clock.say(
        "stop",
        f"Line {lines[first]}: {cell_words(cells[first])} carries a time zone, as {len(found)} of {len(cells)} "
        f"timestamps do.{changing} Convert all to one zone without clock changes (UTC) and write them without it.",
    )


def _unreadable(clock: Clock, cells: list[str], lines: list[int], rows: npt.NDArray[np.int64]) -> None:
    empty = [int(row) for row in rows if cells[row].lower() in MISSING_WORDS]
    other = [int(row) for row in rows if cells[row].lower() not in MISSING_WORDS]
    if empty:
        clock.say(
            "stop", f"Line {lines[empty[0]]}: no timestamp; {many(len(empty), 'row')}. Fill it in or drop the row."
        )
    if other:
        cell = cells[other[0]]
        guess = " Seconds since 1970?" if cell.isdigit() else ""
        clock.say(
            "stop",
            f"Line {lines[other[0]]}: {cell_words(cell)} cannot be read as a time without guessing; "
            f"{many(len(other), 'row')}.{guess} Write the year first, as 2016-07-01 00:00:00.",
        )


def _order(clock: Clock, lines: list[int]) -> None:
    stamps = clock.stamps
    back = np.flatnonzero(stamps[1:] < stamps[:-1]) + 1
    if not back.size:
        return
    if back.size == len(stamps) - 1:
        clock.say("stop", "The newest row stands first. Turn the file round: sort its rows by time.")
        return
    row = int(back[0])
    clock.say(
        "stop",
        f"Line {lines[clock.rows[row]]}: {stamps[row]} comes after {stamps[row - 1]}, but is earlier; "
        f"{many(int(back.size), 'step')} back in all. Sort the rows by time.",
    )


def _repeats(clock: Clock, lines: list[int]) -> pd.DatetimeIndex:
    """The timestamps that stand more than once; findings that tell of them, and of an order that is none."""
    again = clock.stamps.duplicated()
    repeated: pd.DatetimeIndex = clock.stamps[again].unique().sort_values()
    if again.sum() <= STACKED * len(again):  # each of several series begins anew: no question of order
        _order(clock, lines)
    if again.any():
        row = int(again.argmax())
        stamp = clock.stamps[row]
        first = int((clock.stamps == stamp).argmax())
        fix = "Drop or average the repeated rows."
        if again.sum() > STACKED * len(again):
            most = int(clock.stamps.value_counts().max())
            fix = f"This looks like {most} series below each other: write one file, or one column, for each."
        clock.say(
            "stop",
            f"Line {lines[clock.rows[row]]}: {stamp} stands already in line {lines[clock.rows[first]]}; "
            f"{int(again.sum())} of {len(clock.stamps)} rows repeat a timestamp. {fix}",
        )
    return repeated


def _regularity(clock: Clock, unique: pd.DatetimeIndex, lines: list[int]) -> list[tuple[pd.Timestamp, int]]:
    """Finds the frequency; the first timestamp and the length of each run of missing rows."""
    clock.freq = infer_frequency(unique)
    if clock.freq is not None:
        return []
    freq = grid_frequency(unique)
    if freq is None:
        row, usual, expected = first_deviation(unique, over_gaps=True)
        line = lines[clock.rows[int((clock.stamps == unique[row]).argmax())]]
        steps = np.diff(unique.to_numpy())
        share = (steps == np.sort(steps)[len(steps) // 2]).mean()
        clock.say(
            "stop",
            f"Line {line}: the timestamps are not regular: {unique[row]} where the usual step '{usual}' expects "
            f"{expected}; {share:.0%} of the steps are alike. Resample the file to one frequency.",
        )
        return []
    clock.freq, absent = freq, rows_missing(unique, freq)
    assert absent is not None
    clock.missing = absent
    whole = absent + len(unique)
    if absent > MOST_MISSING * whole:
        clock.say(
            "stop",
            f"{absent} of the {whole} rows that the frequency '{freq}' has from {unique[0]} to {unique[-1]} are "
            "missing. Resample to a coarser frequency, or cut the file to a part without holes.",
        )
        return []
    stamps = grid_stamps(unique, freq)
    found = [(stamps[start], stop - start) for start, stop in runs(~np.asarray(stamps.isin(unique)))]
    shown = ", ".join(f"{many(length, 'row')} from {stamp}" for stamp, length in found[:SHOWN_RUNS])
    stamp, longest = max(found, key=lambda run: run[1])
    clock.say(
        "gap",
        f"{absent} of {whole} rows are missing ({absent / whole:.2%}) in {many(len(found), 'gap')}: {shown}"
        f"{', ...' if len(found) > SHOWN_RUNS else ''}; the longest has {many(longest, 'row')}, from {stamp}.",
    )
    return found


def _clock_changes(clock: Clock, absent: list[tuple[pd.Timestamp, int]], repeated: pd.DatetimeIndex) -> None:
    """Recognises one hour that is missing on a Sunday in March, or stands twice on one in October or November."""
    hour = _rows_of_an_hour(clock.freq)
    if hour is None:
        return
    spring = [
        stamp for stamp, length in absent if length == hour and _is_night(stamp) and stamp.date() in _spring(stamp)
    ]
    nights = repeated[[_is_night(stamp) and stamp.date() in _autumn(stamp) for stamp in repeated]]
    counts = nights.floor("h").value_counts()
    autumn = sorted(counts[counts == hour].index)
    if not spring and not autumn:
        return
    parts = [f"{spring[0]} is missing"] if spring else []
    parts += [f"{autumn[0]} stands twice"] if autumn else []
    clock.say(
        "stop" if autumn else "note",
        f"The clock was changed: the hour of {' and that of '.join(parts)}, as daylight saving time does "
        f"({many(len(spring), 'spring')}, {many(len(autumn), 'autumn')}). Write the file anew in UTC, which has no "
        "clock changes; else every season is one hour off for half of the year.",
    )


def _rows_of_an_hour(freq: str | None) -> int | None:
    """How many rows an hour has; None when it has no whole number of them."""
    step = None if freq is None else to_offset(freq)
    hour = pd.Timedelta("1h")
    return int(hour / step) if isinstance(step, Tick) and hour % pd.Timedelta(step) == pd.Timedelta(0) else None


def _is_night(stamp: pd.Timestamp) -> bool:
    return stamp.hour <= 3


def _sunday(year: int, month: int, number: int) -> date:
    """The Sunday `number` of a month, from 0; -1 is the last."""
    days = [date(year, month, 1) + timedelta(days=i) for i in range(31)]
    return [day for day in days if day.month == month and day.weekday() == 6][number]


def _spring(stamp: pd.Timestamp) -> set[date]:
    """Europe: the last Sunday of March; North America: the second."""
    return {_sunday(stamp.year, 3, -1), _sunday(stamp.year, 3, 1)}


def _autumn(stamp: pd.Timestamp) -> set[date]:
    """Europe: the last Sunday of October; North America: the first of November."""
    return {_sunday(stamp.year, 10, -1), _sunday(stamp.year, 11, 0)}
