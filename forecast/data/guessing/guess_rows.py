"""What a table's rows seem to be: several series below one another, repeats, an irregular series, a column of gaps.

What is chosen, and why; and the readings among which nobody but the writer of a file can choose.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.tseries.frequencies import to_offset

from forecast.data.gaps import MOST_MISSING
from forecast.data.reading.layout import USUAL, Cell, Layout
from forecast.data.reading.raw_columns import RawColumn
from forecast.data.reading.rows import Rows, merged, resampled
from forecast.data.reading.table import Table
from forecast.data.values.cells import FloatArray
from forecast.data.values.findings import counted, quoted
from forecast.data.values.frequency import grid_frequency, infer_frequency, rows_missing, stamps_on_grid
from forecast.errors import UserError, closest
from forecast.text.overrides import hydra_value, typed
from forecast.text.terminal import listed

# Steps that people resample to, the finest first.
PLAIN_STEPS = (
    *("s", "5s", "10s", "15s", "30s", "min", "2min", "5min", "10min", "15min", "20min", "30min"),
    *("h", "2h", "3h", "4h", "6h", "12h", "D", "W-SUN", "MS", "QS", "YS"),
)
_COARSEST = 12  # times the usual step: beyond it something else is wrong with the file
_FEW, _COARSER = 0.1, 6  # missing rows that are worth a coarser step, so many times the usual one
_STRAY = 0.01  # share of the rows off the usual grid: fewer are faults to mend
_REPEATS = 0.01  # share of the rows that may repeat one although the ids are known
NEARLY_ALL = 0.9  # of the rows
_MOST_IDS, _MOST_COLUMNS, _ROWS_OF_ONE = 1_000, 12, 10
_EXAMPLES = 3  # of series, that are shown

Codes = npt.NDArray[np.int64]
Given = Mapping[str, object]


class Reading(NamedTuple):
    """One way to read a file: what it is, and the keys of the layout that choose it."""

    description: str
    settings: Given


class Undecided(UserError):
    """Several readings of a file give different data.

    ids: the columns that tell series below one another apart, which can also be read together, as a panel. shortest:
    the rows of the shortest of these.
    """

    def __init__(
        self, message: str, readings: Sequence[Reading], *, ids: Sequence[str] = (), shortest: int = 0
    ) -> None:
        super().__init__(message)
        self.readings, self.ids, self.shortest = readings, tuple(ids), shortest


@dataclass
class Guess:
    """A layout, and a line for each choice in it.

    kept: columns that stay although they say nothing; None where all do. target: the column to forecast,
    if one is named.
    """

    layout: Layout
    kept: Collection[str] | None = None
    target: str | None = None
    ids: Sequence[str] = ()
    reasons: list[str] = field(default_factory=list)

    def set(self, reason: str, **settings: object) -> None:
        """Takes a choice."""
        self.layout = self.layout.changed(settings)
        self.reasons.append(reason)


def settings_of(layout: Layout) -> dict[str, object]:
    """The keys of a layout that are not as usual."""
    pairs = {key.name: (getattr(layout, key.name), getattr(USUAL, key.name)) for key in fields(Layout)}
    return {key: list(now) if isinstance(now, tuple) else now for key, (now, usual) in pairs.items() if now != usual}


class Ids(NamedTuple):
    """The columns that tell series apart, the cells of the first of them, how many series there are, and the rows of
    the shortest.
    """

    columns: tuple[str, ...]
    examples: Sequence[dict[str, Cell]]
    series: int
    shortest: int


def decided_rows(table: Table, columns: Sequence[RawColumn], guess: Guess, given: Given) -> Table:
    """The table less columns of nothing but gaps; the guess learns how its rows become one series.

    columns: of its rows, those that may tell several series apart. Undecided where it holds several.
    """
    stamps = table.timestamps
    if stamps.hasnans or not len(stamps):
        return table
    stamps, _ = stamps_on_grid(stamps) if guess.layout.time_columns else (stamps, None)
    _decide_series(replace(table, timestamps=stamps), columns, guess, given)
    rows = merged(Rows(stamps, table.values), guess.layout.duplicates)
    if not {"resample", "aggregate"} & set(given) and not rows.timestamps.duplicated().any():
        coarser = find_resampling(rows.timestamps, rows.timestamps[np.flatnonzero(~np.isnan(rows.values).all(axis=1))])
        freq = None if coarser is None else grid_frequency(rows.timestamps)
        if freq is not None and counts_above_zero(rows.values) and "gaps" not in given:
            guess.set("data.gaps=zero: whole numbers above 0, with most rows missing", gaps="zero")
        elif coarser is not None:
            freq, reason = coarser
            guess.set(f"data.resample={freq} data.aggregate=mean: {reason}", resample=freq, aggregate="mean")
            rows = resampled(rows, freq, "mean")
    return _without_gaps(table, rows, guess)


def _decide_series(table: Table, columns: Sequence[RawColumn], guess: Guess, given: Given) -> None:
    """Refuses several series below one another; of one, repeated rows become their mean."""
    stamps = table.timestamps
    repeats = int(stamps.duplicated().sum())
    if "duplicates" in given:
        return
    stacked = looks_stacked(stamps) and not repeats_are_equal(table)
    ids = (
        named_ids(columns, guess.ids, stamps) if guess.ids else (find_ids if stacked else find_blocks)(columns, stamps)
    )
    some = f"{repeats} of {len(stamps)} rows repeat{'s' * (repeats == 1)} a timestamp"
    if ids is not None:
        names = " and ".join(map(quoted, ids.columns))
        chosen = [{**(USUAL.changed(given).where or {}), **example} for example in ids.examples]
        raise Undecided(
            f"{ids.series} series stand below one another: {some}, and {names} tell{'s' * (len(ids.columns) == 1)} "
            f'them apart. Choose one with "data.where={hydra_value(chosen[0])}", or read all as a panel with '
            f"{typed('data.id_column', ids.columns[0] if len(ids.columns) == 1 else list(ids.columns))}.",
            [
                Reading(", ".join(map(str, example.values())), {"where": where})
                for example, where in zip(ids.examples, chosen, strict=True)
            ],
            ids=ids.columns,
            shortest=ids.shortest,
        )
    if stacked:
        raise Undecided(
            f"{some}, as several series below one another do, and no column tells them apart. Set data.duplicates=mean "
            "or sum, or add a column with the name of the series.",
            [Reading(f"the {how} of all rows of a time", {"duplicates": how}) for how in ("mean", "sum")],
        )
    if repeats:
        guess.set(f"data.duplicates=mean: {some}", duplicates="mean")


def _without_gaps(table: Table, rows: Rows, guess: Guess) -> Table:
    """The table without columns that say nothing, or in which no gap rule could fill enough; named ones stay."""
    shares = {} if guess.layout.columns is not None else mostly_missing(table.columns, rows)
    bad = {name: f"lacks {share:.0%} of its values" for name, share in shares.items()}
    if guess.kept is not None:
        bad |= {name: why for name, why in saying_nothing(table, guess.kept, guess.target).items() if name not in bad}
    if not bad:
        return table
    drop = (*guess.layout.drop, *bad)
    why = ", ".join(f"{quoted(name)} {why}" for name, why in bad.items())
    guess.set(f"data.drop={hydra_value(list(drop))}: {why}", drop=drop)
    keep = [place for place, name in enumerate(table.columns) if name not in bad]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in keep),
        places=[table.places[place] for place in keep],
        values=table.values[:, keep],
    )


def saying_nothing(table: Table, kept: Collection[str], target: str | None) -> dict[str, str]:
    """{column: why} for constants, numbers of the rows and copies of another column, those in `kept` aside.

    Never the target; of its copies it is the one that stays. Empty where no other column is left.
    """
    reasons: dict[str, str] = {}
    first: dict[bytes, str] = {}
    columns = [pair for pair in zip(table.columns, table.values.T, strict=True) if pair[0] not in kept]
    for name, column in sorted(columns, key=lambda pair: pair[0] != target):
        known = column[~np.isnan(column)]
        key = hashlib.sha256(np.where(np.isnan(column), np.nan, column).tobytes()).digest()
        if len(known) and (known == known[0]).all():
            why = f"is always {known[0]:g}"
        elif column[0] in (0, 1) and (np.diff(column) == 1).all():
            why = "counts the rows"
        elif (twin := first.setdefault(key, name)) != name:
            why = f"is {quoted(twin)} once more"
        else:
            continue
        if name != target:
            reasons[name] = why
    return reasons if len(reasons) < len(table.columns) else {}


def counts_above_zero(values: FloatArray) -> bool:
    """Whether all values (N, C) are whole numbers above 0, none of them missing."""
    return bool((values > 0).all() and (values == np.rint(values)).all())  # NaN is neither


def looks_stacked(stamps: pd.DatetimeIndex) -> bool:
    """Whether most timestamps (N,) stand in several rows, or nearly all rows repeat one: series of several eras."""
    counts = stamps.value_counts()
    most = len(counts) > 0 and bool((counts > 1).mean() > MOST_MISSING)
    return most or len(stamps) - len(counts) > NEARLY_ALL * len(stamps)


def repeats_are_equal(table: Table) -> bool:
    """Whether all rows of one timestamp hold the same values."""
    groups = pd.DataFrame(table.values).groupby(table.timestamps)
    return bool((groups.max().fillna(0) == groups.min().fillna(0)).all(axis=None))


def find_ids(columns: Sequence[RawColumn], stamps: pd.DatetimeIndex) -> Ids | None:
    """The fewest columns of words, or of few whole numbers, that make the pairs of them and the time unique."""
    known = {column.name: codes for column in columns if (codes := _id_codes(column)) is not None}
    by_name = {column.name: column for column in columns}
    words_first = sorted(known, key=lambda name: not by_name[name].words)[:_MOST_COLUMNS]
    times = pd.factorize(stamps)[0]
    for size in (1, 2, 3):
        for names in combinations(words_first, size):
            groups = pd.factorize(pd.MultiIndex.from_arrays([known[name] for name in names]))[0]
            pairs = groups * (times.max() + 1) + times
            if pd.Series(pairs).duplicated().mean() > _REPEATS:
                continue
            if (ids := _ids(by_name, names, groups)) is not None:
                return ids
    return None


def named_ids(columns: Sequence[RawColumn], names: Sequence[str], stamps: pd.DatetimeIndex) -> Ids:
    """The series that some columns tell apart. UserError where they are none of the file, or tell none apart."""
    by_name = {column.name: column for column in columns}
    for name in names:
        if name not in by_name:
            raise UserError(
                f"There is no column {quoted(name)} (data.id_column) among {listed(by_name)}.{closest(name, by_name)} "
                "Name one of them."
            )
    codes = [pd.factorize(np.array(by_name[name].cells(range(len(stamps))), dtype=object))[0] for name in names]
    groups = pd.factorize(pd.MultiIndex.from_arrays(codes))[0]
    ids = _ids(by_name, names, groups)
    if ids is None:
        raise UserError(
            f"data.id_column={hydra_value(list(names))} tells no series of 3 rows or more apart. Name another column, "
            "or leave it out."
        )
    return ids


def _ids(by_name: Mapping[str, RawColumn], names: Sequence[str], groups: Codes) -> Ids | None:
    """The series of rows in groups (N,), of which some of the longest are examples; None for one, or too short."""
    counts = pd.Series(groups).value_counts(sort=False).sort_index()
    if len(counts) < 2 or counts.median() < 3:
        return None
    largest = counts.sort_values(ascending=False, kind="stable").index[:_EXAMPLES]
    rows = [int((groups == group).argmax()) for group in largest]
    examples = [{name: _value(by_name[name], row) for name in names} for row in rows]
    return Ids(tuple(names), examples, len(counts), int(counts.min()))


def find_blocks(columns: Sequence[RawColumn], stamps: pd.DatetimeIndex) -> Ids | None:
    """The column of words that is constant within each of several stretches of rows over the same time."""
    for column in columns:
        codes = column.codes
        kinds = len(np.unique(codes))
        if not column.words or not 2 <= kinds <= _MOST_IDS or kinds * 3 > len(codes):
            continue
        if np.count_nonzero(np.diff(codes)) != kinds - 1:
            continue
        spans = pd.Series(stamps).groupby(codes).agg(lambda times: times.max() - times.min())
        if spans.sum() > 1.5 * (stamps.max() - stamps.min()):
            starts = np.flatnonzero(np.diff(codes, prepend=-1))
            examples = [{column.name: _value(column, row)} for row in starts[:3].tolist()]
            return Ids((column.name,), examples, kinds, int(pd.Series(codes).value_counts().min()))
    return None


def find_resampling(stamps: pd.DatetimeIndex, valued: pd.DatetimeIndex) -> tuple[str, str] | None:
    """(frequency, reason) for increasing timestamps (N,) that are of no frequency, not even with gaps.

    valued: those of rows with a value; the others say nothing of how often something was measured.
    """
    if len(valued) < _ROWS_OF_ONE or infer_frequency(stamps) is not None:
        return None
    freq = grid_frequency(stamps)
    missing = 0 if freq is None else rows_missing(stamps, freq) or 0
    if freq is not None and missing / (missing + len(stamps)) <= MOST_MISSING:
        return None
    steps, own = (np.diff(t.to_numpy().astype("datetime64[ns]")).astype(np.int64) for t in (stamps, valued))
    usual = int(np.median(steps))
    if np.count_nonzero(steps % usual) <= max(2, _STRAY * len(steps)):  # holes, or a few faults to mend
        return None
    usual = int(np.median(own))
    seconds = [_seconds(step) for step in PLAIN_STEPS]
    nearest = int(np.argmin([abs(np.log(usual / 1e9 / size)) for size in seconds]))
    parts = zip(("day", "hour", "minute", "second"), pd.Timedelta(usual).round("s").components, strict=False)
    apart = " ".join(counted(count, unit) for unit, count in parts if count) or f"{usual / 1e9:g} seconds"
    alike = f"rows with values are {apart} apart as a rule, but at no fixed times"
    steps_tried = [step for step in PLAIN_STEPS[nearest:] if _seconds(step) <= _COARSEST * usual / 1e9]
    empty = {step: float((pd.Series(1, index=valued).resample(step).count() == 0).mean()) for step in steps_tried}
    near = {step: share for step, share in empty.items() if _seconds(step) <= _COARSER * usual / 1e9 and share <= _FEW}
    step = next(iter(near), None) or next((step for step, share in empty.items() if share <= MOST_MISSING), None)
    if step is None:
        return None
    finer = PLAIN_STEPS[nearest]
    return step, alike + ("" if step == finer else f"; {empty[finer]:.0%} of the rows of {finer} would be missing")


def mostly_missing(columns: Sequence[str], rows: Rows) -> dict[str, float]:
    """{column: share of its rows without a value} for those of which no gap rule could fill enough."""
    stamps, values = rows.timestamps, rows.values
    count, missing = len(values), np.isnan(values).sum(axis=0)
    freq = None
    if count >= 3 and not stamps.duplicated().any():
        freq = infer_frequency(stamps) or grid_frequency(stamps)
    absent = 0 if freq is None else rows_missing(stamps, freq) or 0
    if absent > MOST_MISSING * (count + absent):
        absent = 0
    shares = np.maximum(missing / max(count, 1), (missing + absent) / max(count + absent, 1))
    sound = [not np.isinf(column).any() for column in values.T]
    bad = {
        name: float(share)
        for name, share, fine in zip(columns, shares, sound, strict=True)
        if fine and share > MOST_MISSING
    }
    return {} if len(bad) == len(columns) else bad


def _id_codes(column: RawColumn) -> Codes | None:
    """(N,) a number for each different cell; None for a column that cannot tell series apart."""
    if column.words:
        codes = column.codes.astype(np.int64)
        if (column.codes == 0).mean() > MOST_MISSING:
            return None
        if (column.codes == 0).any():
            return None
    else:
        if (column.numbers % 1 != 0).any():
            return None
        codes = pd.factorize(column.numbers)[0].astype(np.int64)
    most = len(codes) if len(column.words) else _MOST_IDS  # numbers may be values
    return codes if 2 <= len(np.unique(codes)) <= min(most, len(codes) // 3) else None


def _value(column: RawColumn, row: int) -> Cell:
    if column.codes[row]:
        return str(column.words[column.codes[row] - 1])
    value = float(column.numbers[row])
    return int(value) if value.is_integer() else value


def _seconds(step: str) -> float:
    start = pd.Timestamp("2001-01-01")
    offset = to_offset(step)
    assert offset is not None
    return float((start + 4 * offset - start).total_seconds() / 4)
