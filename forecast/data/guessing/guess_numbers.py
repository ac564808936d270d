"""How a file of unknown origin writes its numbers, and what stands in it for no value."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from forecast.data.guessing.choices import Given, Guess, Reading, Undecided
from forecast.data.reading.column_guess import AmbiguousStyle, StyleGuess, guess_missing, guess_style, is_usual_code
from forecast.data.reading.layout import USUAL, Cell
from forecast.data.reading.numbers import NumberStyle
from forecast.data.reading.raw_columns import RawColumn
from forecast.data.reading.table import Table
from forecast.data.values.findings import counted, quoted

_OFTEN = 0.001  # share of the rows: rarer numbers are never taken for marks
_CODES = {1, 9, 99, 999, 9999, 99999, 999999}  # marks are written so, with a sign or without; or in hundreds


def decide_numbers(columns: Mapping[str, RawColumn], guess: Guess, given: Given) -> None:
    """Finds how numbers are written and what marks missing ones. Undecided for two styles."""
    layout = guess.layout
    aside = {*layout.time_columns, *layout.drop, *(layout.where or ())}
    numbers = [column for name, column in columns.items() if name not in aside]
    if layout.columns is not None:
        numbers = [column for column in numbers if column.name in layout.columns]
    if "decimal" not in given and "thousands" not in given:
        style = guess_style(numbers)
        if isinstance(style, AmbiguousStyle) and layout.separator == ",":
            left = [other for other in style.styles if other.decimal != ","]  # where commas separate the cells
            style = StyleGuess(left[0], ((style.column, style.cell),)) if len(left) == 1 else style
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
    if "missing" not in given:
        _decide_missing(numbers, guess)


def style_reason(guess: StyleGuess) -> str:
    """The keys of a style, and the cells that show it."""
    settings = NumberStyle().settings(guess.style)
    shown = "; ".join(f"{quoted(cell)} in column {quoted(name)}" for name, cell in guess.evidence)
    return f"{' '.join(f'{key}={value!r}' for key, value in settings.items())}: {shown}"


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


def mark_missing(table: Table, guess: Guess, given: Given) -> Table:
    """The table of a plain file, less the numbers that mark missing values."""
    if "missing" in given:
        return table
    columns = [_plain_column(name, values) for name, values in zip(table.columns, table.values.T, strict=True)]
    _decide_missing(columns, guess)
    for mark in guess.layout.missing:
        table.values[table.values == mark] = np.nan
    return table


def _plain_column(name: str, values: npt.NDArray[np.float64]) -> RawColumn:
    rows = len(values)
    decimals, commas, codes = np.full(rows, -1, np.int8), np.zeros(rows, np.bool_), np.zeros(rows, np.int32)
    return RawColumn(name, values, decimals, commas, codes, [])
