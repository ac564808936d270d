"""The cells of a file as columns of numbers, times or words, and what they say as numbers."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.values.cells import FloatArray, counted, quoted
from forecast.errors import UserError
from forecast.text.overrides import typed

BLANKS = " \t\n\v\f\r"  # what pandas takes for blank around a number
_LARGEST = 1e15  # whole numbers below it are written without an exponent
MISSING_WORDS = frozenset({"", "nan", "na", "n/a", "null", "none", "<na>", "#n/a"})  # in capitals too
# As files write them; pandas compares letter by letter.
MISSING_SPELLINGS = frozenset(
    {"NaN"} | {spelling for word in MISSING_WORDS for spelling in (word, word.upper(), word.capitalize())}
)
_FLAGS = {"true": 1.0, "false": 0.0}
# As regular expressions: spaces that do not break a line and typeset apostrophes too.
_THOUSANDS = {",": ",", ".": r"\.", " ": "[ \u00a0\u202f]", "'": "['\u2019]"}
_THOUSANDS_AT_A_POINT = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}", re.ASCII)
# A number with decimals and other text: € 49.20, 49.2*, (8.63), 1.23M.
_AFFIXED = re.compile(r"\D{0,6}\d{1,3}(?:[',. ]?\d{3})*[.,]\d+\D{0,8}", re.ASCII)
_UNIT = re.compile(r"[^\W\d_]+|[$€£¥%‰°*]")
_WITH_UNIT = re.compile(r"([$€£¥]?)[+-]?\d[\d.,'\s]*((?:[^\W\d_]|[%‰°$€£¥])\S*)?")
Kind = Literal["numbers", "row numbers", "empty", "text"]
_INDEX_NAMES = {"index", "idx", "id", "no", "no.", "nr", "nr.", "#", "row", "rownames"}
_NAMELESS = re.compile(r"((unnamed: |column )\d+)?", re.ASCII)
_MARKS = {"m", "t", "-", "--", "---", "?", ".", "..", "*", "missing", "nil", "void", "unknown", "n.a.", "nd", "n.d."}
# Numbers that programs write for no value, as `g` formats them: nines, the ends of whole numbers, those of netCDF.
_CODE = re.compile(
    r"-99\.9+|-?999+(\.9+)?|-[1-9]00|-?(?P<digit>[5-9])(?P=digit){2,}(\.(?P=digit)+)?|-9998|-?3276[78]|65535|-?2\.14748e\+09|4\.29497e\+09"
    r"|-?1e\+\d\d|9\.96921e\+36|-?3\.40282e\+38",
    re.ASCII,
)
_FIRST = 1_000  # rows
_MOST_CODES, _MANY = 3, 10  # such codes in a column, different numbers beside them
_MOST_WORDS = 0.5  # share of the cells: beyond it a column holds words, below it some cells are damaged


@dataclass(frozen=True, eq=False)
class RawColumn:
    """The N cells of a column, stripped of blanks.

    codes (N,): 0 for a number, else 1 + the place in words. numbers (N,): NaN for a word. words: the different others.
    """

    name: str
    numbers: FloatArray
    codes: npt.NDArray[np.int32]
    words: list[str]

    def __len__(self) -> int:
        return len(self.codes)

    def cells(self, rows: Iterable[int]) -> list[str]:
        """Some cells as text."""
        places = np.fromiter(rows, dtype=np.int64)
        codes, numbers = self.codes[places].tolist(), self.numbers[places].tolist()
        return [self.words[code - 1] if code else _written(numbers[row]) for row, code in enumerate(codes)]

    def take(self, rows: npt.NDArray[np.intp]) -> "RawColumn":
        """Some rows alone."""
        return replace(self, numbers=self.numbers[rows], codes=self.codes[rows])

    @classmethod
    def of_numbers(cls, name: str, values: FloatArray) -> "RawColumn":
        """A column that holds numbers (N,), NaN where one is missing."""
        missing = np.isnan(values)
        if missing.any():
            return cls(name, values, missing.astype(np.int32), [""])
        return cls(name, values, np.broadcast_to(np.int32(0), len(values)), [])

    @classmethod
    def of_cells(cls, name: str, cells: "pd.Series[str]") -> "RawColumn":
        """A column of text, in the order in which its words appear."""
        codes, words = pd.factorize(cells.fillna("").str.strip(BLANKS).to_numpy(dtype=object))
        return cls(name, np.broadcast_to(np.float64(np.nan), len(codes)), codes.astype(np.int32) + 1, words.tolist())

    @classmethod
    def of_words(
        cls, name: str, codes: npt.NDArray[np.intp], words: Sequence[str], numbers: FloatArray | None = None
    ) -> "RawColumn":
        """A column of words, by the places (N,) of the cells in `words`; blanks around them go.

        numbers (N,): what stands where a place is -1.
        """
        bare = np.array([*(word.strip(BLANKS) for word in words), ""], dtype=object)
        used = np.setdiff1d(pd.unique(codes), [-1])
        different, places = np.unique(bare[used], return_inverse=True)
        code_of = np.zeros(len(bare), dtype=np.int32)  # the last: of -1
        code_of[used] = places + 1
        numbers = np.broadcast_to(np.float64(np.nan), len(codes)) if numbers is None else numbers
        return cls(name, numbers, code_of[codes], different.tolist())

    def as_words(self) -> "RawColumn":
        """The same where all cells are words."""
        if self.codes.all():
            return self
        rows = np.flatnonzero(self.codes == 0)
        places, values = pd.factorize(self.numbers[rows], sort=True)
        known = {word: code for code, word in enumerate(self.words, start=1)}
        of_values = [known.setdefault(_written(value), len(known) + 1) for value in values.tolist()]
        codes = np.array(self.codes)
        codes[rows] = np.array(of_values, dtype=np.int32)[places]
        return replace(self, codes=codes, words=list(known))


def _written(value: float) -> str:
    """A number as text."""
    return f"{value:.0f}" if value.is_integer() and abs(value) < _LARGEST else repr(value)


@dataclass(frozen=True, eq=False)
class TypedTable:
    """A file that knows its cells: N rows of columns of numbers, times, and words that may be written as numbers.

    kind: what the file is, in words. lines (N,): as messages count them; header: that of the names.
    """

    kind: str
    columns: Sequence[RawColumn]
    lines: Sequence[int]
    header: int = 1

    def record(self, row: int) -> tuple[int, list[str]]:
        """(line, cells) of a row."""
        return self.lines[row], [column.cells([row])[0] for column in self.columns]

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of the header and of every row."""
        yield self.header, [column.name for column in self.columns]
        yield from map(self.record, range(len(self.lines)))


