"""What the columns of a file seem to be: its time, ids of several series, what somebody plans, what is of no use.

What nobody but the writer of a file can choose is refused with the keys that choose.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, pairwise, product

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.gaps import MOST_MISSING
from forecast.data.reading.layout import Cell
from forecast.data.reading.numbers import MISSING_SPELLINGS
from forecast.data.reading.raw_columns import BLANKS, RawColumn
from forecast.data.reading.table import Table
from forecast.data.reading.time_columns import part_of
from forecast.data.reading.timestamps import AmbiguousTime, read_timestamps
from forecast.data.values.cells import FloatArray
from forecast.data.values.findings import counted, quoted
from forecast.data.values.frequency import grid_frequency, rows_missing
from forecast.errors import UserError
from forecast.text.overrides import typed

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
# The parts of a time that may stand in columns of their own, as far as none lacks.
_CHAINS = ("year", "quarter"), ("year", "week"), ("year", "month", "day", "hour", "minute", "second")
_LARGEST = {"quarter": 4, "week": 53, "month": 12, "day": 31, "hour": 24, "minute": 59, "second": 59}
_HOURS = set(range(24)), set(range(1, 25))  # of a day, as columns count them
# Steps that people resample to, the finest first, in seconds.
_PLAIN_STEPS = {"s": 1, "5s": 5, "10s": 10, "15s": 15, "30s": 30, "min": 60, "2min": 120, "5min": 300, "10min": 600}
_PLAIN_STEPS |= {"15min": 900, "20min": 1_200, "30min": 1_800, "h": 3_600, "2h": 7_200, "3h": 10_800, "4h": 14_400}
_PLAIN_STEPS |= {"6h": 21_600, "12h": 43_200, "D": 86_400, "W-SUN": 604_800, "MS": 2_629_800, "QS": 7_889_400}
_COARSEST, _FEW = 12, 0.1  # times the usual step; share of steps without a row that a finer step is not worth
_STRAY = 0.01  # share of the rows off the usual grid: fewer are faults to mend
_REPEATS = 0.01  # share of the rows that may repeat one although the ids are known
_MOST_IDS, _MOST_COLUMNS, _FEW_ROWS = 1_000, 12, 10
FEW_VALUES, FEW_WORDS = 4, 12  # different ones, of columns that somebody plans
_STEADY = 0.9  # share of the rows that repeat the one before, of a price that moves in steps
_SAMPLE, _EXACT = 1_000, 1e-6  # rows that show likely copies; deviations that these may differ by

Names = tuple[str, ...]
Codes = npt.NDArray[np.int64]


# time


def likely_times(columns: Mapping[str, Sequence[str]]) -> list[Names]:
    """The columns, by some of their cells, that may hold the time: one, a date and a time of day, or parts."""
    rows = {name: [cell.strip(BLANKS) for cell in column] for name, column in columns.items()}
    cells = {name: [cell for cell in column if cell not in MISSING_SPELLINGS] for name, column in rows.items()}
    stamps_of = {name: stamps for name, column in cells.items() if (stamps := _stamps(name, column)) is not None}
    named = [name for name in stamps_of if part_of(name) not in ("year", "day", "hour") or not _all_digits(cells[name])]
    if not named and (parts := _parts(cells)):
        return [parts]
    times: list[Names] = []
    for name in named or stamps_of:
        days = bool((stamps_of[name] == stamps_of[name].normalize()).all())
        others = [other for other in columns if days and other not in stamps_of]
        clocks = [o for o in others if _is_clock(o, cells[o]) or _counts_hours(rows[name], rows[o])]
        times.append((name, *clocks[:1]))
    return times


def choose_time(columns: Mapping[Names, Mapping[str, Sequence[str]]]) -> list[Names]:
    """Of those that look like time: of equal ones the first; the one with a time for nearly each row."""
    different: dict[Names, pd.DatetimeIndex | None] = {}
    for names, cells in columns.items():
        try:
            stamps = read_timestamps(cells, missing=MISSING_SPELLINGS).stamps
        except UserError:  # ambiguous, too
            stamps = None
        if not any(stamps is not None and stamps.equals(other) for other in different.values()):
            different[names] = stamps
    known = {names: stamps for names, stamps in different.items() if stamps is not None}
    unique = [n for n, stamps in known.items() if np.mean(stamps.isna() | stamps.duplicated()) <= _FEW]
    return unique if len(unique) == 1 else list(different)


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


def _counts_hours(days: Sequence[str], cells: Sequence[str]) -> bool:
    """Whether cells count the hours of each day, 0 to 23 or 1 to 24, whatever their column is called."""
    if not _all_digits(cells) or set(map(float, cells)) not in _HOURS:
        return False
    hours = pd.Series(cells).groupby(list(days)).nunique()
    return bool((hours >= 23).mean() > _MOST)


def _parts(cells: Mapping[str, Sequence[str]]) -> Names:
    """The columns of year, month, day, ..., the coarsest first, as far as none lacks; none without a second."""
    named = [(part_of(name), name) for name in cells]
    own = {part: name for part, name in reversed(named) if part and _in_range(part, cells[name])}
    *pairs, chain = _CHAINS
    if "month" not in own and (pair := next((pair for pair in pairs if own.keys() >= {*pair}), None)):
        return tuple(own[part] for part in pair)
    lacking = next((place for place, part in enumerate(chain) if part not in own), len(chain))
    return tuple(own[part] for part in chain[:lacking]) if lacking > 1 else ()


def _in_range(part: str, cells: Sequence[str]) -> bool:
    if part == "month" and not _all_digits(cells):
        return bool(cells)
    bare = [cell.lstrip("QqWw") if part in ("quarter", "week") else cell for cell in cells]
    return bool(bare) and _all_digits(bare) and max(map(float, bare)) <= _LARGEST.get(part, 9999)


# series


class SeveralSeries(UserError):
    """Series below one another, of which nobody has said what they are. ids: the columns that tell them apart."""

    def __init__(self, message: str, ids: Sequence[str]) -> None:
        super().__init__(message)
        self.ids = tuple(ids)


def check_series(columns: Sequence[RawColumn], table: Table, where: Mapping[str, Cell] | None) -> None:
    """SeveralSeries for several, UserError for rows of one that repeat a time with other values.

    columns: of the table's rows, those that may tell series apart. where: what has chosen the rows.
    """
    stamps, by_name = table.timestamps, {column.name: column for column in columns}
    repeats, most = int(stamps.duplicated().sum()), (stamps.value_counts() > 1).mean() > MOST_MISSING
    groups = pd.DataFrame(table.values).groupby(stamps)
    equal = bool(repeats) and bool((groups.max().fillna(0) == groups.min().fillna(0)).all(axis=None))
    some = f"{repeats} of {len(stamps)} rows repeat{'s' * (repeats == 1)} a timestamp"
    ids = find_ids(columns, stamps) if most and not equal else find_parts(columns, table)
    if ids is not None:
        names, codes = ids
        key = typed("data.id_column", names[0] if len(names) == 1 else list(names))
        first = int((codes == np.bincount(codes).argmax()).argmax())
        example = {**(where or {}), **{name: _cell(by_name[name], first) for name in names}}
        drop = "" if repeats else f", or leave the column out with {typed('data.drop', list(names))}"
        raise SeveralSeries(
            f"{codes.max() + 1} series stand below one another{'' if repeats else ', it seems'}: "
            f"{f'{some}, and ' if repeats else ''}{' and '.join(map(quoted, names))} tell{'s' * (len(names) == 1)} "
            f"them apart. Read all as a panel with {key}, or "
            f"choose one, as {typed('data.where', example)}{drop}.",
            names if repeats else (),
        )
    if repeats and not equal:
        why = ", as several series below one another do, and no column tells them apart" if most else ""
        freq = grid_frequency(table.ordered()) if len(table.ordered()) >= 3 else None
        if freq is not None and rows_missing(table.ordered(), freq) == repeats:
            why = ", and as many times are missing: day and month may be exchanged, see data.time_format"
        raise UserError(
            f"{some} with other values{why}. Set data.duplicates=last where later rows correct earlier ones, mean or "
            "sum, or add a column with the name of the series."
        )


def find_ids(columns: Sequence[RawColumn], stamps: pd.DatetimeIndex) -> tuple[Sequence[str], Codes] | None:
    """The fewest columns of words, or of few whole numbers, that make the pairs of them and the time unique.

    With the number of each row's series (N,).
    """
    words_first = sorted(columns, key=lambda column: not column.words)
    known = {column.name: codes for column in words_first if (codes := _id_codes(column)) is not None}
    times = pd.factorize(stamps)[0]
    for names in (names for size in (1, 2, 3) for names in combinations([*known][:_MOST_COLUMNS], size)):
        codes = pd.factorize(pd.MultiIndex.from_arrays([known[name] for name in names]))[0]
        repeats = pd.Series(codes * (times.max() + 1) + times).duplicated().mean()
        if repeats <= _REPEATS and np.median(np.bincount(codes)) >= 3:
            return names, codes
    return None


def _id_codes(column: RawColumn) -> Codes | None:
    """(N,) a number for each different cell; None for a column that cannot tell series apart."""
    if "" in column.words or (not column.words and (column.numbers % 1 != 0).any()):
        return None
    codes = pd.factorize(column.codes if column.words else column.numbers)[0].astype(np.int64)
    most = len(codes) // 3 if column.words else min(_MOST_IDS, len(codes) // 3)  # numbers may be values
    return codes if 1 <= codes.max() < most else None


def _cell(column: RawColumn, row: int) -> Cell:
    cell = column.cells([row])[0]
    return cell if column.words else int(float(cell))


def find_parts(columns: Sequence[RawColumn], table: Table) -> tuple[Sequence[str], Codes] | None:
    """A column of words that changes only from one part of the rows to the next, or that tells levels apart."""
    for column in columns:
        codes = _id_codes(column) if column.words and column.codes.all() else None
        if codes is None or codes.max() >= _MOST_IDS or column.name in table.columns or part_of(column.name):
            continue
        groups = pd.DataFrame(table.values).groupby(codes)
        least, most = np.sort(groups.min().to_numpy(), axis=0), np.sort(groups.max().to_numpy(), axis=0)
        apart = (least[1:] - most[:-1] > groups.std().max().to_numpy()).all(axis=0)
        if apart.any() or np.count_nonzero(np.diff(codes)) == codes.max():
            return (column.name,), codes
    return None


def counted_steps(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns of whole numbers that count up by one within each value of a column of words."""
    digits = [name for name, cells in columns.items() if _all_digits(cells)]
    for name, words in product(digits, columns.keys() - digits):
        steps = pd.Series(list(map(float, columns[name]))).groupby(list(columns[words])).diff().dropna()
        if len(steps) > _MOST * len(columns[name]) and (steps == 1).all():
            return [name]
    return []


