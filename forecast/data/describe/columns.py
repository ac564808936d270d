"""What the columns of a file seem to be: its time, ids of several series, what somebody plans, what is of no use.

What nobody but the writer of a file can choose is refused with the keys that choose.
"""

import calendar
import re
from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np
import pandas as pd

from forecast.data.grid import MOST_MISSING
from forecast.data.reading.columns import BLANKS, MISSING_SPELLINGS, RawColumn
from forecast.data.reading.table import Table
from forecast.data.reading.timestamps import AmbiguousTime, part_of, read_timestamps
from forecast.data.values.cells import FloatArray, IntArray, counted, quoted
from forecast.errors import UserError
from forecast.text.overrides import typed

_NAME = re.compile(
    r"(?:^|[^a-z])(?:date|day|time|datetime|timestamp|ds|ts|dt|year|quarter|month|week|period|epoch|unix|datum|zeit"
    r"|ym|yyyymm|yearmonth|yyyymmdd|yearweek|yyyyww)"
    r"(?:$|[^a-z])"
)
USUAL_NAMES = ("date", "datetime", "timestamp", "time", "ds", "t", "step")  # of a column of times, or of steps
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?(\.\d+)?( ?[AaPp][Mm])?", re.ASCII)
_CALENDAR = re.compile(r"\b(1[6-9]|2[0-2])\d\d(?!\d)|\b\d?[QqMmWw]-?\d", re.ASCII)
_LONG = 10_000_000  # numbers below are a time only by the name of the column
_MOST, _FEW = 0.5, 0.1  # shares of the cells
# The parts of a time that may stand in columns of their own: the first chain that a file has and that reads.
_CHAINS = (
    ("year", "month", "day", "hour", "minute", "second"),
    ("year", "month", "day", "hour", "minute"),
    ("year", "month", "day", "hour"),
    ("year", "month", "day"),
    ("year", "month"),
    ("year", "quarter"),
    ("year", "week"),
)
_HOURS = set(range(24)), set(range(1, 25))  # of a day, as columns count them
# Steps that people resample to, the finest first, in seconds.
_PLAIN_STEPS = {
    "s": 1,
    "5s": 5,
    "10s": 10,
    "15s": 15,
    "30s": 30,
    "min": 60,
    "2min": 120,
    "5min": 300,
    "10min": 600,
    "15min": 900,
    "20min": 1_200,
    "30min": 1_800,
    "h": 3_600,
    "2h": 7_200,
    "3h": 10_800,
    "4h": 14_400,
    "6h": 21_600,
    "12h": 43_200,
    "D": 86_400,
    "W-SUN": 604_800,
    "MS": 2_629_800,
    "QS": 7_889_400,
}
_HOUR, _DAY = pd.Timedelta(hours=1), pd.Timedelta(days=1)
_WEEKS = pd.Timedelta(weeks=3)  # that show on which days nothing is open
_STRAY = 0.01  # share of the rows that may be faults: off the usual grid, or one once more although the ids are known
_MOST_IDS, _MOST_COLUMNS, _FEW_ROWS = 1_000, 12, 10
# Of columns that somebody plans: different values and words, and the share of rows that repeat the one before.
FEW_VALUES, FEW_WORDS, _STEADY = 4, 12, 0.9
_EXACT, _ALIKE = 1e-6, 1 - 1e-9  # share of a step that a ramp is off; squared correlation of copies
_MOST_EVEN, _MANY_ROWS = 0.95, 100  # share of the steps of a ramp; rows of which none may lie a step beside its line

Names = tuple[str, ...]


# time


