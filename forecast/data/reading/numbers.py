"""What a raw column says as numbers: decimal signs, thousands, missing marks, and the cells that are none of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import category

import numpy as np
import numpy.typing as npt

from forecast.data.reading.raw_columns import RawColumn
from forecast.data.values.cells import FloatArray
from forecast.data.values.findings import quoted
from forecast.errors import UserError
from forecast.text.overrides import typed

RowArray = npt.NDArray[np.int64]

MISSING_WORDS = frozenset({"", "nan", "na", "n/a", "null", "none", "<na>", "#n/a"})  # in capitals too
# As files write them; pandas compares letter by letter.
MISSING_SPELLINGS = frozenset(
    {"NaN"} | {spelling for word in MISSING_WORDS for spelling in (word, word.upper(), word.capitalize())}
)
FLAGS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
STYLE_FAULTS = ("decimal", "thousands", "ambiguous")  # cells that are numbers in another style, or nearly so
# As regular expressions: spaces that do not break a line and typeset apostrophes too.
_THOUSANDS = {",": ",", ".": r"\.", " ": "[ \u00a0\u202f]", "'": "['\u2019]", "_": "_"}
_DIGITS_TO_ONE = str.maketrans("023456789", "111111111")


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
        if self.thousands is not None and self.thousands not in _THOUSANDS:
            raise UserError(
                f"data.thousands is {self.thousands!r}; it must be one of , . ' _ or a blank, or null for none. "
                f"Set {typed('data.thousands', ',')}."
            )
        if self.thousands == self.decimal:
            other = "," if self.decimal == "." else "."
            raise UserError(
                f"data.thousands and data.decimal are both {self.decimal!r}. Set {typed('data.thousands', other)}."
            )
        if isinstance(self.missing, str | int | float):
            raise UserError(
                f"data.missing is {self.missing!r}; it must be a list. Set {typed('data.missing', [self.missing])}."
            )
        for entry in self.missing:
            if isinstance(entry, bool) or not isinstance(entry, str | int | float):
                word = "null" if entry is None else str(entry).lower() if isinstance(entry, bool) else "M"
                raise UserError(
                    f"data.missing holds {entry!r}; each entry must be a word or a number, words such as null and true "
                    f"in quotes. Set {typed('data.missing', [word])}."
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


@dataclass(frozen=True)
class Numbers:
    """A column as numbers.

    values (N,): NaN where one is missing, inf where a cell is none. faults: the rows, increasing, of each kind of them:
    infinite, flag (True among numbers), sign (of a currency, of per cent), text, and STYLE_FAULTS. flags: whether all
    cells are True or False, which are then 1 and 0.
    """

    values: FloatArray
    faults: dict[str, RowArray]
    flags: bool = False


def read_numbers(column: RawColumn, style: NumberStyle) -> Numbers:
    """The numbers of a column that are written in one style."""
    words, numbers = style.missing_marks()
    read = _read_words(column.words, style, words)
    flags = {kind for value, kind in read if not np.isnan(value)} == {"flag"} and bool(column.codes.all())
    if flags:
        read = [(FLAGS[word] if kind else np.nan, None) for word, (_, kind) in zip(column.words, read, strict=True)]
    values, faults = _read_plain(column, style)
    if read and (rows := np.flatnonzero(column.codes)).size:
        values, codes = np.array(values), column.codes[rows] - 1
        values[rows] = np.array([value for value, _ in read])[codes]
        for kind in {kind for _, kind in read if kind}:
            fault_rows = rows[np.array([other == kind for _, other in read])[codes]]
            faults[kind] = np.sort(np.append(faults.get(kind, fault_rows[:0]), fault_rows))
    if numbers:
        values = np.where(np.isin(values, numbers) & np.isfinite(values), np.nan, values)
    return Numbers(values, faults, flags)


def number_in(text: str, decimal: str, thousands: str | None) -> float | None:
    """The finite number that a text without blanks around it is, or None; groups of thousands have three digits."""
    if not _pattern(decimal, thousands).fullmatch(text):
        return None
    bare = text if thousands is None else re.sub(_THOUSANDS[thousands], "", text)
    value = float(bare.replace(decimal, "."))
    return value if np.isfinite(value) else None


def in_threes(values: FloatArray, decimals: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """Of numbers with one sign, (N,) as in RawColumn: whether the sign may as well stand before a group of three."""
    threes: npt.NDArray[np.bool_] = (decimals == 3) & (abs(values) >= 1) & (abs(values) < 1000)
    return threes


def shapes_of(words: Sequence[str]) -> list[str]:
    """Words with all digits 1: what is written alike is read alike."""
    return [word.translate(_DIGITS_TO_ONE) for word in words]


def as_typed(settings: Mapping[str, str | None]) -> str:
    """Settings as one types them into a shell."""
    return " ".join(typed(key, value) for key, value in settings.items())


def fault_words(kind: str, cell: str, style: NumberStyle) -> tuple[str, str]:
    """What is wrong with a cell of one of the kinds that depend on the style, or with a sign, and the fix."""
    readings = [(as_typed(style.settings(other)), value) for other, value in _readings(cell)]
    if kind == "ambiguous":
        (setting, value), (other, second) = readings[:2]
        return f"{quoted(cell)} is {value:g} with {setting} and {second:g} with {other}", f"Set {setting}, or {other}."
    if kind == "thousands" and style.thousands is not None and re.search(_THOUSANDS[style.thousands], cell):
        return f"{quoted(cell)} is no number in groups of three digits", "Correct it."
    if kind == "sign":
        return f"{quoted(cell)} is a number with a sign beside it", "Write the numbers alone, or drop the column."
    message = f"{quoted(cell)} is no number when decimals are written with {style.decimal!r}"
    if style.thousands is not None:
        message += f" and thousands with {style.thousands!r}"
    alone = "decimals with " + repr(style.decimal) if kind == "decimal" else "numbers without thousands separators"
    return message, f"Write all {alone}, or set {readings[0][0]}." if readings else "Correct it."


def _read_plain(column: RawColumn, style: NumberStyle) -> tuple[FloatArray, dict[str, RowArray]]:
    """The values of the cells with one sign at most, and which of them have a wrong one."""
    rows = np.flatnonzero(column.decimals >= 0)
    rows = rows[column.commas[rows] != (style.decimal == ",")]
    if not rows.size:
        return column.numbers, {}
    values = column.numbers.copy()
    grouped = in_threes(values[rows], column.decimals[rows])
    if style.thousands == ("." if style.decimal == "," else ","):
        values[rows[grouped]] = np.rint(values[rows[grouped]] * 1000)
        faults = {"thousands": rows[~grouped]}
    else:
        faults = {"ambiguous": rows[grouped], "decimal": rows[~grouped]}
    faults = {kind: bad for kind, bad in faults.items() if bad.size}
    for bad in faults.values():
        values[bad] = np.inf
    return values, faults


def _read_words(words: Sequence[str], style: NumberStyle, missing: frozenset[str]) -> list[tuple[float, str | None]]:
    """The number in each word, NaN or inf as in Numbers, and its kind of fault; few shapes stand for many words."""
    shapes = shapes_of(words)
    kinds = {shape: _kind(shape, style.decimal, style.thousands) for shape in set(shapes)}

    def read(word: str, kind: str | None) -> tuple[float, str | None]:
        if kind == "missing" or word in missing:
            return np.nan, None
        if kind is not None:
            return np.inf, kind
        value = number_in(word, style.decimal, style.thousands)
        return (np.inf, "infinite") if value is None else (value, None)

    return [read(word, kinds[shape]) for word, shape in zip(words, shapes, strict=True)]


@lru_cache(maxsize=10_000)
def _kind(shape: str, decimal: str, thousands: str | None) -> str | None:
    """The kind of fault of a word whose digits are all 1, "missing", or None for a number."""
    if shape.lower() in MISSING_WORDS:
        return "missing"
    if shape in FLAGS:
        return "flag"
    return None if number_in(shape, decimal, thousands) is not None else _fault(shape, thousands)


def _fault(shape: str, thousands: str | None) -> str:
    """What a word is that is no number in the style of a file."""
    readings = _readings(shape)
    if readings:
        simple = any(style.thousands is None for style, _ in readings)
        return "ambiguous" if len(readings) > 1 else "decimal" if simple else "thousands"
    if thousands is not None and re.fullmatch(rf"[+-]?1(?:1|[.,]|{_THOUSANDS[thousands]})*", shape):
        return "thousands"
    try:
        return "text" if np.isfinite(float(shape.replace(",", "."))) else "infinite"
    except ValueError:
        bare = "".join(sign for sign in shape if sign not in "%‰ \u00a0" and category(sign) != "Sc")
        return "sign" if bare != shape and _readings(bare) else "text"


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
    whole = r"\d+" if thousands is None else rf"(?:\d{{1,3}}(?:{_THOUSANDS[thousands]}\d{{3}})+|\d+)"
    return re.compile(rf"[+-]?(?:{whole}{point}?\d*|{point}\d+)(?:[eE][+-]?\d+)?", re.ASCII)