def counts_above_zero(values: FloatArray) -> bool:
    """Whether all values (N, C) are whole numbers above 0, none of them missing."""
    return bool((values > 0).all() and (values == np.rint(values)).all())  # NaN is neither


def check_even(stamps: pd.DatetimeIndex) -> None:
    """UserError for increasing timestamps (N,) on no grid, with the step to bring them to; none for a few faults."""
    steps = np.diff(stamps.to_numpy())
    if len(stamps) < _FEW_ROWS or np.count_nonzero(steps % np.median(steps)) <= max(2, _STRAY * len(steps)):
        return
    usual = pd.Timedelta(np.median(steps)).round("s")
    near = {step: size for step, size in _PLAIN_STEPS.items() if 0.75 <= size / usual.total_seconds() <= _COARSEST}
    empty = {step: (pd.Series(1, index=stamps).resample(step).count() == 0).mean() for step in near}
    fitting = [step for most in (_FEW, MOST_MISSING) for step, share in empty.items() if share <= most]
    if fitting:
        raise UserError(
            f"Rows with values are {usual.to_pytimedelta()} apart as a rule, at uneven times. For one step set "
            f"data.resample={fitting[0]} data.aggregate=mean (or sum, last)."
        )


# columns of no use


def useless_columns(
    columns: Sequence[str], values: FloatArray, kept: Collection[str], target: str | None
) -> dict[str, str]:
    """{column: why} for constants, even ramps and linear copies of another column, those in `kept` aside.

    values (N, C). Never the target; of its copies it is the one that stays. Empty where no other column is left.
    """
    names = sorted((name for name in columns if name not in kept), key=lambda name: name != target)
    matrix = values[:, [columns.index(name) for name in names]]
    deviations = np.nanstd(matrix, axis=0)
    reasons = {name: "is always the same" for name, moves in zip(names, deviations, strict=True) if moves == 0}
    scaled = (matrix - np.nanmean(matrix, axis=0)) / np.where(deviations > 0, deviations, 1.0)
    steps = np.diff(scaled, axis=0)
    even = np.flatnonzero((abs(steps - steps[:1]) < _EXACT * abs(steps[:1])).all(axis=0))
    reasons |= {names[place]: "is an even ramp" for place in even}
    some = np.nan_to_num(scaled[:: max(1, len(scaled) // _SAMPLE)])
    alike = abs(some.T @ some) > (1 - 1e-3) * np.outer(norms := np.linalg.norm(some, axis=0), norms)
    for first, other in zip(*np.nonzero(np.triu(alike, 1)), strict=True):
        line = np.sign(some[:, first] @ some[:, other]) * scaled[:, first]
        is_copy = np.allclose(scaled[:, other], line, rtol=0, atol=_EXACT, equal_nan=True)
        if is_copy and not {names[first], names[other]} & reasons.keys():
            reasons[names[other]] = f"is {quoted(names[first])} once more, or a line of it"
    reasons.pop(f"{target}", None)
    return reasons if len(reasons) < len(columns) else {}


def planned_columns(columns: Sequence[str], values: FloatArray, kept: Collection[str]) -> dict[str, str]:
    """{column: why} for those that somebody sets, as a promotion or a price."""
    reasons = {}
    for name, column in zip(columns, values.T, strict=True):
        known = column[np.isfinite(column)]
        counts = np.unique(known, return_counts=True)[1]
        if name in kept or len(known) < _FEW_ROWS * FEW_VALUES:
            continue
        if len(counts) <= FEW_VALUES:
            reasons[name] = f"holds {counted(len(counts), 'value')}"
        elif (np.diff(known) == 0).mean() >= _STEADY and counts.max() <= MOST_MISSING * len(known):
            reasons[name] = "moves in steps"
    return reasons
