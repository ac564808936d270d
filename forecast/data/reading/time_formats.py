"""How a timestamp can be written: the formats that a cell may have, and the reading of cells in one format."""

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Literal

import numpy as np
import pandas as pd

ISO = "ISO8601"
# Formats that are numbers: what they count, and the finest that their fractions tell.
NUMBERS: dict[str, tuple[Literal["D", "s", "ms", "us", "ns"], str]] = {
    "unix": ("s", "us"),
    "unix_ms": ("ms", "us"),
    "unix_us": ("us", "us"),
    "unix_ns": ("ns", "ns"),
    "excel": ("D", "ms"),
}
# Those that nanoseconds reach: pandas 2 knows no others, and with pandas 3 steps between others overflow.
YEARS = range(pd.Timestamp.min.year + 1, pd.Timestamp.max.year)
EXCEL_START = pd.Timestamp("1899-12-30").as_unit("ns")  # from which a spreadsheet counts days
CLOCK = ["now", "today"]  # pandas would look at the clock
_NUMBER = re.compile(r"[+-]?\d{1,19}(?:\.\d*)?", re.ASCII)
_YEAR_LAST = re.compile(r"(\D*\d\d?)\D{1,3}(\d{4})$", re.ASCII)
# Words for what strptime has no directives for: a cell, its year put first; what strptime reads of the numbers in it.
# In a year and a month that are one number, 1990.1, .1 is .10.
_WORDS: dict[str, tuple[re.Pattern[str], Callable[[re.Match[str]], str], str]] = {
    "quarter": (
        re.compile(r"(\d{4})[-/. ]?Q?([1-4])", re.ASCII | re.IGNORECASE),
        lambda cell: f"{cell[1]}-{3 * int(cell[2]) - 2:02}",
        "%Y-%m",
    ),
    "week": (
        re.compile(r"(\d{4})[-/. ]?(?:W|KW|WK|WEEK)? ?(\d\d?)-?([1-7])?", re.ASCII | re.IGNORECASE),
        lambda cell: f"{cell[1]}-{cell[2]:0>2}-{cell[3] or 1}",
        "%G-%V-%u",
    ),
    "year.month": (
        re.compile(r"(\d{4})\.(0[1-9]|1[0-2]?)", re.ASCII),
        lambda cell: f"{cell[1]}-{cell[2]:0<2}",
        "%Y-%m",
    ),
}
# Hour 24 of a day: 2016-07-01 24:00, 1.7.2016 24, 20160701 2400, 2016070124; but neither 2016 01 24 nor 5 Jan 24.
_HOUR_24 = re.compile(
    r"(^\d{8}|(?<=.{7}\d) +|(?<=\d),? *[T ](?=24[:.]00))"
    r"24((?:[:. ]?00){0,2}(?:[.,]0+)?(?: ?(?:[Zz]|[+-]\d\d:?\d\d))?)$",
    re.ASCII,
)

