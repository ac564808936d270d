"""What a raw column says as numbers: decimal signs, thousands, missing marks, and the cells that are none of them."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category

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
FLAGS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
# As regular expressions: spaces that do not break a line and typeset apostrophes too.
_THOUSANDS = {",": ",", ".": r"\.", " ": "[ \u00a0\u202f]", "'": "['\u2019]", "_": "_"}


@dataclass(frozen=True)
class NumberStyle:
    """How a file writes numbers: data.decimal, data.thousands, data.missing.

    missing: words, compared as written, and numbers, compared as numbers, that mean a missing value.
    """

    decimal: str = "."
    thousands: str | None = None
    missing: Sequence[str | float] = ()

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise UserError(f"data.decimal is {self.decimal!r}; it must be one of two characters. Set '.' or ','.")
        if self.thousands == self.decimal or self.thousands not in (None, *_THOUSANDS):
            raise UserError(
                f"data.thousands is {self.thousands!r} and data.decimal {self.decimal!r}; thousands must be parted by "
                "another one of , . ' _ or a blank, or null for none. Set data.thousands=null."
            )

    def settings(self, style: "NumberStyle") -> dict[str, str | None]:
        """The keys of the data group that turn this way to write numbers into another's."""
        pairs = {"data.decimal": (self.decimal, style.decimal), "data.thousands": (self.thousands, style.thousands)}
        return {key: new for key, (old, new) in pairs.items() if old != new}

    def missing_marks(self) -> tuple[frozenset[str], list[float]]:
        """Words and numbers that mean a missing value; a word that reads as a number is one."""
        words = frozenset(entry.strip() for entry in self.missing if isinstance(entry, str))
        read = {word: number_in(word, self.decimal, self.thousands) for word in words}
        numbers = [float(entry) for entry in self.missing if not isinstance(entry, str)]
        return words, numbers + [value for value in read.values() if value is not None]


# Those without a sign for thousands first: where they read a column, the others say nothing else.
STYLES = tuple(
    NumberStyle(decimal, thousands)
    for thousands in (None, *_THOUSANDS)
    for decimal in (".", ",")
    if decimal != thousands
)


class Numbers(NamedTuple):
    """A column as numbers.

    values (N,): NaN where one is missing, inf where a cell is none. flags: whether all cells are True or False, which
    are then 1 and 0.
    """

    values: FloatArray
    flags: bool = False


def read_numbers(column: RawColumn, style: NumberStyle) -> Numbers:
    """The numbers of a column that are written in one style."""
    words, numbers = style.missing_marks()
    read = [_read_word(word, style, words) for word in column.words]
    values = column.numbers
    if read:
        values = np.where(column.codes == 0, values, np.array([np.nan, *read])[column.codes])
    held = {word for word, value in zip(column.words, read, strict=True) if not np.isnan(value)}
    flags = bool(held) and held <= FLAGS.keys() and bool(column.codes.all())
    if flags:
        values = np.array([np.nan, *(FLAGS.get(word, np.nan) for word in column.words)])[column.codes]
    if numbers:
        values = np.where(np.isin(values, numbers) & np.isfinite(values), np.nan, values)
    return Numbers(values, flags)


def with_numbers(column: RawColumn, style: NumberStyle) -> RawColumn:
    """The same where words that are numbers in a style are numbers, each word being read once."""
    read = [number_in(word, style.decimal, style.thousands) for word in column.words]
    words = [word for word, value in zip(column.words, read, strict=True) if value is None]
    if len(words) == len(read):
        return column
    places = {word: code for code, word in enumerate(words, start=1)}
    codes = np.array([0, *(places.get(word, 0) for word in column.words)], dtype=np.int32)[column.codes]
    values = np.array([np.nan, *read], dtype=np.float64)[column.codes]
    return replace(column, numbers=np.where(column.codes == 0, column.numbers, values), codes=codes, words=words)


def number_in(text: str, decimal: str, thousands: str | None) -> float | None:
    """The finite number that a text without blanks around it is, or None; groups of thousands have three digits."""
    text = text.replace("\u2212", "-")  # a minus as it is typeset
    if not _pattern(decimal, thousands).fullmatch(text):
        return None
    bare = text if thousands is None else re.sub(_THOUSANDS[thousands], "", text)
    value = float(bare.replace(decimal, "."))
    return value if np.isfinite(value) else None


def as_typed(settings: Mapping[str, str | None]) -> str:
    """Settings as one types them into a shell."""
    return " ".join(typed(key, value) for key, value in settings.items())


def fault_words(cell: str, style: NumberStyle) -> tuple[str, str]:
    """What is wrong with a cell that is no number in a style, and the fix."""
    readings = [(as_typed(style.settings(other)), value) for other, value in _readings(cell)]
    if len(readings) > 1:
        (setting, value), (other, second) = readings[:2]
        return f"{quoted(cell)} is {value:g} with {setting} and {second:g} with {other}", f"Set {setting}, or {other}."
    if readings:
        written = f"{style.decimal!r} before decimals"
        if style.thousands is not None:
            written += f" and {style.thousands!r} between thousands"
        return f"{quoted(cell)} is no number with {written}", f"Write all numbers so, or set {readings[0][0]}."
    if _bare(cell) != cell and _readings(_bare(cell)):
        return f"{quoted(cell)} is a number with a sign beside it", "Write the numbers alone, or drop the column."
    with contextlib.suppress(ValueError):
        if not np.isfinite(float(cell.replace(",", "."))):
            return f"{quoted(cell)} is not a finite number", "Replace it by a finite one before training."
    return f"{quoted(cell)} is no number", "Correct it, or drop the column, before training."


def is_text(cell: str) -> bool:
    """Whether a cell is no number in any style, not even with a sign beside it."""
    return not _readings(_bare(cell))


def _bare(cell: str) -> str:
    """A cell without signs of a currency and of per cent, and the blank beside them; itself where none stands."""
    bare = "".join(sign for sign in cell if sign not in "%‰" and category(sign) != "Sc")
    return bare if bare == cell else bare.strip(" \u00a0")


def _read_word(word: str, style: NumberStyle, missing: frozenset[str]) -> float:
    """NaN for one that stands for a missing value, inf for one that is no number."""
    if word in missing or word.lower() in MISSING_WORDS:
        return np.nan
    value = number_in(word, style.decimal, style.thousands)
    return np.inf if value is None else value


def _readings(text: str) -> list[tuple[NumberStyle, float]]:
    """The different numbers that a text is in some style, each with the simplest such style."""
    readings: list[tuple[NumberStyle, float]] = []
    for style in STYLES:
        value = number_in(text, style.decimal, style.thousands)
        if value is not None and value not in [other for _, other in readings]:
            readings.append((style, value))
    return readings


@lru_cache
def _pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    point = re.escape(decimal)
    whole = r"\d+" if thousands is None else rf"(?:[1-9]\d{{0,2}}(?:{_THOUSANDS[thousands]}\d{{3}})+|\d+)"
    return re.compile(rf"[+-]?(?:{whole}{point}?\d*|{point}\d+)(?:[eE][+-]?\d+)?", re.ASCII)
