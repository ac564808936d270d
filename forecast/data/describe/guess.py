"""The layout of a file whose writer is not here to be asked: each choice with its reason.

What several layouts read differently is refused, with the keys that choose.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest
from typing import cast

import numpy as np
import pandas as pd

from forecast.data.describe.columns import (
    FEW_WORDS,
    USUAL_NAMES,
    Names,
    check_even,
    check_series,
    choose_time,
    counted_steps,
    counts_above_zero,
    likely_times,
    planned_columns,
    useless_columns,
)
from forecast.data.gaps import MOST_MISSING
from forecast.data.reading.cells import read_columns, table_of
from forecast.data.reading.column_guess import AmbiguousStyle, guess_missing, guess_style, is_usual_code
from forecast.data.reading.csv_text import CsvText, guess_separator, valid_separator
from forecast.data.reading.layout import STEPS, USUAL, Cell, Layout, columns_named, within
from forecast.data.reading.numbers import NumberStyle
from forecast.data.reading.raw_columns import RawColumn
from forecast.data.reading.table import Table, TableSpec
from forecast.data.values.findings import Findings, quoted
from forecast.data.values.frequency import grid_frequency, rows_missing, stamps_on_grid
from forecast.errors import UserError
from forecast.text.overrides import hydra_value, typed
from forecast.text.terminal import listed

_SAMPLE_ROWS, _SAMPLE_CHARACTERS = 2_000, 1 << 20  # that show how separators, times and numbers are written
_MANY_ABSENT = 0.05  # of the rows: counts without a 0 then lack the rows of nothing
_CODES = {99, 999, 9999, 99999, 999999}  # marks are written so, with a sign or without; or in hundreds
_ID = re.compile(r"0\d+|\d+[eE]\d+", re.ASCII)  # a cell that another one may equal as a number alone

Given = Mapping[str, object]


@dataclass
class Guess:
    """A file, its first rows, and the layout found so far, with a line for each choice in it.

    given: what is typed, by the keys of data=csv. planned: columns that are not used and may be known in advance.
    """

    text: CsvText
    given: Given
    findings: Findings
    header: list[str] = field(default_factory=list)
    first_rows: list[list[str]] = field(default_factory=list)
    layout: Layout = USUAL
    reasons: list[str] = field(default_factory=list)
    planned: list[str] = field(default_factory=list)

    @property
    def has_ids(self) -> bool:
        """Whether the columns are named that tell several series apart."""
        return bool(self.given.get("id_column"))

    def set(self, reason: str, **settings: object) -> None:
        """Takes a choice."""
        self.layout = self.layout.changed(settings)
        self.reasons.append(reason)

    def spec(self) -> TableSpec:
        """What the layout reads."""
        return TableSpec.of(self.header, self.layout, str(self.text.path))


def settings_of(layout: Layout) -> dict[str, object]:
    """The keys of a layout that are not as usual."""
    pairs = {key.name: (getattr(layout, key.name), getattr(USUAL, key.name)) for key in fields(Layout)}
    return {key: list(now) if isinstance(now, tuple) else now for key, (now, usual) in pairs.items() if now != usual}


def open_file(guess: Guess) -> None:
    """Reads the first rows; UserError for a file that is no text, or empty."""
    guess.layout = USUAL.changed({key.name: guess.given[key.name] for key in fields(Layout) if key.name in guess.given})
    text = replace(guess.text, separator=valid_separator(guess.layout.separator))
    guess.text = text.verified(guess.findings, guess.layout.sheet)
    if "separator" not in guess.given and guess.text.table is None:
        separator = guess_separator(guess.text.whole().read(_SAMPLE_CHARACTERS))
        guess.text = replace(guess.text, separator=separator)
        if separator != ",":
            reason = f"data.separator: {separator!r} cuts the header and the rows alike"
            guess.set(reason, separator=r"\t" if separator == "\t" else separator)
    guess.header = guess.text.header((), guess.findings)
    guess.first_rows = guess.text.sample(_SAMPLE_ROWS)


def read_guessed(guess: Guess) -> Table:
    """The rows of a file as they stand there; UserError where several readings give different data."""
    by_column = zip_longest(guess.header, *guess.first_rows, fillvalue="")
    cells = {name: column for name, (_, *column) in zip(guess.header, by_column, strict=False)}
    times = _decide_time(guess, cells)
    guess.layout.check()
    guess.text.header(guess.layout.time_columns, guess.findings)
    if guess.text.table is None:
        sample = [RawColumn.of_cells(name, pd.Series(column, dtype=object)) for name, column in cells.items()]
    else:
        sample = [column for column in guess.text.table.columns if not column.is_time]
    _decide_style(guess, _numbers(guess, sample, times))
    words = {*times, *(guess.layout.where or ()), *columns_named({"id_column": guess.given.get("id_column")})}
    words |= {name for name in guess.header if any(map(_ID.fullmatch, cells[name]))}
    places = {place for place, name in enumerate(guess.header) if name in words}
    columns = read_columns(guess.text, guess.spec(), words=places)
    _decide_missing(guess, _numbers(guess, columns, times))
    table = table_of(guess.text, columns, guess.spec(), guess.findings)
    chosen = within(table.timestamps, guess.layout, guess.findings.path)
    table = table if chosen is None else table.take(chosen)
    others = [column for column in columns if column.name not in {*times, *guess.layout.drop}]
    if table.origin is not None:
        others = [column.take(table.origin) for column in others]
    return _decide_rows(guess, table, others)


def _decide_time(guess: Guess, cells: Mapping[str, Sequence[str]]) -> set[str]:
    """Finds the columns of the time in the first rows; returns all that look like time."""
    if "time_column" in guess.given:
        return {*guess.layout.time_columns}
    called = {name.strip().lower(): name for name in reversed(guess.header)}
    usual: list[Names] = [(called[name],) for name in USUAL_NAMES if name in called]  # whatever they hold
    is_known = bool(usual) and guess.layout.time_format is not None
    times = usual[:1] if is_known else likely_times(cells) or usual[:1]
    if not times and guess.layout.freq is not None:
        guess.set("data.time_column=null: no column holds timestamps", time_column=None)
        return set()
    if not times:
        times = [(step,) for step in counted_steps({name: column[:_SAMPLE_ROWS] for name, column in cells.items()})]
    if not times:
        some = ", ".join(map(quoted, guess.header[:12])) + (", ..." if len(guess.header) > 12 else "")
        raise UserError(
            f"No column of {some} holds timestamps. If the rows are steps that no calendar counts, set "
            f"data.time_column=null data.freq={STEPS}; else say when they were measured, as data.time_column=null "
            "data.freq=h data.start=2016-07-01."
        )
    rivals = choose_time({names: {name: cells[name] for name in names} for names in times})
    keys = [names[0] if len(names) == 1 else names for names in rivals]
    if len(rivals) > 1:
        some = " and ".join(" + ".join(map(quoted, names)) for names in rivals)
        choices = " or ".join(typed("data.time_column", key) for key in keys)
        raise UserError(f"The columns {some} look like time and differ. Set {choices}.")
    guess.layout = replace(guess.layout, time_column=keys[0])
    if keys[0] != USUAL.time_column:
        several = len(rivals[0]) > 1
        guess.reasons.append(f"time: columns {listed(rivals[0])}" if several else f"time: column {quoted(*rivals[0])}")
    return {name for names in times for name in names}


def _numbers(guess: Guess, columns: Sequence[RawColumn], times: set[str]) -> list[RawColumn]:
    """The columns that may hold numbers."""
    aside = {*times, *guess.layout.drop, *(guess.layout.where or ())}
    chosen = guess.layout.columns if guess.layout.columns is not None else guess.header
    return [column for column in columns if column.name in chosen and column.name not in aside]


def _decide_style(guess: Guess, columns: Sequence[RawColumn]) -> None:
    """Finds how numbers are written. UserError where two styles read all of them, as others."""
    if {"decimal", "thousands"} & set(guess.given):
        return
    style = guess_style(columns)
    if isinstance(style, AmbiguousStyle):
        left = [other for other in style.styles if other.decimal != ","]
        if guess.layout.separator != "," or len(left) != 1:  # where commas separate the cells, none stands in numbers
            raise UserError(f"{style}")
        choice = left[0]
    else:
        choice = style.style
    settings = NumberStyle().settings(choice)
    if settings:
        keys = {key.removeprefix("data."): value for key, value in settings.items()}
        written = " ".join(f"{key}={value!r}" for key, value in settings.items())
        guess.set(f"{written}: {quoted(style.cell)} in column {quoted(style.column)}", **keys)


def _decide_missing(guess: Guess, columns: Sequence[RawColumn]) -> None:
    """Takes words that mark missing values, and numbers where nothing else can be meant."""
    style, reasons = NumberStyle(guess.layout.decimal, guess.layout.thousands), dict[Cell, dict[str, str]]()
    for column in columns if "missing" not in guess.given else ():
        for mark, reason in guess_missing(column, style).items():
            if isinstance(mark, str) or is_usual_code(mark) or abs(mark) in _CODES or (mark % 100 == 0 and mark):
                reasons.setdefault(mark, {})[column.name] = f"column {quoted(column.name)}: {reason}"
    for mark in [mark for mark in reasons if not isinstance(mark, str)]:
        others = [column.numbers for column in columns if column.name not in reasons[mark]]
        if any((n == mark).any() and (n < mark).any() and (n > mark).any() for n in others):  # a value there
            del reasons[mark]
    if reasons:
        why = "; ".join(next(iter(of.values())) for of in reasons.values())
        guess.set(f"data.missing={list(reasons)}: {why}", missing=tuple(reasons))


def _decide_rows(guess: Guess, table: Table, columns: Sequence[RawColumn]) -> Table:
    """The table less columns of no use, where its rows are one even series, or several that are told apart.

    columns: of its rows, those beside the time. UserError for what nobody but the writer can choose.
    """
    given, layout = guess.given, guess.layout
    even = table
    if layout.time_columns:
        stamps, moved = stamps_on_grid(table.timestamps)
        even = replace(table, timestamps=stamps)
        if moved is not None:
            guess.findings.say(moved.note(len(stamps)))
    if not guess.has_ids and "duplicates" not in given:
        check_series(columns, even, layout.where)
    stamps, counts = even.ordered(), counts_above_zero(table.values)
    if len(stamps) >= 3 and not guess.has_ids and layout.resample is None:
        freq = grid_frequency(stamps)
        absent = 0 if freq is None else rows_missing(stamps, freq) or 0
        is_grid = freq is not None and absent <= MOST_MISSING * (absent + len(stamps))
        if not is_grid and (freq is None or not counts):
            check_even(even.take(np.flatnonzero(~np.isnan(table.values).all(axis=1))).ordered())
        elif is_grid and counts and absent > _MANY_ABSENT * (absent + len(stamps)) and "gaps" not in given:
            guess.set(
                f"data.gaps=zero: all values are whole numbers above 0, and {absent} rows are missing: a row of "
                "nothing was not written, it seems. If nobody counted then, set data.gaps=interpolate",
                gaps="zero",
            )
    return _without(guess, table, columns)


def _without(guess: Guess, table: Table, columns: Sequence[RawColumn]) -> Table:
    """The table without columns that say nothing, most of which is missing, or which somebody plans.

    What is typed stays.
    """
    names, layout, target = table.columns, guess.layout, cast(str | None, guess.given.get("target"))
    shares = np.isnan(table.values).mean(axis=0) if not (layout.columns or layout.resample) else np.zeros(len(names))
    many = {name: share for name, share in zip(names, shares, strict=True) if share > MOST_MISSING}
    bad = {name: f"lacks {share:.0%} of its values" for name, share in many.items()}
    bad = bad if len(bad) < len(names) else {}
    by_place = target is None and guess.given.get("features") in ("S", "MS")  # the target is the last column
    if not (by_place or {"columns", "where"} & set(guess.given)):
        kept = {*columns_named(guess.given), *bad} - {target}
        bad |= {} if guess.has_ids else useless_columns(names, table.values, kept, target)
        planned = {} if target is not None else planned_columns(names, table.values, {*kept, *bad})
        words = [column.name for column in columns if column.name not in kept and 2 <= len(column.words) <= FEW_WORDS]
        bad |= planned if len({*bad, *planned}) < len(names) else {}
        guess.planned += [*planned, *(name for name in words if name not in names)]
    if not bad:
        return table
    drop = (*layout.drop, *bad)
    why = ", ".join(f"{quoted(name)} {reason}" for name, reason in bad.items())
    guess.set(f"data.drop={hydra_value(list(drop))}: {why}", drop=drop)
    keep = [place for place, name in enumerate(names) if name not in bad]
    columns_kept, places = tuple(names[place] for place in keep), [table.places[place] for place in keep]
    return replace(table, columns=columns_kept, places=places, values=table.values[:, keep])
