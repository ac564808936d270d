"""How a timestamp can be written: the formats that a cell may have, and the reading of cells in one format."""

import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from itertools import chain

import numpy as np
import pandas as pd

ISO = "ISO8601"
UNIX_SIZES = {"unix": 10**9, "unix_ms": 10**6, "unix_us": 10**3, "unix_ns": 1}  # nanoseconds of one
UNIX = frozenset(UNIX_SIZES)
# Those that nanoseconds reach: pandas 2 knows no others, and with pandas 3 steps between others overflow.
YEARS = range(pd.Timestamp.min.year + 1, pd.Timestamp.max.year)
EXCEL_START = pd.Timestamp("1899-12-30").as_unit("ns")  # from which a spreadsheet counts days
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
MONTH_NUMBERS = {name[:n]: i for i, name in enumerate(_MONTHS, start=1) for n in (3, None)}
CLOCK = ["now", "today"]  # pandas would look at the clock
_DAY = 86_400 * 10**9  # nanoseconds
_DECIMAL = re.compile(r"[+-]?\d{1,19}(?:\.\d*)?", re.ASCII)
# Formats that strptime has none for, by name: what cells look like, and what of their numbers strptime reads. In a year
# and a month that are one number, 1990.1, .1 is .10.
_YEAR, _WEEK = r"(?P<year>\d{4})", r"(?P<week>\d\d?)(?:-?(?P<day>[1-7]))?"
_BY_NAME: dict[str, tuple[tuple[re.Pattern[str], ...], Callable[[re.Match[str]], str], str]] = {
    name: (tuple(re.compile(writing, re.IGNORECASE | re.ASCII) for writing in writings), plain, plain_format)
    for name, writings, plain, plain_format in (
        (
            "quarter",
            (
                rf"{_YEAR}(?:[-/. ]?q|[-/. ])(?P<quarter>[1-4])",
                rf"(?:q(?P<quarter>[1-4])[-/. ]?){_YEAR}",
                rf"(?P<quarter>[1-4])(?:[-/. ]?q ?|[-/]){_YEAR}",
            ),
            lambda cell: f"{cell['year']}-{3 * int(cell['quarter']) - 2:02}",
            "%Y-%m",
        ),
        (
            "week",
            (
                rf"{_YEAR}(?:[-/. ]?(?:w|kw|wk|week) ?|[-/ ]){_WEEK}",
                rf"(?:w|kw|wk|week) ?(?P<week>\d\d?)[-/. ]{_YEAR}",
                rf"(?P<week>\d\d?)[-/]{_YEAR}",
                rf"{_YEAR}(?P<week>\d\d)",
            ),
            lambda cell: f"{cell['year']}-{int(cell['week']):02}-{cell.groupdict().get('day') or 1}",
            "%G-%V-%u",
        ),
        (
            "year.month",
            (rf"{_YEAR}\.(?P<month>0[1-9]|1[0-2]?)",),
            lambda cell: f"{cell['year']}-{cell['month']:0<2}",
            "%Y-%m",
        ),
    )
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
ZONE_NAME = re.compile(r"\d[T :]\d\d.*?( ?\b[A-Z]{3,4})$", re.ASCII)
_SAMPLE = 1_000  # cells from which the formats to be tried are collected; all cells decide between them


def possible_formats(cells: Sequence[str]) -> list[str]:
    """The formats that the cells (U,) may have, ISO 8601 first; `read_cells` tells which they do have."""
    formats = [_formats_of(cells[i]) for i in spread(len(cells))]
    return list(dict.fromkeys([ISO, *chain.from_iterable(formats)]))


def format_with_zone_name(cells: Collection[str]) -> str | None:
    """The format of times that all end in the letters of one zone, as 2016-07-01 00:00 CET; None without one."""
    name, *others = {match and match[1] for match in map(ZONE_NAME.search, cells)}
    if others or name is None:
        return None
    formats = possible_formats([cell.removesuffix(name) for cell in cells])[1:]
    return formats[0] + name if len(formats) == 1 else None


def spread(size: int) -> list[int]:
    """The places of at most a thousand of `size` things, evenly spread, the first and the last among them."""
    return sorted(set(np.linspace(0, size - 1, num=min(size, _SAMPLE)).astype(int).tolist()))


def _formats_of(cell: str) -> list[str]:
    formats = []
    for writing, dates in _WRITINGS:
        match = writing.fullmatch(cell)
        tail = _tail_format(match["tail"]) if match else None
        if match and tail is not None:
            parts = match.groupdict()
            weekday, month = (_name_format(parts.get(part), part) for part in "ab")
            head = weekday + (parts.get("c") or "")
            formats += [head + date.format(**parts | {"b": month}) + tail for date in dates]
    return formats


def _name_format(name: str | None, directive: str) -> str:
    """The directive of the name of a month or a weekday: %b for Jan, %B for January."""
    return f"%{directive if len(name) == 3 else directive.upper()}" if name else ""


def is_hour_24(cell: str) -> bool:
    """Whether a cell is midnight of the next day, as 2016-07-01 24:00."""
    return "24" in cell and _HOUR_24.search(cell) is not None


def _tail_format(tail: str) -> str | None:
    """The format of a time of day, with what stands before it; None for what is none."""
    match = _TAIL.fullmatch(tail)
    if match is None:
        return None if tail else ""
    packed, between = match["packed"] or "", match["t"] or ""
    pieces = [
        re.sub(" +", " ", match["gap"]) + ("%I" if match["p"] else "%H"),
        f"{between}%M" if between or packed else "",
        f"{between}%S" if match["seconds"] or len(packed) == 6 else "",
        f"{match['f']}%f" if match["f"] else "",
        f"{match['pgap']}%p" if match["p"] else "",
        f"{match['zgap']}%z" if match["z"] else "",
    ]
    return "".join(pieces)


def read_cells(cells: Sequence[str], time_format: str) -> pd.DatetimeIndex:
    """(U,) naive, in UTC where the cells carry an offset; NaT for a cell that is not of the format.

    Hour 24 is midnight of the next day.
    time_format: strptime directives as pandas knows them, ISO8601, quarter, week, year.month, excel (its days), unix,
    unix_ms, unix_us or unix_ns; two with | between them: the first that reads a cell. ValueError for an unknown
    directive, and for a format without a year.
    """
    if time_format in UNIX or time_format == "excel":
        return _read_numbers(cells, time_format)
    if time_format in _BY_NAME:
        writings, plain_text, time_format = _BY_NAME[time_format]
        matches = [next(filter(None, (writing.fullmatch(cell) for writing in writings)), None) for cell in cells]
        cells = [plain_text(match) if match else "" for match in matches]
    first, _, other = time_format.partition("|")
    if has_year(first) and has_year(other):
        by_first = read_cells(cells, first)
        return pd.DatetimeIndex(by_first.where(by_first.notna(), read_cells(cells, other)))
    if time_format != ISO and not has_year(time_format):
        raise ValueError("it has no year (%Y or %y)")
    layout, texts = _layout(time_format), np.array(cells, dtype=object)
    if layout is not None:
        texts[[layout.fullmatch(cell) is None for cell in cells]] = ""
    texts[np.isin(texts, CLOCK)] = ""
    late = np.array([is_hour_24(cell) for cell in texts], dtype=bool)
    texts[late] = [_HOUR_24.sub(r"\g<1>00\2", cell) for cell in texts[late]]
    stamps = pd.to_datetime(texts, format=time_format, errors="coerce", utc=True, cache=False)
    stamps = pd.DatetimeIndex(stamps).tz_localize(None)
    known = np.asarray(stamps.year.isin(YEARS))
    if time_format.startswith("%G"):  # pandas 2 takes week 53 of a year without one for the next year's first
        known &= np.asarray(stamps.isocalendar().year.astype(str)) == [cell[:4] for cell in cells]
    return pd.DatetimeIndex(stamps.where(known)) + late.astype("timedelta64[D]")


def has_year(time_format: str) -> bool:
    """Whether a format tells the year."""
    return any(year in time_format.replace("%%", "") for year in ("%Y", "%y", "%G"))


def _read_numbers(cells: Sequence[str], time_format: str) -> pd.DatetimeIndex:
    """Unix time, or the days of a spreadsheet, whose fractions are of a millisecond at best."""
    size = UNIX_SIZES.get(time_format, _DAY)
    numbers = [Decimal(cell) * size if _DECIMAL.fullmatch(cell) else Decimal("NaN") for cell in cells]
    if time_format == "excel":
        numbers = [round(number, -6) + EXCEL_START.value for number in numbers]
    low, high = (pd.Timestamp(str(year)).value for year in (YEARS[0], YEARS[-1]))
    missing = np.iinfo(np.int64).min  # NaT
    known = [int(number) if not number.is_nan() and low <= number < high else missing for number in numbers]
    stamps = pd.DatetimeIndex(np.array(known, dtype=np.int64).view("datetime64[ns]"))
    # In the unit in which pandas reads texts, which differs between its versions.
    return stamps if size == 1 else stamps.as_unit(pd.to_datetime(["2000-01-01"]).unit)


def _layout(time_format: str) -> re.Pattern[str] | None:
    """What strptime would be too generous with: 2016711 as %Y%m%d, 18.5 as %H.%M; None where nothing is."""
    widths = {"%Y": 4, "%G": 4, "%j": 3}
    pieces = re.split(r"((?:%[YymdHIMSjGVWU]){2,}|\.%M)", time_format)
    for i, run in enumerate(pieces):
        digits = sum(widths.get(directive, 2) for directive in re.findall("%.", run))
        before = re.escape(run[:1].strip("%"))
        pieces[i] = rf"{before}(?<!\d)\d{{{digits}}}(?!\d)" if i % 2 else ".*" if run else ""
    return re.compile("".join(pieces), re.DOTALL) if len(pieces) > 1 else None