def find_times(columns: Mapping[str, Sequence[str]]) -> list[Names]:
    """The columns that hold the time, by their cells: one, a date and a time of day, or parts; several are rivals.

    The fewest that tell nearly as many times apart as any do; of those that read alike the first.
    """
    cells = {name: pd.Series([cell.strip(BLANKS) for cell in column], dtype=object) for name, column in columns.items()}
    places = {part_of(name): name for name in reversed(cells)}
    single = [name for name in cells if _stamps(cells, name) is not None]
    clocks = [name for name in cells if _is_clock(name, cells[name])]
    chains = [tuple(places[part] for part in chain) for chain in _CHAINS if {*chain} <= places.keys()]
    candidates = [*((name,) for name in single), *product(single, clocks), *chains]
    times = {names: stamps for names in candidates if (stamps := _stamps(cells, *names)) is not None}
    counts = {names: len({*zip(*(cells[name] for name in names), strict=True)}) for names in times}
    finest = [names for names in times if counts[names] >= (1 - _FEW) * max(counts.values())]
    rivals: dict[Names, pd.DatetimeIndex] = {}
    for names in finest:
        if len(names) == min(map(len, finest)) and not any(times[names].equals(other) for other in rivals.values()):
            rivals[names] = times[names]
    return list(rivals)


def _stamps(cells: Mapping[str, "pd.Series[str]"], *names: str) -> pd.DatetimeIndex | None:
    """The time (N,) of each row; no row where its format must be set; None where most cells hold no time."""
    first = cells[names[0]]
    numbers = pd.to_numeric(first, errors="coerce").dropna()
    is_value = not numbers.is_monotonic_increasing or numbers.min() < _LONG
    if len(names) == 1 and len(numbers) > _MOST * len(first) and not _NAME.search(names[0].lower()) and is_value:
        return None
    try:
        stamps = read_timestamps({name: cells[name].tolist() for name in names}, missing=MISSING_SPELLINGS).stamps
    except UserError as error:
        return pd.DatetimeIndex([]) if isinstance(error, AmbiguousTime) else None
    # hours 100 to 2400 are half read, as 10:00 to 24:00
    return (
        stamps
        if np.sum(stamps.notna()) > (_MOST if len(names) == 1 else 1 - _FEW) * np.sum(~first.isin(MISSING_SPELLINGS))
        else None
    )


def _is_clock(name: str, cells: "pd.Series[str]") -> bool:
    """Whether cells are times of day: 18:00, or hours by their name or their values."""
    is_hour = part_of(name) == "hour" or {*pd.to_numeric(cells, errors="coerce")} in _HOURS
    return is_hour or cells.str.fullmatch(_CLOCK).mean() > _MOST


def likely_calendar(columns: Mapping[str, Sequence[str]]) -> str:
    """What to say of the first column whose cells look like a calendar's and are read as no time; "" without one."""
    name = next((name for name, cells in columns.items() if all(map(_CALENDAR.search, cells))), None)
    if name is None:
        return ""
    cell = columns[name][0]
    seen, keys = f"Column {quoted(name)} looks like a calendar's, as {quoted(cell)}", []
    for parts in (("%m", "%d"), ("%d", "%m")):
        text = re.sub(r"(?<=:\d\d)[+-]\d\d:?\d\d", "%z", re.sub(r"(?<!\d)\d{4}(?!\d)", "%Y", cell, count=1))
        for directive in (*parts, "%H", "%M", "%S"):
            text = re.sub(r"(?<!\d)\d\d?(?!\d)", directive, text, count=1)
        is_read = "%m" in text and "%Y" in text
        if is_read and not read_timestamps({name: columns[name]}, missing=(), time_format=text).faults:
            keys.append(f"{typed('data.time_column', name)} {typed('data.time_format', text)}")
    if keys:
        return f"{seen}: set {' or '.join(dict.fromkeys(keys))}. "
    return f"{seen}, but no data.time_format reads it: write it as 2016-07-01. "


# series


