"""What the columns of a file seem to be, with reasons; and the cells that are not what their column should hold."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from forecast.data.reading.numbers import (
    STYLE_FAULTS,
    STYLES,
    Numbers,
    NumberStyle,
    as_typed,
    fault_words,
    in_threes,
    read_numbers,
    shapes_of,
)
from forecast.data.reading.raw_columns import RawColumn
from forecast.data.reading.time_formats import YEARS, format_with_zone_name
from forecast.data.values.findings import GAPS_FIX, Findings, counted, quoted
from forecast.text.overrides import typed

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


_DIGITS = "Write all offsets from UTC in digits, as in 2016-07-01 00:00+01:00"
MOST_TEXT = 0.5  # share of the cells: beyond it a column holds words, below it some cells are damaged


@dataclass
class Fault:
    """Cells of one column with the same fault: the first of them, how many they are, the different words in them."""

    line: int
    cell: str
    count: int = 0
    words: set[str] = field(default_factory=set)


@dataclass
class CellFaults:
    """The faults in the cells of a file, by their kind and the place of their column in the header."""

    path: str
    header: Sequence[str]
    times: Sequence[int]
    style: NumberStyle
    faults: dict[tuple[str, int], Fault] = field(default_factory=dict)

    def add(self, kind: str, place: int, line: int, cell: str, word: str | None = None) -> None:
        """Counts a cell; `word` is what to count as different, the cell itself for None."""
        fault = self.faults.setdefault((kind, place), Fault(line, cell))
        fault.count += 1
        fault.words.add(cell if word is None else word)

    def report(self, rows: int, findings: Findings) -> None:
        """One error for each kind of fault in each column; flags last, for they count only where others are numbers."""

        def order(item: tuple[tuple[str, int], Fault]) -> tuple[bool, int, bool, int]:
            (kind, place), fault = item
            return kind == "flag", fault.line, place in self.times, place

        for (kind, place), fault in sorted(self.faults.items(), key=order):
            where = f"{self.path}: line {fault.line}"
            if kind != "surplus":
                where += f", column {quoted(self.header[place])}:"
            message, fix = self._words(kind, place, fault, rows)
            if not findings.strict:
                row = kind == "surplus" or place in self.times
                message += f"; {counted(fault.count, 'such row' if row else 'such cell')} of {rows}"
                if kind in ("text", "flag") and fault.count > MOST_TEXT * rows:
                    message += f", {counted(len(fault.words), 'different word')}"
                    fix = "Drop the column, or train on one other: data.features=S data.target=NAME."
            findings.error(f"{where} {message}. {fix}")

    def _words(self, kind: str, place: int, fault: Fault, rows: int) -> tuple[str, str]:
        """What is wrong with the cells of a fault in a file of so many rows, and the fix."""
        cell = quoted(fault.cell)
        if kind in STYLE_FAULTS or kind == "sign":
            return fault_words(kind, fault.cell, self.style)
        if kind == "letters":
            time_format = format_with_zone_name(fault.words) if fault.count == rows else None
            other = "leave all of them out"
            if time_format is not None:
                other = f"set {typed('data.time_format', time_format)}, which reads the clock alone"
            return f"{cell} names its time zone by letters", f"{_DIGITS}, or {other}."
        return {
            "surplus": (
                f"has {fault.cell} cells, the header names {len(self.header)} columns",
                "Remove the surplus cells, name all columns, or set data.decimal and data.separator if numbers are "
                "written as 1,5.",
            ),
            "missing": (
                f"the value is missing ({cell})",
                f"Fill the gap, or drop the column, before training, or set {GAPS_FIX}.",
            ),
            "infinite": (f"{cell} is not a finite number", "Replace it by a finite one before training."),
            "no timestamp": ("the timestamp is missing", "Fill it in or drop the line."),
            "zone": (
                f"{cell} has an offset from UTC, other timestamps have none",
                "Write all with their offset, or none.",
            ),
            "no zone": (
                f"{cell} has no offset from UTC, other timestamps have one",
                "Write all with their offset, or none.",
            ),
            "year": (
                f"{cell} is not in the years {YEARS[0]} to {YEARS[-1]}, which can be read",
                "Correct it, or drop the line if it marks an open end.",
            ),
            "unreadable": (
                f"{cell} is no timestamp, or not written as the others are",
                "Correct it, or set data.time_format, as '%d/%m/%Y %H:%M'.",
            ),
        }.get(kind, (f"{cell} is no number", "Correct it, or drop the column, before training."))