_MONTH = "(?P<b>[A-Za-z]{3,9})"
_DATES = (  # (writing, its formats); `s` and `r` are what stands between the parts
    (r"\d{4}(?P<s>[-/. ])\d\d?(?P=s)\d\d?", ("%Y{s}%m{s}%d",)),
    (r"\d\d?(?P<s>[-/. ])\d\d?(?P=s)\d{4}", ("%d{s}%m{s}%Y", "%m{s}%d{s}%Y")),
    (r"\d\d?(?P<s>[-/. ])\d\d?(?P=s)\d\d", ("%d{s}%m{s}%y", "%m{s}%d{s}%y")),
    (r"\d\d(?P<s>[-/. ])\d\d?(?P=s)\d\d?", ("%y{s}%m{s}%d",)),
    (rf"\d\d?(?P<s>[-/. ,]{{0,2}}){_MONTH}(?P<r>[-/. ,]{{0,2}})\d{{4}}", ("%d{s}{b}{r}%Y",)),
    (rf"\d\d?(?P<s>[-/. ,]{{0,2}}){_MONTH}(?P<r>[-/. ,]{{0,2}})\d\d", ("%d{s}{b}{r}%y",)),
    (rf"{_MONTH}(?P<s>[-/. ]{{0,2}})\d\d?(?P<r>[-/. ,]{{1,2}})\d{{4}}", ("{b}{s}%d{r}%Y",)),
    (rf"{_MONTH}(?P<s>[-/. ]{{0,2}})\d\d?(?P<r>[-/. ,]{{1,2}})\d\d", ("{b}{s}%d{r}%y",)),
    (rf"\d{{4}}(?P<s>[-/. ]?){_MONTH}(?P<r>[-/. ]?)\d\d?", ("%Y{s}{b}{r}%d",)),
    (r"\d{8}", ("%Y%m%d", "%d%m%Y", "%m%d%Y")),
)
_OTHERS = (
    (r"\d{4}(?P<s>[-/ ])\d\d?", ("%Y{s}%m",)),
    (r"\d\d?(?P<s>[-/])\d{4}", ("%m{s}%Y",)),
    (rf"{_MONTH}(?P<s>[-/. ,]{{0,2}})\d{{4}}", ("{b}{s}%Y",)),
    (rf"\d{{4}}(?P<s>[-/. ]?){_MONTH}", ("%Y{s}{b}",)),
    (rf"{_MONTH}(?P<s>[-/]?)\d\d", ("{b}{s}%y",)),  # Jan 09 would rather be a day
    (r"\d{4}", ("%Y",)),
    (r"\d{6}", ("%Y%m", "%y%m%d")),
    (r"\d{10}", ("%Y%m%d%H",)),
    (r"\d{12}", ("%Y%m%d%H%M",)),
    (r"\d{14}", ("%Y%m%d%H%M%S",)),
    # The years 1973 to 2096.
    (r"(?:[1-9]\d{8}|[1-3]\d{9})(?:\.\d*)?", ("unix",)),
    (r"(?:[1-9]\d{11}|[1-3]\d{12})(?:\.\d*)?", ("unix_ms",)),
    (r"[1-9]\d{14}|[1-3]\d{15}", ("unix_us",)),
    (r"[1-9]\d{17}|[1-3]\d{18}", ("unix_ns",)),
)
_WRITINGS = [
    *(
        (re.compile(rf"(?:(?P<a>[A-Za-z]{{3,9}})(?P<c>,? ))?{date}(?P<tail>(?:[T ,]+\d.*)?)", re.ASCII), formats)
        for date, formats in _DATES
    ),
    *((re.compile(rf"(?:{writing})(?P<tail>)", re.ASCII), formats) for writing, formats in _OTHERS),
]
_TAIL = re.compile(
    r"(?P<gap>,? +|T)(?:(?P<packed>\d{4}|\d{6})|\d\d?"
    r"(?:(?P<t>[:. ])\d\d?(?P<seconds>(?P=t)\d\d?(?:(?P<f>[.,])\d+)?)?)?)"
    r"(?:(?P<pgap> ?)(?P<p>[AaPp][Mm]))?(?:(?P<zgap> ?)(?P<z>[Zz]|[+-]\d\d:?\d\d))?",
    re.ASCII,
)
_CENTURY_ENDS = 2046  # a year of two digits is one of the hundred before
_SAMPLE = 1_000  # cells from which the formats to be tried are collected, evenly spread; all decide between them


def possible_formats(cells: Sequence[str]) -> list[str]:
    """The formats that read most of a sample of cells (U,), ISO 8601 first."""
    sample = [cells[i] for i in np.linspace(0, len(cells) - 1, num=min(len(cells), _SAMPLE)).astype(int)]
    formats = dict.fromkeys([ISO, *chain.from_iterable(map(_formats_of, sample))])
    counts = {known: int(np.count_nonzero(read_cells(sample, known).notna())) for known in formats}
    return [known for known, count in counts.items() if count == max(counts.values())]


