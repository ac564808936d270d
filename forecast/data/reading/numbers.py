"""What a raw column says as numbers: decimal signs, thousands, missing marks, and the cells that are none of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from forecast.data.reading.raw_columns import RawColumn
from forecast.data.values.cells import FloatArray
from forecast.data.values.findings import quoted
from forecast.errors import UserError
from forecast.text.overrides import typed

MISSING_WORDS = frozenset({"", "nan", "na", "n/a", "null", "none", "<na>", "#n/a"})  # in capitals too
# As files write them; pandas compares letter by letter.
MISSING_SPELLINGS = frozenset(
    {"NaN"} | {spelling for word in MISSING_WORDS for spelling in (word, word.upper(), word.capitalize())}
)
_FLAGS = {"true": 1.0, "false": 0.0}
# As regular expressions: spaces that do not break a line and typeset apostrophes too.
_THOUSANDS = {",": ",", ".": r"\.", " ": "[ \u00a0\u202f]", "'": "['\u2019]"}
_WITH_UNIT = re.compile(r"([$€£¥]?)[+-]?\d[\d.,'\s]*((?:[^\W\d_]|[%‰°$€£¥])\S*)?")


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
        bare = text if self.thousands is None else re.sub(_THOUSANDS[self.thousands], "", text)
        value = float(bare.replace(self.decimal, "."))
        return value if np.isfinite(value) else None

    def missing_marks(self) -> tuple[frozenset[str], list[float]]:
        """Words and numbers that mean a missing value; a word that reads as a number is one."""
        words = frozenset(entry.strip() for entry in self.missing if isinstance(entry, str))
        numbers = [float(entry) for entry in self.missing if not isinstance(entry, str)]
        return words, numbers + [value for value in map(self.number, words) if value is not None]


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


def fault_words(cell: str, style: NumberStyle, unit: str) -> str:
    """What is wrong with a cell that is no number in a style, and the fix. unit: that of all cells of its column."""
    ways = {other.number(cell): as_typed(style.settings(other)) for other in reversed(STYLES)}  # the simplest of each
    ways.pop(None, None)
    if ways:
        fix = f"Set {' or '.join(ways.values())}, or write all numbers alike."
        return f"{quoted(cell)} is no number with {style.decimal!r} before decimals. {fix}"
    fix = "Correct it, drop the column, or name it in data.missing if it stands for no value."
    if unit:
        fix = f"Set {typed('data.units', [unit])}, which cuts that off, or drop the column."
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
        word = word.removeprefix(unit).removesuffix(unit).strip()
    return word
