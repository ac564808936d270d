"""The layout of a file whose writer is not here to be asked: each choice with its reason, or the choices there are.

How it writes its numbers, and what stands for no value, is found here too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.data.frame import ExchangedDays, check_days
from forecast.data.guessing.guess_rows import Given, Guess, Reading, Undecided, decided_rows
from forecast.data.guessing.guess_time import USUAL_NAMES, Names, choose_time, likely_times
from forecast.data.reading.cells import read_columns, table_of
from forecast.data.reading.column_guess import (
    AmbiguousStyle,
    StyleGuess,
    guess_missing,
    guess_style,
    is_usual_code,
)
from forecast.data.reading.csv_text import CsvText, guess_separator, valid_separator
from forecast.data.reading.layout import STEPS, USUAL, Cell, Layout, columns_named
from forecast.data.reading.numbers import NumberStyle
from forecast.data.reading.raw_columns import RawColumn
from forecast.data.reading.rows import within
from forecast.data.reading.table import Table, TableSpec
from forecast.data.reading.timestamps import AmbiguousTime
from forecast.data.values.findings import Findings, Gaps, counted, quoted
from forecast.text.terminal import listed

_SAMPLE_ROWS, _SAMPLE_CHARACTERS = 1_000, 1 << 20  # from which separator and time columns are guessed
_OFTEN = 0.001  # share of the rows: rarer numbers are never taken for marks
_CODES = {1, 9, 99, 999, 9999, 99999, 999999}  # marks are written so, with a sign or without; or in hundreds


@dataclass
class Opened:
    """A file as it was read once: its header, some of its rows, and how many there are, once they are read."""

    text: CsvText
    header: list[str]
    first_rows: list[list[str]]
    rows: int = 0

    @property
    def kind(self) -> str:
        """What the file is, if it is no text."""
        return "" if self.text.table is None else self.text.table.kind

    def column(self, place: int) -> list[str]:
        """The cells of a column in the first rows."""
        return [row[place] for row in self.first_rows if place < len(row)]


def open_file(path: str, given: Given, findings: Findings) -> Opened:
    """The file and its first rows; UserError for one that is no text, or empty."""
    layout = USUAL.changed(given)
    text = CsvText(Path(path), valid_separator(layout.separator or ",")).verified(findings, layout.sheet)
    text.check_types(columns_named(given))
    if given.get("separator") is None and text.table is None:
        text = replace(text, separator=guess_separator(text.whole().read(_SAMPLE_CHARACTERS)))
    header = text.header((), Findings(path, strict=False))
    rows = text.sample(_SAMPLE_ROWS)
    return Opened(text, header, rows, len(rows))


def read_guessed(opened: Opened, guess: Guess, given: Given, findings: Findings) -> tuple[Table, TableSpec]:
    """The table of a file, before its rows are one series, and the layout by which it is one.

    given: keys of the layout that are kept. Undecided where several readings give different data; UserError.
    """
    if "separator" not in given and opened.text.separator != ",":
        guess.reasons.append(f"data.separator: {opened.text.separator!r} cuts the header and the rows alike")
    candidates = _candidates(opened, given, guess)
    _decide_style(opened, candidates, guess, given)
    raw = _columns(opened, candidates, guess.layout)
    columns = {column.name: column for column in raw}
    _decide_time(columns, candidates, guess, given)
    guess.layout.check()
    opened.text.header(guess.layout.time_columns, findings)
    if "missing" not in given:
        _decide_missing(_number_columns(raw, guess.layout), guess)
    spec = TableSpec.of(opened.header, guess.layout, str(opened.text.path), gaps="mask")
    try:
        table = table_of(opened.text, raw, spec, findings)
    except AmbiguousTime as error:
        readings = [
            Reading(f"times as {value}", {key.removeprefix("data."): value})
            for settings in error.candidates
            for key, value in settings.items()
        ]
        raise Undecided(str(error), readings) from error
    aside = {*guess.layout.time_columns, *guess.layout.drop}
    ids = [column for column in raw if column.name not in aside]
    if table.origin is not None:
        ids = [column.take(table.origin) for column in ids]
    return _finished(opened, table, ids, guess, given)


def _finished(
    opened: Opened, table: Table, ids: Sequence[RawColumn], guess: Guess, given: Given
) -> tuple[Table, TableSpec]:
    chosen = within(table.timestamps, guess.layout, str(opened.text.path))
    if chosen is not None:
        table, ids = table.take(chosen), [column.take(chosen) for column in ids]
    try:
        check_days(table, guess.layout)
    except ExchangedDays as error:
        if error.time_format is None:
            raise
        reading = Reading("day and month exchanged where the day is at most 12", {"time_format": error.time_format})
        raise Undecided(str(error), [reading]) from error
    table = decided_rows(table, ids, guess, given)
    gaps: Gaps = "zero" if guess.layout.gaps == "zero" else "mask"
    return table, TableSpec.of(opened.header, guess.layout, str(opened.text.path), gaps=gaps)


def _columns(opened: Opened, candidates: Sequence[Names], layout: Layout) -> list[RawColumn]:
    """All cells of a file, those that may be times as they are written."""
    time = _key(candidates[0]) if len(candidates) == 1 else None
    layout = replace(layout, time_column=time, freq=None, start=None)
    spec = TableSpec.of(opened.header, layout, str(opened.text.path), gaps="mask")
    names = [*(layout.where or ()), *(name for names in candidates for name in names)]
    columns = read_columns(opened.text, spec, words={opened.header.index(name) for name in names})
    opened.rows = len(columns[0])
    return columns


# time


def _candidates(opened: Opened, given: Given, guess: Guess) -> list[Names]:
    """The columns that may hold the time; none where the file is told to have none."""
    if "time_column" in given:
        names = guess.layout.time_columns
        if names:
            opened.text.header(names, Findings(str(opened.text.path), strict=False))
        return [names] if names else []
    sample = {name: opened.column(place) for place, name in enumerate(opened.header)}
    called = {name.strip().lower(): name for name in reversed(opened.header)}
    usual = next((called[name] for name in USUAL_NAMES if name in called), None)  # whatever it holds
    times = [] if usual and guess.layout.time_format is not None else likely_times(sample)
    if not times and usual is not None:
        times = [(usual,)]
    if times:
        return times
    if guess.layout.freq is not None:
        guess.set("data.time_column=null: no column holds timestamps", time_column=None)
        return []
    some = ", ".join(quoted(name) for name in opened.header[:12]) + (", ..." if len(opened.header) > 12 else "")
    raise Undecided(
        f"No column of {some} holds timestamps. Say when the rows were measured, or that they are steps.",
        [
            Reading("steps that no calendar counts", {"time_column": None, "freq": STEPS}),
            Reading(
                "a row an hour from 2016-07-01 on; put in your own",
                {"time_column": None, "freq": "h", "start": "2016-07-01"},
            ),
        ],
    )


def _decide_time(columns: Mapping[str, RawColumn], candidates: Sequence[Names], guess: Guess, given: Given) -> None:
    if "time_column" in given or not candidates:
        return
    if len(candidates) == 1:
        guess.layout = replace(guess.layout, time_column=_key(candidates[0]))
        _say_time(guess, candidates[0], given)
        return
    every = range(len(next(iter(columns.values()))))
    cells = {names: {name: columns[name].cells(every) for name in names} for names in candidates}
    choice = choose_time(cells)
    if choice.columns is None:
        some = " and ".join(" + ".join(map(quoted, names)) for names in choice.rivals)
        raise Undecided(
            f"The columns {some} look like time and differ. Choose one with data.time_column=NAME.",
            [Reading(f"time from {' + '.join(names)}", {"time_column": _key(names)}) for names in choice.rivals],
        )
    guess.set(f"time: {_column_words(choice.columns)}: {choice.reason}", time_column=_key(choice.columns))


def _say_time(guess: Guess, names: Names, given: Given) -> None:
    guess.layout = replace(guess.layout, time_column=_key(names))
    if "time_column" not in given and names != (USUAL.time_column,):
        guess.reasons.append(f"time: {_column_words(names)}")


def _column_words(names: Names) -> str:
    return f"column {quoted(names[0])}" if len(names) == 1 else f"columns {listed(names)}"


def _key(names: Names) -> str | Names:
    return names[0] if len(names) == 1 else names


def _number_columns(columns: Sequence[RawColumn], layout: Layout) -> list[RawColumn]:
    """Those that may hold numbers of the series."""
    aside = {*layout.time_columns, *layout.drop, *(layout.where or ())}
    chosen = [column for column in columns if column.name not in aside]
    return [column for column in chosen if layout.columns is None or column.name in layout.columns]


def _decide_style(opened: Opened, candidates: Sequence[Names], guess: Guess, given: Given) -> None:
    """Finds in some rows how numbers are written. Undecided for two ways."""
    if "decimal" in given or "thousands" in given:
        return
    layout = replace(guess.layout, time_column=[name for names in candidates for name in names])
    if opened.text.table is not None:
        sample = [column for column in opened.text.table.columns if not column.is_time]
    else:
        sample = [
            RawColumn.of_cells(name, pd.Series(opened.column(place), dtype=object))
            for place, name in enumerate(opened.header)
        ]
    style = guess_style(_number_columns(sample, layout))
    if isinstance(style, AmbiguousStyle) and layout.separator == ",":
        left = [other for other in style.styles if other.decimal != ","]  # where commas separate the cells
        style = StyleGuess(left[0], style.column, style.cell) if len(left) == 1 else style
    if isinstance(style, AmbiguousStyle):
        keys = [{key.removeprefix("data."): value for key, value in choice.items()} for choice in style.settings]
        keys = [choice or {"decimal": USUAL.decimal} for choice in keys]
        raise Undecided(
            f"{str(style)[:1].upper()}{str(style)[1:]}",
            [
                Reading(f"{quoted(style.cell)} is {value:.12g}", choice)
                for value, choice in zip(style.values, keys, strict=True)
            ],
        )
    settings = {key.removeprefix("data."): value for key, value in NumberStyle().settings(style.style).items()}
    if settings:
        guess.set(style_reason(style), **settings)


def style_reason(guess: StyleGuess) -> str:
    """The keys of a style, and the cell that shows it."""
    settings = NumberStyle().settings(guess.style)
    keys = " ".join(f"{key}={value!r}" for key, value in settings.items())
    return f"{keys}: {quoted(guess.cell)} in column {quoted(guess.column)}"


def _decide_missing(columns: Sequence[RawColumn], guess: Guess) -> None:
    """Takes words that mark missing values, and numbers where nothing else can be meant."""
    style = NumberStyle(guess.layout.decimal, guess.layout.thousands)
    reasons_of: dict[Cell, list[tuple[str, str]]] = {}
    for column in columns:
        for mark, reason in guess_missing(column, style).items():
            if isinstance(mark, str) or _is_code(mark, column):
                reasons_of.setdefault(mark, []).append((column.name, reason))
    marks = [mark for mark in reasons_of if isinstance(mark, str) or not _is_value(mark, columns, reasons_of[mark])]
    if marks:
        reasons = [f"column {quoted(name)}: {reason}" for mark in marks for name, reason in reasons_of[mark][:1]]
        more = sum(len(reasons_of[mark]) - 1 for mark in marks)
        also = f"; in {counted(more, 'other column')} too" if more else ""
        guess.set(f"data.missing={marks}: {'; '.join(reasons)}{also}", missing=tuple(marks))


def _is_code(mark: float, column: RawColumn) -> bool:
    if is_usual_code(mark):
        return True
    size = abs(mark)
    plain = size in _CODES or (size >= 100 and size % 100 == 0)
    return plain and int(np.count_nonzero(column.numbers == mark)) > _OFTEN * len(column)


def _is_value(mark: float, columns: Sequence[RawColumn], reasons: Sequence[tuple[str, str]]) -> bool:
    """Whether a number lies among those of a column that it does not mark."""
    names = {name for name, _ in reasons}
    others = (column.numbers for column in columns if column.name not in names)
    return any(bool((n == mark).any() and (n < mark).any() and (n > mark).any()) for n in others)
