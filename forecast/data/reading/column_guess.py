"""What the columns of a file seem to be, with reasons."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from forecast.data.reading.numbers import (
    STYLES,
    NumberStyle,
    as_typed,
    is_number,
    read_numbers,
    unit_of,
)
from forecast.data.reading.raw_columns import RawColumn
from forecast.data.values.cells import FloatArray
from forecast.data.values.findings import counted, quoted
from forecast.errors import UserError

Kind = Literal["numbers", "row numbers", "empty", "text"]

_INDEX_NAMES = {"index", "idx", "id", "no", "no.", "nr", "nr.", "#", "row", "rownames"}
_NAMELESS = re.compile(r"((unnamed: |column )\d+)?", re.ASCII)
_MARKS = {"m", "t", "-", "--", "---", "?", ".", "..", "*", "missing", "nil", "void", "unknown", "n.a.", "nd", "n.d."}
_CODE = re.compile(r"-99\.9+|-?999+(\.9+)?|-[1-9]00", re.ASCII)  # numbers that programs write for no value
_MOST_CODES, _MANY = 3, 10  # such codes in a column, different numbers beside them
_MOST_WORDS = 0.5  # share of the cells: beyond it a column holds words, below it some cells are damaged
_WHOLE = re.compile(r"[+-]?[1-9]\d*", re.ASCII)
_DEFAULT = NumberStyle()


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

    The default where no style does. UserError where two styles read other numbers: 4,800 alone, or 1.364 where all
    numbers below 1000 are whole.
    """
    columns = [column for column in columns if column_kind(column) != "text"]
    cells = [(column.name, word) for column in columns for word in column.words if is_number(word)]
    shown = [f"{quoted(cell)} in column {quoted(name)}" for name, cell in cells if _DEFAULT.number(cell) is None]
    if not shown and not any(map(_may_part_thousands, columns)):
        return _DEFAULT, ""
    fitting = [style for style in STYLES if all(style.number(cell) is not None for _, cell in cells)]
    style, *rivals = fitting or [_DEFAULT]
    for rival in rivals:
        for name, cell in cells:
            if style.number(cell) != rival.number(cell):
                first, second = (as_typed(_DEFAULT.settings(way) or {"data.decimal": "."}) for way in (style, rival))
                raise UserError(
                    f"Column {quoted(name)}: {quoted(cell)} is {style.number(cell):.12g} with {first} and "
                    f"{rival.number(cell):.12g} with {second}, and no cell of the file says which. Set {first}, or "
                    f"{second}."
                )
    return style, "".join(shown[:1])


def _may_part_thousands(column: RawColumn) -> bool:
    """Whether a column has numbers with a point, and whole ones, all of these below 1000."""
    whole = [word.lstrip("+-") for word in column.words if _WHOLE.fullmatch(word)]
    return 0 < max(map(len, whole), default=0) <= 3 and any("." in word for word in column.words)


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
            mark = int(code) if code.is_integer() else code
            seen = f"{mark} stands in {numbers[code]} of {cells}"
            reasons[mark] = f"{seen}, all other numbers lie between {others[0]:g} and {others[-1]:g}"
    return reasons


def _counts_rows(name: str, values: FloatArray) -> bool:
    nameless = _NAMELESS.fullmatch(name) is not None
    if values[0] not in (0, 1) or not (nameless or name in _INDEX_NAMES):
        return False
    # of several series below one another; a column of 0 and 1 is none
    again = (values[1:] == values[0]) & (nameless and values.max() > values[0] + 1)
    return bool(((np.diff(values) == 1) | again).all())
