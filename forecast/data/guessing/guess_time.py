"""Which columns of a file hold its time: looked for in the first rows, decided by all of them."""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from forecast.data.reading.numbers import MISSING_SPELLINGS
from forecast.data.reading.raw_columns import BLANKS
from forecast.data.reading.time_columns import part_of
from forecast.data.reading.timestamps import AmbiguousTime, read_timestamps
from forecast.data.values.findings import quoted
from forecast.data.values.frequency import grid_frequency, rows_missing
from forecast.errors import UserError

_NAME = re.compile(
    r"(?:^|[^a-z])(?:date|day|time|datetime|timestamp|ds|ts|dt|year|quarter|month|week|period|epoch|unix|datum|zeit"
    r"|ym|yyyymm|yearmonth|yyyymmdd|yearweek|yyyyww)"
    r"(?:$|[^a-z])"
)
USUAL_NAMES = ("date", "datetime", "timestamp", "time")
_DIGITS = re.compile(r"\d+(\.\d*|e-\d+)?", re.ASCII)
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?(\.\d+)?( ?[AaPp][Mm])?", re.ASCII)
_LONG = 8  # digits: fewer are a time only by the name of the column
_MOST, _FEW = 0.5, 0.1  # shares of the cells
_PARTS = ("year", "quarter", "week", "month", "day", "hour", "minute", "second")
_LARGEST = {"quarter": 4, "week": 53, "month": 12, "day": 31, "hour": 24, "minute": 59, "second": 59}

Names = tuple[str, ...]


class TimeChoice(NamedTuple):
    """Columns that hold the time, why these, and the others that may hold it as well; none where it is decided."""

    columns: Names | None
    reason: str = ""
    rivals: Sequence[Names] = ()


def likely_times(columns: Mapping[str, Sequence[str]]) -> list[Names]:
    """The columns, by some of their cells, that may hold the time: one, a date and a time of day, or parts."""
    cells = {name: [cell.strip(BLANKS) for cell in column] for name, column in columns.items()}
    cells = {name: [cell for cell in column if cell not in MISSING_SPELLINGS] for name, column in cells.items()}
    stamps_of = {name: stamps for name, column in cells.items() if (stamps := _stamps(name, column)) is not None}
    named = {name for name in stamps_of if part_of(name) not in ("year", "day", "hour") or not _all_digits(cells[name])}
    parts = _parts(cells)
    clock = next((name for name, column in cells.items() if name not in stamps_of and _is_clock(name, column)), None)
    if parts and not named:
        return [parts]
    times: list[Names] = []
    for name in [name for name in stamps_of if name in named] or list(stamps_of):
        days = stamps_of[name]
        alone = clock is None or days is None or bool((days != days.normalize()).any())
        times.append((name,) if alone or clock is None else (name, clock))
    return times


def choose_time(columns: Mapping[Names, Mapping[str, Sequence[str]]]) -> TimeChoice:
    """Of several that look like time: of equal ones the first, else the only one whose timestamps make a series."""
    read = {names: _read(cells) for names, cells in columns.items()}
    different: list[Names] = []
    for names, stamps in read.items():
        if not any(_equal(stamps, read[other]) for other in different):
            different.append(names)
    first, *others = different
    if not others:
        return TimeChoice(first, f"{_words(list(columns)[1:])} says the same as {_words([first])} in every row")
    for sound, why in ((_unique, "nearly every row has a timestamp of its own"), (_regular, "the rows are regular")):
        fit = [names for names in different if (stamps := read[names]) is not None and sound(stamps)]
        if len(fit) == 1:
            rest = [names for names in different if names != fit[0]]
            return TimeChoice(fit[0], f"by it {why}, by {_words(rest)} not")
    return TimeChoice(None, rivals=different)


def _stamps(name: str, cells: Sequence[str]) -> pd.DatetimeIndex | None:
    """The timestamps of a column that looks like time; none in it where its format must be set."""
    if not cells:
        return None
    if _all_digits(cells) and not _NAME.search(name.lower()):
        numbers = [float(cell) for cell in cells]
        if min(map(len, cells)) < _LONG or any(after < before for before, after in pairwise(numbers)):
            return None
    try:
        stamps = read_timestamps({name: cells}, missing=MISSING_SPELLINGS).stamps
    except AmbiguousTime:
        none: pd.DatetimeIndex = pd.DatetimeIndex([])
        return none
    except UserError:
        return None
    known: pd.DatetimeIndex = stamps[np.flatnonzero(stamps.notna())]
    return known if len(known) > _MOST * len(stamps) else None


def _all_digits(cells: Collection[str]) -> bool:
    return all(_DIGITS.fullmatch(cell) for cell in cells)


def _is_clock(name: str, cells: Sequence[str]) -> bool:
    """Whether cells are times of day: 18:00, or hours by their name."""
    if part_of(name) == "hour":
        return _in_range("hour", cells)
    return sum(_CLOCK.fullmatch(cell) is not None for cell in cells) > _MOST * len(cells)


def _parts(cells: Mapping[str, Sequence[str]]) -> Names:
    """The columns of year, month, day, ..., the coarsest first, as far as none lacks; none without a second."""
    named = [(part_of(name), name) for name in cells]
    own = {part: name for part, name in reversed(named) if part and _in_range(part, cells[name])}
    for part in ("quarter", "week"):
        if "year" in own and part in own and "month" not in own:
            return own["year"], own[part]
    chain = []
    for part in (part for part in _PARTS if part not in ("quarter", "week")):
        if part not in own:
            break
        chain.append(own[part])
    return tuple(chain) if len(chain) > 1 else ()


def _in_range(part: str, cells: Sequence[str]) -> bool:
    if part == "month" and not _all_digits(cells):
        return bool(cells)
    bare = [cell.lstrip("QqWw") if part in ("quarter", "week") else cell for cell in cells]
    return bool(bare) and _all_digits(bare) and max(map(float, bare)) <= _LARGEST.get(part, 9999)


def _read(cells: Mapping[str, Sequence[str]]) -> pd.DatetimeIndex | None:
    try:
        return read_timestamps(cells, missing=MISSING_SPELLINGS).stamps
    except UserError:  # ambiguous, too
        return None


def _equal(stamps: pd.DatetimeIndex | None, others: pd.DatetimeIndex | None) -> bool:
    return stamps is not None and others is not None and stamps.equals(others)


def _unique(stamps: pd.DatetimeIndex) -> bool:
    return bool(np.mean(stamps.isna()) <= _FEW and np.mean(stamps.duplicated()) <= _FEW)


def _regular(stamps: pd.DatetimeIndex) -> bool:
    once = stamps.dropna().sort_values().unique()
    freq = grid_frequency(once) if len(once) >= 3 and _unique(stamps) else None
    return freq is not None and (rows_missing(once, freq) or 0) <= len(once)


def _words(candidates: Sequence[Names]) -> str:
    return ", ".join(" + ".join(map(quoted, names)) for names in candidates)
