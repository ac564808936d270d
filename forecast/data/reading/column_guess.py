"""What the columns of a file seem to be, with reasons."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from forecast.data.reading.numbers import STYLES, NumberStyle, as_typed, is_text, read_numbers
from forecast.data.reading.raw_columns import RawColumn
from forecast.data.values.cells import FloatArray
from forecast.data.values.findings import counted, quoted

# damaged: numbers, and some cells that are none. index: the row's number, no data.
Kind = Literal["numbers", "flags", "index", "empty", "text", "damaged"]

_INDEX_NAMES = {"index", "idx", "id", "no", "no.", "nr", "nr.", "#", "row", "rownames"}
_NAMELESS = re.compile(r"((unnamed: |column )\d+)?", re.ASCII)
_MARKS = {"m", "-", "--", "---", "?", ".", "..", "*", "missing", "nil", "void", "unknown", "n.a.", "nd", "n.d."}
_MOST_MARKS, _OFTEN, _MANY = 3, 3, 10  # different words; cells that hold one; different numbers beside them
_MOST_TEXT = 0.5  # share of the cells: beyond it a column holds words, below it some cells are damaged
_SAMPLE = 1_000  # different cells that tell whether a column is text
_DEFAULT = NumberStyle()


def column_kind(column: RawColumn, style: NumberStyle = _DEFAULT, *, first: bool = False) -> Kind:
    """The kind of a column whose numbers are written in a style; only the first of a file can be an index.

    index: counts 0, 1, 2 or 1, 2, 3 and has no name, or one that says so; without a name it may start again.
    """
    values, flags = read_numbers(column, style)
    if np.isnan(values).all():
        return "empty"
    if flags:
        return "flags"
    if _is_text(column, values):
        return "text"
    if np.isinf(values).any():
        return "damaged"
    return "index" if first and _counts_rows(column.name.strip().lower(), values) else "numbers"


class StyleGuess(NamedTuple):
    """The style of the numbers of a file; column and cell: where one shows it, that says no number in others."""

    style: NumberStyle
    column: str = ""
    cell: str = ""


@dataclass(frozen=True)
class AmbiguousStyle:
    """Two styles that read every number of a file, as different ones; cell: the first such, values: what it is."""

    styles: tuple[NumberStyle, NumberStyle]
    column: str
    cell: str
    values: tuple[float, float]

    @property
    def settings(self) -> tuple[dict[str, str | None], ...]:
        """The keys of the data group that choose each of the styles."""
        return tuple(_DEFAULT.settings(style) for style in self.styles)

    def __str__(self) -> str:
        first, second = map(as_typed, self.settings)
        return (
            f"column {quoted(self.column)}: {quoted(self.cell)} is {self.values[0]:.12g} with {first} and "
            f"{self.values[1]:.12g} with {second}, and no cell of the file says which. Set {first}, or {second}."
        )


def guess_style(columns: Sequence[RawColumn]) -> StyleGuess | AmbiguousStyle:
    """The first style that reads all columns but those of text; the default where it does, so that 1.234 has decimals,
    and where none does.

    One cell of 0,125 or 1234,5 or 12,5 shows a decimal comma, one of 1,234,567 or 1,234.5, or 12.5 beside 4,800, shows
    thousands.
    """
    columns = [column for column in columns if not _is_text(column, read_numbers(column, _DEFAULT).values)]
    if _misfit(columns, _DEFAULT) is None:
        return StyleGuess(_DEFAULT)
    misfits = {style: _misfit(columns, style) for style in STYLES}
    style, *rivals = [style for style in STYLES if misfits[style] is None] or [_DEFAULT]
    for column in columns:
        numbers = read_numbers(column, style).values
        for rival in rivals:
            others = read_numbers(column, rival).values
            for row in np.flatnonzero((numbers != others) & ~np.isnan(numbers))[:1]:
                values = float(numbers[row]), float(others[row])
                return AmbiguousStyle((style, rival), column.name, column.cells([row])[0], values)
    if misfits[style] is not None:
        return StyleGuess(_DEFAULT)
    place, row = max(cell for other, cell in misfits.items() if cell is not None and other.decimal != style.decimal)
    return StyleGuess(style, columns[place].name, columns[place].cells([row])[0])


def _misfit(columns: Sequence[RawColumn], style: NumberStyle) -> tuple[int, int] | None:
    """(place, row) of the first cell that is a number in other styles only."""
    for place, column in enumerate(columns):
        values = read_numbers(column, style).values
        for row in np.flatnonzero(np.isinf(values)).tolist():
            if not is_text(column.cells([row])[0]):
                return place, row
    return None


def guess_missing(column: RawColumn, style: NumberStyle = _DEFAULT) -> dict[str | float, str]:
    """Words and numbers that seem to mean a missing value, each with the reason.

    Words: known marks among numbers, and few others that come again and again. Numbers: what comes again and again
    as the least or the greatest, the only negative one, or farther from the others than these are apart; so far away a
    usual code, as -9999, is one however seldom it stands there.
    """
    read = read_numbers(column, style).values
    numbers = read[np.isfinite(read)]
    reasons: dict[str | float, str] = {
        word: f"{quoted(word)} stands in {count} of {counted(len(column), 'cell')}, numbers in {len(numbers)}"
        for word, count in _marks(_text_counts(column, read), read).items()
    }
    values, counts = np.unique(numbers, return_counts=True)
    if len(values) <= _MANY:
        return reasons
    usual = np.array([is_usual_code(value) for value in values.tolist()])
    others = values[~usual]
    for code, count in zip(values[usual].tolist(), counts[usual].tolist(), strict=True):
        if len(others) > _MANY and others[0] - code > others[-1] - others[0]:
            reasons.update([_as_mark(code, count, column, others[0], others[-1])])
            values, counts = values[values != code], counts[values != code]
    for place, others in ((0, values[1:]), (-1, values[:-1])):
        code, low, high = values[place], others[0], others[-1]
        far = max(low - code, code - high) > high - low
        if counts[place] >= _OFTEN and code != 0 and (far or code < 0 <= low):
            reasons.update([_as_mark(float(code), int(counts[place]), column, low, high)])
    return reasons


def is_usual_code(value: float) -> bool:
    """Whether programs write a number for a missing value: -999, -9999, -99.9."""
    return re.fullmatch(r"-(999+|99+\.9+)", f"{value:g}") is not None


def _as_mark(code: float, count: int, column: RawColumn, low: float, high: float) -> tuple[float, str]:
    """A number that means a missing value, whole where it is, and the reason: the others lie between low and high."""
    value = int(code) if code.is_integer() else code
    cells = counted(len(column), "cell")
    return value, f"{value} stands in {count} of {cells}, all other numbers lie between {low:g} and {high:g}"


def _is_text(column: RawColumn, values: FloatArray) -> bool:
    """Whether most cells are words, those aside that mark a missing value among numbers."""
    present = int(np.count_nonzero(~np.isnan(values)))
    if np.count_nonzero(np.isinf(values)) <= _MOST_TEXT * present:
        return False
    if len(column.words) > _SAMPLE:
        return bool(np.mean([is_text(word) for word in column.words[:_SAMPLE]]) > _MOST_TEXT)
    counts = _text_counts(column, values)
    marks = sum(_marks(counts, values).values())
    return sum(counts.values()) - marks > _MOST_TEXT * (present - marks)


def _text_counts(column: RawColumn, values: FloatArray) -> dict[str, int]:
    """How often each word stands in a column that is no number in any style."""
    codes, counts = np.unique(column.codes[np.isinf(values)], return_counts=True)
    words = [column.words[code - 1] for code in codes[:_SAMPLE].tolist()]
    return {word: count for word, count in zip(words, counts.tolist(), strict=False) if is_text(word)}


def _marks(counts: dict[str, int], values: FloatArray) -> dict[str, int]:
    """Words among numbers that seem to mark a missing value, and how often each stands there."""
    numbers = values[np.isfinite(values)]
    if not numbers.size:
        return {}
    known = {word: count for word, count in counts.items() if word.lower() in _MARKS}
    # what holds a digit, as <1, is a value that cannot be read
    others = {word: n for word, n in counts.items() if word not in known and not any(map(str.isdigit, word))}
    if len(others) <= _MOST_MARKS and len(np.unique(numbers)) >= _MANY:
        known |= {word: count for word, count in others.items() if count >= _OFTEN}
    return known


def _counts_rows(name: str, values: FloatArray) -> bool:
    nameless = _NAMELESS.fullmatch(name) is not None
    if values[0] not in (0, 1) or not (nameless or name in _INDEX_NAMES):
        return False
    # of several series below one another; a column of 0 and 1 is none
    again = (values[1:] == values[0]) & (nameless and values.max() > values[0] + 1)
    return bool(((np.diff(values) == 1) | again).all())
