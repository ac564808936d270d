"""What the columns of a file seem to be: their kind, the style of their numbers, their missing marks; with reasons."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from forecast.data.reading.cell_faults import MOST_TEXT
from forecast.data.reading.numbers import (
    STYLE_FAULTS,
    STYLES,
    Numbers,
    NumberStyle,
    as_typed,
    in_threes,
    read_numbers,
    shapes_of,
)
from forecast.data.reading.raw_columns import RawColumn
from forecast.data.values.findings import counted, quoted

# damaged: numbers, and some cells that are none. index: the row's number, no data.
Kind = Literal["numbers", "flags", "index", "empty", "text", "damaged"]

_INDEX_NAMES = {"index", "idx", "id", "no", "no.", "nr", "nr.", "#", "row", "rownames"}
_NAMELESS = re.compile(r"((unnamed: |column )\d+)?", re.ASCII)
_MARKS = {"m", "-", "--", "---", "?", ".", "..", "*", "missing", "nil", "void", "unknown", "n.a.", "nd", "n.d."}
_MOST_MARKS, _OFTEN, _MANY = 3, 3, 10  # different words; cells that hold one; different numbers beside them
_DEFAULT = NumberStyle()


def column_kind(column: RawColumn, style: NumberStyle = _DEFAULT, *, first: bool = False) -> Kind:
    """The kind of a column whose numbers are written in a style; only the first of a file can be an index.

    index: counts 0, 1, 2 or 1, 2, 3 and has no name, or one that says so; without a name it may start again.
    """
    read = read_numbers(column, style)
    present = ~np.isnan(read.values)
    if not present.any():
        return "empty"
    if read.flags:
        return "flags"
    if _is_text(column, read):
        return "text"
    if read.faults:
        return "damaged"
    return "index" if first and _counts_rows(column.name.strip().lower(), read) else "numbers"


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

    Every cell counts: one of 0,125 or 1234,5 or 12,5 shows a decimal comma, one of 1,234,567 or 1,234.5, or 12.5
    beside 4,800, shows thousands.
    """
    columns = [_examples(column) for column in columns if not _is_text(column, read_numbers(column, _DEFAULT))]
    misfits = {style: _first_misfit(columns, style) for style in STYLES}
    style = next((style for style in STYLES if misfits[style] is None), _DEFAULT)
    if style == _DEFAULT:
        return StyleGuess(style)
    rivals = [rival for rival in STYLES if rival.decimal != style.decimal]
    for rival in rivals:
        if misfits[rival] is None and (ambiguous := _differ(columns, style, rival)) is not None:
            return ambiguous
    place, row = max(shown for shown in (misfits[rival] for rival in (_DEFAULT, *rivals)) if shown is not None)
    return StyleGuess(style, columns[place].name, columns[place].cells([row])[0])


def guess_missing(column: RawColumn, style: NumberStyle = _DEFAULT) -> dict[str | float, str]:
    """Words and numbers that seem to mean a missing value, each with the reason.

    Words: known marks among numbers, and few others that come again and again. Numbers: what comes again and again
    as the least or the greatest, the only negative one, or farther from the others than these are apart; so far away a
    usual code, as -9999, is one however seldom it stands there.
    """
    read = read_numbers(column, style)
    numbers = read.values[np.isfinite(read.values)]
    reasons: dict[str | float, str] = {
        word: f"{quoted(word)} stands in {count} of {counted(len(column), 'cell')}, numbers in {len(numbers)}"
        for word, count in _marks(column, read).items()
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


def _is_text(column: RawColumn, read: Numbers) -> bool:
    """Whether most cells are words, those aside that mark a missing value among numbers."""
    words = sum(len(read.faults.get(kind, ())) for kind in ("text", "flag"))
    present = int(np.count_nonzero(~np.isnan(read.values)))
    if words <= MOST_TEXT * present:
        return False
    marks = sum(_marks(column, read).values())
    return words - marks > MOST_TEXT * (present - marks)


def _marks(column: RawColumn, read: Numbers) -> dict[str, int]:
    """Words among numbers that seem to mark a missing value, and how often each stands there."""
    numbers = read.values[np.isfinite(read.values)]
    rows = read.faults.get("text")
    if rows is None or not numbers.size:
        return {}
    codes, counts = np.unique(column.codes[rows], return_counts=True)
    words = {column.words[code - 1]: int(count) for code, count in zip(codes, counts, strict=True)}
    known = {word: count for word, count in words.items() if word.lower() in _MARKS}
    others = {word: count for word, count in words.items() if word not in known}
    if len(others) <= _MOST_MARKS and len(np.unique(numbers)) >= _MANY:
        known |= {word: count for word, count in others.items() if count >= _OFTEN}
    return known


def _counts_rows(name: str, read: Numbers) -> bool:
    values, nameless = read.values, _NAMELESS.fullmatch(name) is not None
    if values[0] not in (0, 1) or not (nameless or name in _INDEX_NAMES):
        return False
    # of several series below one another; a column of 0 and 1 is none
    again = (values[1:] == values[0]) & (nameless and values.max() > values[0] + 1)
    return bool(((np.diff(values) == 1) | again).all())


def _examples(column: RawColumn) -> RawColumn:
    """The first cell of each way of writing in a column."""
    shapes = shapes_of(column.words)
    places = {shape: place for place, shape in enumerate(dict.fromkeys(shapes))}
    ways = np.array([-1, *(places[shape] for shape in shapes)])[column.codes]
    signs = 2 * column.commas + in_threes(column.numbers, column.decimals)
    ways = np.where(column.decimals >= 0, -2 - signs, ways)
    return column.take(np.sort(np.unique(ways, return_index=True)[1]))


def _first_misfit(columns: Sequence[RawColumn], style: NumberStyle) -> tuple[int, int] | None:
    """(place, row) of the first cell that is a number in other styles only."""
    for place, column in enumerate(columns):
        faults = read_numbers(column, style).faults
        if rows := [int(faults[kind][0]) for kind in STYLE_FAULTS if kind in faults]:
            return place, min(rows)
    return None


def _differ(columns: Sequence[RawColumn], style: NumberStyle, rival: NumberStyle) -> AmbiguousStyle | None:
    """The first cell that two styles read as different numbers."""
    for column in columns:
        numbers, rivals = (read_numbers(column, s).values for s in (style, rival))
        rows = np.flatnonzero((numbers != rivals) & ~np.isnan(numbers))[:1]
        if rows.size:
            (cell,), values = column.cells(rows), (float(numbers[rows[0]]), float(rivals[rows[0]]))
            return AmbiguousStyle((style, rival), column.name, cell, values)
    return None
