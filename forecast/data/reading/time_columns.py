"""One or more columns that hold a time, as one text for each row."""

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.reading.raw_columns import BLANKS
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
    wholes = (["year", "quarter"], ["year", "week"], list(_DIRECTIVES)[: len(names)])
    if list(columns) not in wholes or len(columns) < len(names):
        raise UserError(
            f"data.time_column names {', '.join(map(repr, names))}, which are no time. Name the columns of the year, "
            "month, day, hour, minute and second, each once and none of them left out before the last, or those of "
            "the year and the quarter or week, or set data.time_format for all of them joined by spaces."
        )
    return columns


def format_of_parts(parts: Collection[str], texts: Sequence[str]) -> str:
    """The format of `row_texts` of such parts; the month is a number or a name, as in the first of the texts."""
    if alone := next((part for part in ("quarter", "week") if part in parts), None):
        return alone
    months = [text.split(" ")[1] for text in texts if text and "month" in parts]
    month = "%m" if not months or months[0].isdigit() else "%b" if max(map(len, months)) == 3 else "%B"
    return " ".join(month if part == "month" else _DIRECTIVES[part] for part in parts)


def row_texts(
    columns: Mapping[str, Sequence[str]], parts: Mapping[str, str] | None, missing: Collection[str]
) -> tuple[Codes, list[str]]:
    """(codes (N,), U texts): the cells of each row joined by a space, "" where one of them is missing.

    columns: of N cells each. parts: from `known_parts`, in whose order the cells are joined.
    """
    order = [columns[name] for name in (parts or {}).values() or columns]
    rows = order[0] if len(order) == 1 else ["\0".join(cells) for cells in zip(*order, strict=True)]
    codes, unique = pd.factorize(pd.Series(rows, dtype=object).fillna("").to_numpy())
    texts = []
    for row in unique:  # each different one is looked at once
        cells = [cell.strip(BLANKS) for cell in row.split("\0")]
        cells = [re.sub(r"\.0+$", "", cell) for cell in cells] if parts else cells  # so beside a gap: 2010.0
        texts.append("" if "" in cells or any(cell in missing for cell in cells) else " ".join(cells))
    return codes, texts