def find_ids(columns: Sequence[RawColumn], table: Table, *, below: bool) -> tuple[Names, IntArray]:
    """The columns that tell series apart, () for none, and the number of each row's series (N,).

    below: of series below one another the fewest that make pairs of them and the time unique; else a column of words
    that changes only from one part of the rows to the next, or that tells levels apart.
    """
    known: dict[str, IntArray] = {}
    for column in sorted(columns, key=lambda column: not column.words):
        codes = pd.factorize(column.as_words().codes if column.words else column.numbers)[0].astype(np.int64)
        is_id = "" not in column.words if column.words else below and not (column.numbers % 1).any()
        if is_id and 1 <= codes.max() < min(len(codes) // 3, len(codes) if column.words else _MOST_IDS):
            known[column.name] = codes
    times = pd.factorize(table.timestamps)[0]
    for names in (names for size in (1, 2, 3) for names in combinations([*known][:_MOST_COLUMNS], size) if below):
        codes = pd.factorize(pd.MultiIndex.from_arrays([known[name] for name in names]))[0].astype(np.int64)
        repeats = pd.Series(codes * len(times) + times).duplicated().mean()
        if repeats <= _STRAY and np.median(np.bincount(codes)) >= 3:
            return names, codes
    for name, codes in known.items() if not below else ():
        if name not in table.columns and not _NAME.search(name.lower()) and _tells_levels(codes, table.values):
            return (name,), codes
    return (), times


def counting_keys(column: RawColumn, days: pd.DatetimeIndex, drop: Sequence[str]) -> str:
    """The keys that count rows whose column counts the parts of each day (N,), as hours 1 to 24 or HE01; "" for others.

    drop: the columns to leave out then. On a day on which the clock is changed there may be an hour less or more.
    """
    sizes = pd.Series(1, index=days).groupby(level=0).size()
    usual = int(sizes.median())
    digits = [re.sub(r"\D", "", cell) or "0" for cell in column.cells(range(len(column)))]
    is_up = (np.diff(np.array(digits, dtype=np.float64)) > 0) | (days[1:] != days[:-1])
    is_part = usual % 24 == 0 == 1_440 % usual and (abs(sizes[:-1] - usual) <= usual // 24).all() and is_up.all()
    freq = "h" if usual == 24 else f"{1_440 // usual}min"
    keys = f"data.time_column=null data.freq={freq} data.start={days.min():%Y-%m-%d} {typed('data.drop', [*drop])}"
    return keys if is_part else ""


def _tells_levels(codes: IntArray, values: FloatArray) -> bool:
    """Whether codes (N,) are those of parts one after another, or the values (N, C) of one column lie apart by them."""
    groups = pd.DataFrame(values).groupby(codes)
    least, most = np.sort(groups.min().to_numpy(), axis=0), np.sort(groups.max().to_numpy(), axis=0)
    are_apart = bool((least[1:] - most[:-1] > groups.std().max().to_numpy()).all(axis=0).any())
    return are_apart or np.count_nonzero(np.diff(codes)) == codes.max()


def check_even(stamps: pd.DatetimeIndex, steps_keys: str) -> None:
    """UserError for increasing timestamps (N,) on no grid, with the keys that bring them to one; none for few faults.

    steps_keys: what counts the rows in place of their times.
    """
    steps = pd.Series(np.diff(stamps.to_numpy()))
    usual, most = steps.median(), steps.quantile(1 - _FEW).total_seconds()
    step = next((step for step, seconds in _PLAIN_STEPS.items() if seconds >= 0.75 * most), "YS")
    is_uneven = len(steps) > _FEW_ROWS and np.mean(steps % usual > pd.Timedelta(0)) > _STRAY
    if is_uneven and (pd.Series(1, index=stamps).resample(step).count() == 0).mean() <= _FEW:
        raise UserError(
            f"Rows with values are {usual.round('s').to_pytimedelta()} apart as a rule, at uneven times. For one step "
            f"set data.resample={step} data.aggregate=mean (or sum, last), or, where each row is a step, {steps_keys}."
        )


def check_closed(series: IntArray, stamps: pd.DatetimeIndex, freq: str | None, steps_keys: str) -> None:
    """UserError where a series of sorted rows (N,) lacks little but days of each week, or hours of each day.

    freq: of the longest, None for none; that of business days has no weekend.
    """
    step = pd.Timedelta(np.median(np.diff(stamps.to_numpy())[np.diff(series) == 0])) if freq not in ("B", "D") else _DAY
    for number in np.unique(series)[:: series.max() // _MOST_IDS + 1] if step <= _DAY else ():
        own = stamps[slice(*np.searchsorted(series, [number, number + 1]))]
        by_day, by_hour = np.bincount(own.day_of_week, minlength=7), np.bincount(own.hour, minlength=24)
        closed_days, closed_hours = by_day <= _FEW * by_day.max(), by_hour <= _FEW * by_hour.max()
        days = [f"a {calendar.day_name[day]}" for day in np.flatnonzero(closed_days).tolist()]
        hours = [f"{hour}:00" for hour in np.flatnonzero(closed_hours) if step <= _HOUR]
        share, span = (1 - len(days) / 7) * (1 - len(hours) / 24), own[-1] - own[0]
        is_open = share == 1 or (freq == "B" and share == 5 / 7) or len(days) == 6  # of a week apart
        if not is_open and len(own) * step >= (share - _FEW) * span and span >= _WEEKS:
            unknown = "" if hours else "; if the values are just unknown, data.gaps=interpolate"
            few = "Hardly a" if by_day[closed_days].any() or (hours and by_hour[closed_hours].any()) else "No"
            some = " of some series" if series.max() else ""
            raise UserError(
                f"{few} row{some} is of {', '.join(days + hours)}. If nothing happens then, set data.gaps=zero; "
                f"if no step is there, {steps_keys}{unknown}."
            )


def are_counts(values: FloatArray) -> bool:
    """Whether values (N, C) are whole numbers above 0, so that rows of 0 may not be written."""
    return bool((values > 0).all() and (values % 1 == 0).all())


# columns of no use


def useless_columns(table: pd.DataFrame, stamps: pd.DatetimeIndex) -> dict[str, str]:
    """{column: why} for gaps, constants, ramps, what the time (N,) tells, and columns that are another, or its line."""
    steps, moves, shares = table.diff()[1:], table.max() > table.min(), table.isna().mean()
    usual, line = steps.median(), np.linspace(table.iloc[0], table.iloc[-1], len(table))
    even = ((steps - usual).abs() <= _EXACT * steps.abs().max()).mean() >= _MOST_EVEN  # but for holes and new series
    even |= ((table - line).abs().max(skipna=False) <= usual.abs()) & (len(table) >= _MANY_ROWS)  # as of rounded hours
    reasons = {
        name: "is an even ramp" if moves[name] else "is always the same"
        for name in table.columns[even & (usual != 0) | ~moves]
    }
    for part in ("hour", "day_of_week", "day", "month"):
        groups = table.groupby(getattr(stamps, part))
        is_told = (groups.max() == groups.min()).all() & (len(table) >= 2 * groups.ngroups)
        reasons = {name: f"is told by the {part.replace('_', ' ')}" for name in table.columns[is_told]} | reasons
    reasons |= {name: f"lacks {shares[name]:.0%} of its values" for name in table.columns[shares > MOST_MISSING]}
    others = table.drop(columns=[*reasons])
    alike = np.corrcoef(others.fillna(others.mean()), rowvar=False) ** 2 > _ALIKE
    for place, other in zip(*np.nonzero(np.tril(np.atleast_2d(alike), -1)), strict=True):
        reasons.setdefault(others.columns[place], f"is {quoted(others.columns[other])} once more, or a line of it")
    return reasons


def planned_columns(table: pd.DataFrame) -> dict[str, str]:
    """{column: why} for those that somebody sets, as a promotion or a price."""
    reasons = {}
    for name, column in table.items():
        shares, steady = column.value_counts(normalize=True), (column.dropna().diff() == 0).mean()
        if len(shares) <= FEW_VALUES:
            reasons[str(name)] = f"holds {counted(len(shares), 'value')}"
        elif steady >= _STEADY and shares.max() <= MOST_MISSING:
            reasons[str(name)] = "moves in steps"
    return reasons if len(table) >= _FEW_ROWS * FEW_VALUES else {}