@dataclass(frozen=True)
class NumberStyle:
    """How a file writes numbers: data.decimal, data.thousands, data.missing.

    missing: words, compared as written, and numbers, compared as numbers, that mean a missing value.
    """

    decimal: str = "."
    thousands: str | None = None
    missing: Sequence[str | float] = ()

    def __post_init__(self) -> None:
        signs = (None, *_THOUSANDS)
        if self.decimal not in (".", ",") or self.thousands == self.decimal or self.thousands not in signs:
            raise UserError(
                f"data.decimal is {self.decimal!r} and data.thousands {self.thousands!r}. Set data.decimal to '.' or "
                "',', and data.thousands to another one of , . ' or a blank, or to null."
            )

    def settings(self, style: "NumberStyle") -> dict[str, str | None]:
        """The keys of the data group that turn this way to write numbers into another's."""
        pairs = {"data.decimal": (self.decimal, style.decimal), "data.thousands": (self.thousands, style.thousands)}
        return {key: new for key, (old, new) in pairs.items() if old != new}

    def number(self, text: str) -> float | None:
        """The finite number that a text without blanks around it is, or None; groups of thousands have three digits."""
        text = text.replace("\u2212", "-")  # a minus as it is typeset
        if not _pattern(self.decimal, self.thousands).fullmatch(text):
            return None
        if self.thousands is not None:
            text = re.sub(_THOUSANDS[self.thousands], "", text)
        value = float(text.replace(self.decimal, "."))
        return value if np.isfinite(value) else None

    def missing_marks(self) -> tuple[frozenset[str], list[float]]:
        """Words and numbers that mean a missing value; a word that reads as a number is one."""
        words = frozenset(entry.strip() for entry in self.missing if isinstance(entry, str))
        numbers = [float(entry) for entry in self.missing if not isinstance(entry, str)]
        return words, numbers + [value for value in map(self.number, words) if value is not None]


_DEFAULT = NumberStyle()
# Those without a sign for thousands first: where they read a column, the others say nothing else.
STYLES = tuple(
    NumberStyle(decimal, thousands)
    for thousands in (None, *_THOUSANDS)
    for decimal in (".", ",")
    if decimal != thousands
)


def read_numbers(column: RawColumn, style: NumberStyle) -> FloatArray:
    """The numbers (N,) of a column that are written in one style: NaN where one is missing, inf where a cell is none.

    Where all cells are True or False they are 1 and 0.
    """
    marks, numbers = style.missing_marks()
    values = column.numbers
    if column.words:
        read = np.array([np.nan, *map(style.number, column.words)], dtype=np.float64)
        missing = np.array([True, *(word in marks or word.lower() in MISSING_WORDS for word in column.words)])
        flags = np.array([np.nan, *(_FLAGS.get(word.lower(), np.nan) for word in column.words)])
        if column.codes.all() and (missing | ~np.isnan(flags)).all():
            read = flags
        read[np.isnan(read) & ~missing] = np.inf
        values = np.where(column.codes == 0, values, read[column.codes])
    if numbers:
        values = np.where(np.isin(values, numbers) & np.isfinite(values), np.nan, values)
    return values


