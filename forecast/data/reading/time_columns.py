"""One or more columns that hold a time, as one text for each row."""

import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.reading.raw_columns import BLANKS
from forecast.data.reading.time_formats import MONTH_NUMBERS
from forecast.errors import UserError

Codes = npt.NDArray[np.intp]

# The parts of a time that may stand in columns of their own, the coarsest first, and what such columns are called.
_PARTS = {
    "year": ("year", "yr", "yyyy"),
    "quarter": ("quarter", "qtr", "q"),
    "week": ("week", "wk", "kw", "isoweek", "weekofyear", "weeknumber", "weeknr", "weekno", "weeknum"),
    "month": ("month", "mon", "mnth", "mth", "mo"),
    "day": ("day", "dy", "dd", "dayofmonth", "mday"),
    "hour": ("hour", "hours", "hr", "hrs", "hh", "hourending", "hourend"),
    "minute": ("minute", "minutes", "min", "mins"),
    "second": ("second", "seconds", "sec", "secs"),
}
_DIRECTIVES = {"year": "%Y", "month": "%m", "day": "%d", "hour": "%H", "minute": "%M", "second": "%S"}
_DAY = re.compile(r"(?:^|[^a-z])(?:date|datetime|day|ds|dt|datum)(?:$|[^a-z])")
_TYPED = re.compile(r"\d+e-\d{1,2}", re.ASCII)
_OR_A_FORMAT = "set data.time_format for all of them joined by spaces"


def part_of(name: str) -> str | None:
    """The part of a time that a column of this name holds."""
    bare = re.sub("[^a-z]", "", name.lower())
    return next((part for part, known in _PARTS.items() if bare in known), None)


def is_day(name: str) -> bool:
    """Whether a column of this name may hold the days of a spreadsheet: 39356 may as well be a second."""
    return _DAY.search(name.lower()) is not None


def known_parts(names: Sequence[str]) -> dict[str, str] | None:
    """{part of a time: its column}, the coarsest first; None unless there are several and all have names of parts.

    UserError for a part that is there twice, and for one that is lacking between the year and the finest.
    """
    parts = [part_of(name) for name in names]
    if len(names) == 1 or "year" not in parts or None in parts:
        return None
    columns = {part: name for part in _PARTS for name, own in zip(names, parts, strict=True) if own == part}
    setting = f"data.time_column names {', '.join(repr(name) for name in names)}"
    if len(columns) < len(names):
        twice = next(part for part in columns if parts.count(part) > 1)
        raise UserError(f"{setting}: two columns of the {twice}. Name only one of them, or {_OR_A_FORMAT}.")
    for part in ("quarter", "week"):
        if list(columns) == ["year", part]:
            return columns
        if part in columns:
            raise UserError(
                f"{setting}: a {part} goes with nothing but the year. Name only those two, or {_OR_A_FORMAT}."
            )
    lacking = next((part for part in list(_DIRECTIVES)[: len(columns)] if part not in columns), None)
    if lacking is not None:
        raise UserError(
            f"{setting}, but none of the {lacking}. Name the column of the {lacking} too, or {_OR_A_FORMAT}."
        )
    return columns


def format_of_parts(parts: Collection[str], texts: Sequence[str]) -> str:
    """The format of `row_texts` of such parts; the month is a number or a name, as in most of the texts."""
    if alone := next((part for part in ("quarter", "week") if part in parts), None):
        return alone
    months = [text.split(" ")[1].lower() for text in texts if text and "month" in parts]
    by_name = sum(month in MONTH_NUMBERS for month in months) * 2 > len(months)
    return " ".join("%b" if part == "month" and by_name else _DIRECTIVES[part] for part in parts)


def row_texts(
    columns: Mapping[str, Sequence[str]], parts: Mapping[str, str] | None, missing: Collection[str]
) -> tuple[Codes, list[str]]:
    """(codes (N,), U different texts): the cells of each row joined by a space, "" where one of them is missing.

    columns: of N cells each. parts: from `known_parts`, in whose order the cells are joined.
    """
    codes: Codes | None = None
    texts: list[str] = []
    for part, name in parts.items() if parts is not None else [("", name) for name in columns]:
        others, cells = _different_cells(columns[name], part, missing)
        if codes is None:
            codes, texts = others, cells
            continue
        # Pairs by number, so that each is joined once.
        pairs, codes = np.unique(codes * len(cells) + others, return_inverse=True)
        both = [(texts[pair // len(cells)], cells[pair % len(cells)]) for pair in pairs.tolist()]
        texts = [f"{text} {cell}" if text and cell else "" for text, cell in both]
    assert codes is not None, "there is at least one column"
    again, unique = pd.factorize(np.array(texts, dtype=object))  # NaN and NA are the same missing cell
    return again[codes], unique.tolist()


def _different_cells(written: Sequence[str], part: str, missing: Collection[str]) -> tuple[Codes, list[str]]:
    codes, unique = pd.factorize(pd.Series(written, dtype=object).fillna("").to_numpy())
    cells = [cell.strip(BLANKS) for cell in unique]
    cells = ["" if cell in missing else cell for cell in cells]
    # A number of a typed column, which has no decimal sign.
    cells = [f"{Decimal(cell):f}" if _TYPED.fullmatch(cell) else cell for cell in cells]
    if part:
        cells = [re.sub(r"\.0+$", "", cell) for cell in cells]  # whole numbers beside a gap are often written 2010.0
    if part in ("quarter", "week"):
        sign = part[0].upper()
        cells = [f"{sign}{cell.lstrip(sign + sign.lower())}" if cell else "" for cell in cells]
    return codes, cells