def _formats_of(cell: str) -> list[str]:
    formats = []
    for writing, dates in _WRITINGS:
        match = writing.fullmatch(cell)
        tail = _tail_format(match["tail"]) if match else None
        if match and tail is not None:
            parts = match.groupdict()
            names = {part: parts.get(part) or "" for part in "abc"}
            weekday, month = (f"%{part if len(names[part]) == 3 else part.upper()}" for part in "ab")  # %b: Jan
            head = weekday + names["c"] if names["a"] else ""
            formats += [head + date.format(**parts | {"b": month}) + tail for date in dates]
    return formats


def _tail_format(tail: str) -> str | None:
    """The format of a time of day, with what stands before it; None for what is none."""
    match = _TAIL.fullmatch(tail)
    if match is None:
        return None if tail else ""
    packed, between = match["packed"] or "", match["t"] or ""
    return "".join(
        [
            re.sub(" +", " ", match["gap"]) + ("%I" if match["p"] else "%H"),
            f"{between}%M" if between or packed else "",
            f"{between}%S" if match["seconds"] or len(packed) == 6 else "",
            f"{match['f']}%f" if match["f"] else "",
            f"{match['pgap']}%p" if match["p"] else "",
            f"{match['zgap']}%z" if match["z"] else "",
        ]
    )


def read_cells(cells: Sequence[str], time_format: str) -> pd.DatetimeIndex:
    """(U,) naive, in UTC where the cells carry an offset; NaT for a cell that is not of the format.

    Hour 24 is midnight of the next day; a year of two digits is one from 1946 to 2045.
    time_format: strptime directives as pandas knows them, ISO8601, quarter, week, year.month, excel (its days), unix,
    unix_ms, unix_us or unix_ns. ValueError for an unknown directive, and for a format without a year.
    """
    if time_format in NUMBERS:
        return _read_numbers(cells, time_format)
    texts = np.array(cells, dtype=object)
    word = "quarter" if "%q" in time_format else "week" if {*time_format.split()} == {"%G", "%V"} else time_format
    if word in _WORDS:
        pattern, plain_text, time_format = _WORDS[word]
        matches = [pattern.fullmatch(_YEAR_LAST.sub(r"\2 \1", cell)) for cell in cells]
        texts[:] = [plain_text(match) if match else "" for match in matches]
    if time_format != ISO and not any(year in time_format.replace("%%", "") for year in ("%Y", "%y", "%G")):
        raise ValueError("it has no year (%Y or %y)")
    texts[np.isin(texts, CLOCK)] = ""
    late = np.array(["24" in text and _HOUR_24.search(text) is not None for text in texts], dtype=bool)
    texts[late] = [_HOUR_24.sub(r"\g<1>00\2", text) for text in texts[late]]
    stamps = pd.to_datetime(texts, format=time_format, errors="coerce", utc=True, cache=False)
    stamps = pd.DatetimeIndex(stamps).tz_localize(None)
    if "%y" in time_format:
        stamps = stamps.where(stamps.year < _CENTURY_ENDS, stamps - pd.DateOffset(years=100))
    return pd.DatetimeIndex(stamps.where(stamps.year.isin(YEARS))) + late.astype("timedelta64[D]")


def _read_numbers(cells: Sequence[str], time_format: str) -> pd.DatetimeIndex:
    """Unix time, or the days of a spreadsheet."""
    plain = pd.Series([cell if _NUMBER.fullmatch(cell) else None for cell in cells], dtype=object)
    numbers = pd.to_numeric(plain, dtype_backend="numpy_nullable")  # a whole one beside a gap stays whole
    unit, finest = NUMBERS[time_format]
    origin = EXCEL_START if time_format == "excel" else "unix"
    stamps = pd.DatetimeIndex(pd.to_datetime(numbers, unit=unit, origin=origin, errors="coerce")).round(finest)
    return pd.DatetimeIndex(stamps.where(stamps.year.isin(YEARS)))