def with_numbers(column: RawColumn, style: NumberStyle) -> RawColumn:
    """The same where words that are numbers in a style are numbers, each word being read once."""
    if not column.words:
        return column
    read = np.array([np.nan, *map(style.number, column.words)], dtype=np.float64)  # the first: of numbers
    is_word = np.isnan(read)
    code_of = np.where(is_word, np.cumsum(is_word) - 1, 0).astype(np.int32)
    numbers = np.where(column.codes == 0, column.numbers, read[column.codes])
    words = [word for word, kept in zip(column.words, is_word[1:], strict=True) if kept]
    return replace(column, numbers=numbers, codes=code_of[column.codes], words=words)


@lru_cache
def _pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    point = re.escape(decimal)
    whole = r"\d+" if thousands is None else rf"(?:[1-9]\d{{0,2}}(?:{_THOUSANDS[thousands]}\d{{3}})+|\d+)"
    return re.compile(rf"[+-]?(?:{whole}{point}?\d*|{point}\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def as_typed(settings: Mapping[str, object]) -> str:
    """Settings as one types them into a shell."""
    return " ".join(typed(key, value) for key, value in settings.items())


def is_number(text: str) -> bool:
    """Whether a text is a number in some style."""
    return any(style.number(text) is not None for style in STYLES)


def fault_words(cell: str, style: NumberStyle, units: Sequence[str]) -> str:
    """What is wrong with a cell that is no number in a style, and the fix. units: those that data.units should name."""
    ways = {other.number(cell): as_typed(style.settings(other)) for other in reversed(STYLES)}  # the simplest of each
    ways.pop(None, None)
    if ways:
        fix = f"Set {' or '.join(ways.values())}, or write all numbers alike."
        return f"{quoted(cell)} is no number with {style.decimal!r} before decimals. {fix}"
    fix = "Correct it, drop the column, or name it in data.missing if it stands for no value."
    if units:
        fix = f"Set {typed('data.units', [*units])}, which cuts that off, or drop the column."
    return f"{quoted(cell)} is no number. {fix}"


def unit_of(column: RawColumn) -> str:
    """The text beside the number in each cell of a column, as kWh, % or $; "" where there is none, or several."""
    matches = [_WITH_UNIT.fullmatch(word) for word in column.words if word.lower() not in MISSING_WORDS]
    units = {match and (match[1] or match[2]) for match in matches}
    return (units.pop() or "") if len(units) == 1 and column.codes.all() else ""


def without_units(column: RawColumn, units: Sequence[str]) -> RawColumn:
    """The same without these texts beside its numbers."""
    return replace(column, words=[bare(word, units) for word in column.words]) if units else column


def bare(word: str, units: Sequence[str]) -> str:
    """A word without the text that data.units names at its end, or before it."""
    for unit in units:
        word = re.sub(rf"^([+-]?){re.escape(unit)} *", r"\1", word).removesuffix(unit).strip()
    return word


def column_kind(column: RawColumn, style: NumberStyle = _DEFAULT, *, first: bool = False) -> Kind:
    """The kind of a column whose numbers are written in a style; only the first of a file can be an index.

    numbers: also where some cells are none. row numbers: 0, 1, 2 or 1, 2, 3 without a name, or with one that says so;
    without a name they may start again.
    """
    values = read_numbers(column, style)
    if np.isnan(values).all():
        return "empty"
    if np.isinf(values).any() and not unit_of(column) and _mostly_words(column, style):
        return "text"
    return "row numbers" if first and _counts_rows(column.name.strip().lower(), values) else "numbers"


def _mostly_words(column: RawColumn, style: NumberStyle) -> bool:
    """Whether more cells hold words than numbers of any style, marks of missing values aside."""
    marks = [word for word in column.words if word.lower() in _MARKS]
    values = read_numbers(column, replace(style, missing=[*style.missing, *marks]))
    text = [code for code, word in enumerate(column.words, start=1) if not is_number(word)]
    cells = np.count_nonzero(np.isinf(values) & np.isin(column.codes, text))
    return bool(cells > _MOST_WORDS * np.count_nonzero(~np.isnan(values)))


def guess_style(columns: Sequence[RawColumn]) -> tuple[NumberStyle, str]:
    """The first style that reads all columns but those of text, and the first cell that shows it, in words.

    The default where no style does. UserError where two styles read other numbers: 4,800 alone.
    """
    columns = [column for column in columns if column_kind(column) != "text"]
    cells = [(column.name, word) for column in columns for word in column.words if is_number(word)]
    shown = [f"{quoted(cell)} in column {quoted(name)}" for name, cell in cells if _DEFAULT.number(cell) is None]
    fitting = [style for style in STYLES if all(style.number(cell) is not None for _, cell in cells)]
    style, *rivals = fitting if fitting and shown else [_DEFAULT]
    for rival in rivals:
        for name, cell in cells:
            if style.number(cell) != rival.number(cell):
                raise _undecided(f"Column {quoted(name)}", cell, style, rival)
    return style, "".join(shown[:1])


def _undecided(where: str, cell: str, style: NumberStyle, rival: NumberStyle) -> UserError:
    """What to say of a cell that two styles read differently."""
    first, second = (as_typed(_DEFAULT.settings(way) or {"data.decimal": "."}) for way in (style, rival))
    return UserError(
        f"{where}: {quoted(cell)} is {style.number(cell):.12g} with {first} and "
        f"{rival.number(cell):.12g} with {second}, and no cell of the column says which. Set {first}, or {second}."
    )


def check_points(where: str, numbers: FloatArray, written: Iterable[str]) -> None:
    """UserError for a column where a point may part thousands: 1.364 where the others are whole, below 1000.

    where: file and column. numbers (N,): as the point of decimals reads them. written: its cells.
    """
    for part in (numbers[:_FIRST], numbers):  # most columns show at once that they hold decimals
        sizes = np.abs(part[~np.isnan(part)])
        pointed = sizes[np.minimum(sizes, 1000) % 1 > 0]
        if (sizes >= 1000).any() or (pointed < 1).any() or (np.round(pointed, 3) != pointed).any():
            return
    some_are_whole = 0 < len(pointed) < len(sizes)
    cells = [cell for cell in written if "." in cell and _DEFAULT.number(cell) is not None] if some_are_whole else []
    if cells and all(map(_THOUSANDS_AT_A_POINT.fullmatch, cells)):
        raise _undecided(where, cells[0], _DEFAULT, NumberStyle(",", "."))


def check_text(columns: Sequence[RawColumn], style: NumberStyle, units: Sequence[str], drop: Sequence[str]) -> None:
    """UserError for a column of text that may be numbers with a unit or a mark, which would be left out.

    units, drop: those of the layout.
    """
    for column in columns:
        words = [word for word in column.words if word.lower() not in MISSING_WORDS]
        are_numbers = (
            np.mean([_AFFIXED.fullmatch(word) is not None for word in words]) > _MOST_WORDS if words else False
        )
        if len(words) > _MANY and are_numbers and column_kind(column, style) == "text":
            own = {re.sub(r"[\d., '+-]+", "", word) for word in words}
            cut = (
                f"set {typed('data.units', [*units, *own])}, which cuts that off, "
                if _UNIT.fullmatch("|".join(own))
                else ""
            )
            raise UserError(
                f"Column {quoted(column.name)} may hold numbers, as {quoted(words[0])}: {cut}correct it, or leave it "
                f"out with {typed('data.drop', [*drop, column.name])}."
            )


def guess_missing(column: RawColumn, style: NumberStyle = _DEFAULT) -> dict[str | float, str]:
    """What seems to mean a missing value, with the reason: a known mark among numbers, a usual code far from others."""
    values, cells = read_numbers(column, style), counted(len(column), "cell")
    numbers = pd.Series(values[np.isfinite(values)]).value_counts().sort_index()
    reasons: dict[str | float, str] = {}
    for word, count in zip(column.words, np.bincount(column.codes, minlength=1)[1:], strict=False):
        if word.lower() in _MARKS and len(numbers):
            reasons[word] = f"{quoted(word)} stands in {count} of {cells}, numbers in {numbers.sum()}"
    ends = dict.fromkeys([*numbers.index[:_MOST_CODES], *numbers.index[-_MOST_CODES:]])
    codes = [code for code in ends if _CODE.fullmatch(f"{code:g}")]
    others = numbers.index.drop(codes)
    for code in codes if len(others) > _MANY else ():
        if max(others[0] - code, code - others[-1]) > others[-1] - others[0]:
            mark = int(code) if code.is_integer() and abs(code) < _LARGEST else code
            reasons[mark] = (
                f"{mark} stands in {numbers[code]} of {cells}, all other numbers lie between {others[0]:g} and "
                f"{others[-1]:g}"
            )
    return reasons


def _counts_rows(name: str, values: FloatArray) -> bool:
    nameless = _NAMELESS.fullmatch(name) is not None
    if values[0] not in (0, 1) or not (nameless or name in _INDEX_NAMES):
        return False
    # of several series below one another; a column of 0 and 1 is none
    again = (values[1:] == values[0]) & (nameless and values.max() > values[0] + 1)
    return bool(((np.diff(values) == 1) | again).all())
