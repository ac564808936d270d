"""How a timestamp can be written: the formats that a cell may have, and the reading of cells in one format."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from itertools import chain, islice

import numpy as np
import pandas as pd

from forecast.errors import UserError

ISO = "ISO8601"
# Nanoseconds of one, and the numbers taken for it where no format is given: the years 1973 to 2100.
UNIX_SIZES = {"unix": 10**9, "unix_ms": 10**6, "unix_us": 10**3, "unix_ns": 1}
_UNIX_SECONDS = range(100_000_000, 4_102_444_800)
UNIX = frozenset(UNIX_SIZES)
# Those that nanoseconds reach: pandas 2 knows no others, and with pandas 3 steps between others overflow.
YEARS = range(pd.Timestamp.min.year + 1, pd.Timestamp.max.year)
CLOCK = ("now", "today")  # pandas would look at the clock

# English by hand: what strptime takes for a month or a weekday depends on the locale of the process.
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTH_NUMBERS = {name[:n]: i for i, name in enumerate(_MONTHS, start=1) for n in (3, None)} | {"sept": 9}
_WORDS = (
    {name: f"~{number:02}~" for name, number in MONTH_NUMBERS.items()}
    | {name[:n]: "~" for name in _WEEKDAYS for n in (3, None)}
    | {"am": "~", "pm": "~"}
)
_WORD_DIRECTIVES = {"%b": "~%m~", "%B": "~%m~", "%a": "~", "%A": "~", "%p": "~"}
_OFFSET = re.compile(r"[T ].*\d[+-](\d[\d:]*)$", re.ASCII)
_PM = re.compile(r"(?<![a-z])pm(?![a-z])", re.IGNORECASE)
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
# What cells may mean that no usual format reads, or none as a regular series: proposed, and read where it is set.
LESS_USUAL = frozenset({*_BY_NAME, "excel"})
EXCEL_START = pd.Timestamp("1899-12-30").as_unit("ns")  # from which a spreadsheet counts days
_DAY = 86_400 * 10**9  # nanoseconds
_EXCEL_SECONDS = range(4_102_444_800)  # the years 1970 to 2099
_PLAIN_MONTH = re.compile(r"\d{4}[-/. ]\d\d?", re.ASCII)

# Hour 24 of a day: 2016-07-01 24:00, 1.7.2016 24, 20160701 2400, 2016070124.
_HOUR_24 = re.compile(
    r"((?:(?<=\d)|,) *[T ]|^\d{8})24((?:[:. ]?00){0,2}(?:[.,]0+)?(?: ?(?:[Zz]|[+-]\d\d:?\d\d))?)$", re.ASCII
)

_Row = tuple[re.Pattern[str], tuple[str, ...]]
_NAME = "[A-Za-z]{3,9}"
# (writing, its formats); `s` and `r` are what stands between the parts. Where one has several, all are tried.
_DAYS: tuple[_Row, ...] = tuple(
    (re.compile(rf"(?:(?P<a>{_NAME})(?P<c>,? ))?{writing}(?P<tail>(?:[T ,]+\d.*)?)", re.ASCII), formats)
    for writing, formats in (
        (r"\d{4}(?P<s>[-/. ])\d\d?(?P=s)\d\d?", ("%Y{s}%m{s}%d",)),
        (r"\d\d?(?P<s>[-/. ])\d\d?(?P=s)\d{4}", ("%d{s}%m{s}%Y", "%m{s}%d{s}%Y")),
        (r"\d\d?(?P<s>[-/. ])\d\d?(?P=s)\d\d", ("%d{s}%m{s}%y", "%m{s}%d{s}%y")),
        (r"\d\d(?P<s>[-/. ])\d\d?(?P=s)\d\d?", ("%y{s}%m{s}%d",)),
        (rf"\d\d?(?P<s>[-/. ,]{{0,2}}){_NAME}(?P<r>[-/. ,]{{0,2}})\d{{4}}", ("%d{s}%b{r}%Y",)),
        (rf"\d\d?(?P<s>[-/. ,]{{0,2}}){_NAME}(?P<r>[-/. ,]{{0,2}})\d\d", ("%d{s}%b{r}%y",)),
        (rf"{_NAME}(?P<s>[-/. ]{{0,2}})\d\d?(?P<r>[-/. ,]{{1,2}})\d{{4}}", ("%b{s}%d{r}%Y",)),
        (rf"{_NAME}(?P<s>[-/. ]{{0,2}})\d\d?(?P<r>[-/. ,]{{1,2}})\d\d", ("%b{s}%d{r}%y",)),
        (rf"\d{{4}}(?P<s>[-/. ]?){_NAME}(?P<r>[-/. ]?)\d\d?", ("%Y{s}%b{r}%d",)),
        (r"\d{8}", ("%Y%m%d", "%d%m%Y", "%m%d%Y")),
    )
)
_WHOLE: tuple[_Row, ...] = tuple(
    (re.compile(writing, re.ASCII), formats)
    for writing, formats in (
        (r"\d{4}(?P<s>[-/ ])\d\d?", ("%Y{s}%m",)),
        (r"\d\d?(?P<s>[-/])\d{4}", ("%m{s}%Y",)),
        (rf"{_NAME}(?P<s>[-/. ,]{{0,2}})\d{{4}}", ("%b{s}%Y",)),
        (rf"\d{{4}}(?P<s>[-/. ]?){_NAME}", ("%Y{s}%b",)),
        (rf"{_NAME}(?P<s>[-/]?)\d\d", ("%b{s}%y",)),  # Jan 09 would rather be a day
        (r"\d{4}", ("%Y",)),
        (r"\d{6}", ("%Y%m", "%y%m%d", "%d%m%y", "%m%d%y")),
        (r"\d{9}(?:\.\d*)?", ("unix",)),
        (r"\d{10}(?:\.\d*)?", ("unix", "%Y%m%d%H")),
        (r"\d{12}(?:\.\d*)?", ("unix_ms", "%Y%m%d%H%M")),
        (r"\d{13}(?:\.\d*)?", ("unix_ms",)),
        (r"\d{14}", ("%Y%m%d%H%M%S",)),
        (r"\d{15,16}", ("unix_us",)),
        (r"\d{18,19}", ("unix_ns",)),
    )
)
_TAIL = re.compile(
    r"(?P<gap>,? +|T)(?:(?P<packed>\d{4}|\d{6})|\d\d?"
    r"(?:(?P<t>[:. ])\d\d?(?P<seconds>(?P=t)\d\d?(?:(?P<f>[.,])\d+)?)?)?)"
    r"(?:(?P<pgap> ?)(?P<p>[AaPp][Mm]))?(?:(?P<zgap> ?)(?:[Zz]|[+-]\d\d:?\d\d))?",
    re.ASCII,
)
ZONE_NAME = re.compile(r"\d[T :]\d\d.*?( ?\b[A-Z]{3,4})$", re.ASCII)
_SAMPLE = 1_000  # cells from which the formats to be tried are collected; all cells decide between them
_SHAPES = 5  # formats of so many different writings are tried, the commonest first


def possible_formats(cells: Sequence[str]) -> list[str]:
    """The formats that the cells (U,) may have, ISO 8601 first; `read_cells` tells which they do have."""
    shapes = Counter(tuple(_formats_of(cells[i])) for i in spread(len(cells)))
    return list(dict.fromkeys([ISO, *chain.from_iterable(shape for shape, _ in shapes.most_common(_SHAPES))]))


def format_with_zone_name(cells: Collection[str]) -> str | None:
    """The format of times that all end in the letters of one zone, as 2016-07-01 00:00 CET; None without one."""
    names = {match and match[1] for match in map(ZONE_NAME.search, cells)}
    name = names.pop()
    if names or name is None:
        return None
    formats = {tuple(_formats_of(cell.removesuffix(name))) for cell in islice(cells, _SAMPLE)}
    ((*known,), *others) = formats
    return known[0] + name if len(known) == 1 and not others else None


def spread(size: int) -> list[int]:
    """The places of at most a thousand of `size` things, evenly spread, the first and the last among them."""
    return sorted(set(np.linspace(0, size - 1, num=min(size, _SAMPLE)).astype(int).tolist()))


def _formats_of(cell: str) -> list[str]:
    formats = []
    for writing, dates in _DAYS:
        match = writing.fullmatch(cell)
        tail = _tail_format(match["tail"]) if match else None
        if match and tail is not None:
            weekday = f"%a{match['c']}" if match["a"] else ""
            formats += [weekday + date.format(**match.groupdict()) + tail for date in dates]
    for writing, dates in _WHOLE:
        if match := writing.fullmatch(cell):
            formats += [date.format(**match.groupdict()) for date in dates]
    return formats


def is_year_and_number(cell: str) -> bool:
    """Whether a cell is a year and the number of a part of it, which ISO 8601 takes for a month."""
    return _PLAIN_MONTH.fullmatch(cell) is not None


def _tail_format(tail: str) -> str | None:
    """The format of a time of day, with what stands before it; None for what is none."""
    if not tail:
        return ""
    match = _TAIL.fullmatch(tail)
    if match is None:
        return None
    hour, between = "%I" if match["p"] else "%H", match["t"] or ""
    minutes = match["t"] is not None or match["packed"]
    seconds = match["seconds"] or len(match["packed"] or "") == 6
    zone = re.search(r"(Z|[+-]\d\d:?\d\d)$", tail, re.IGNORECASE)
    return "".join(
        (
            re.sub(" +", " ", match["gap"]),
            hour,
            f"{between}%M" if minutes else "",
            f"{between}%S" if seconds else "",
            f"{match['f']}%f" if match["f"] else "",
            f"{match['pgap']}%p" if match["p"] else "",
            f"{match['zgap']}%z" if zone else "",
        )
    )


def read_cells(cells: Sequence[str], time_format: str, *, guessed: bool = False) -> pd.DatetimeIndex:
    """(U,) naive, in UTC where the cells carry an offset; NaT for a cell that is not of the format.

    Hour 24 is midnight of the next day.
    time_format: strptime directives as pandas knows them, ISO8601, quarter, week, year.month, excel (its days), unix,
    unix_ms, unix_us or unix_ns; several with | between them: the first that reads a cell.
    guessed: numbers are refused outside of our years. ValueError for an unknown directive.
    """
    if time_format in UNIX or time_format == "excel":
        return _read_numbers(cells, time_format, guessed=guessed)
    if time_format in _BY_NAME:
        writings, plain_text, plain_format = _BY_NAME[time_format]
        matches = [next(filter(None, (writing.fullmatch(cell) for writing in writings)), None) for cell in cells]
        return _parsed([plain_text(match) if match else "" for match in matches], plain_format)
    first, _, others = time_format.partition("|")
    if has_year(first) and has_year(others):
        by_first = read_cells(cells, first)
        whole: pd.DatetimeIndex = pd.DatetimeIndex(by_first.where(by_first.notna(), read_cells(cells, others)))
        return whole
    if time_format == ISO:
        cells = _without_cut_offsets(cells)
    plain, plain_format = _without_words(cells, time_format)
    layout = _layout(plain_format)
    if layout is not None:
        plain = [cell if layout.fullmatch(cell) else "" for cell in plain]
    stamps = _parsed(plain, plain_format)
    if "%I" in time_format and "%p" in time_format:
        afternoon = np.array([_PM.search(cell) is not None for cell in cells], dtype=bool)
        stamps = pd.DatetimeIndex(stamps.to_numpy() + np.where(afternoon, 12, 0).astype("timedelta64[h]"))
    clock = np.array([cell in CLOCK for cell in cells], dtype=bool)
    known: pd.DatetimeIndex = pd.DatetimeIndex(stamps.where(np.asarray(stamps.year.isin(YEARS)) & ~clock))
    late = midnights_as_24(cells, time_format) if known.hasnans else None
    return known if late is None else known.where(known.notna(), late)


def midnights_as_24(cells: Sequence[str], time_format: str) -> pd.DatetimeIndex | None:
    """(U,): midnight of the next day for a cell with hour 24, NaT for any other; None where no cell has it."""
    places = [i for i, cell in enumerate(cells) if "24" in cell and _HOUR_24.search(cell)]
    if not places:
        return None
    stamps = pd.Series(pd.NaT, index=range(len(cells)), dtype="datetime64[ns]")
    days = read_cells([_HOUR_24.sub(r"\g<1>00\2", cells[i]) for i in places], time_format)
    stamps.iloc[places] = (days + pd.Timedelta(days=1)).to_numpy()
    late: pd.DatetimeIndex = pd.DatetimeIndex(stamps)
    return late


def _without_cut_offsets(cells: Sequence[str]) -> list[str]:
    """The cells (U,), empty where an offset from UTC is cut off, which pandas would read as a smaller one.

    +5, +05:3, and +05 beside others as +05:30.
    """
    offsets = [_OFFSET.search(cell) if "+" in cell or "-" in cell[10:] else None for cell in cells]
    digits = [len(match[1].replace(":", "")) if match else None for match in offsets]
    whole = max((count for count in digits if count is not None), default=0)
    return [cell if count in (None, whole) and count != 1 else "" for cell, count in zip(cells, digits, strict=True)]


def _parsed(cells: Sequence[str], time_format: str) -> pd.DatetimeIndex:
    """(U,) naive. Where a date and a time of day stand beside each other each different one is read once."""
    date, gap, time = time_format.partition(" ")
    if not gap or re.search("%[^Ymdy]", date) or re.search("%[^HIMSf]", time) or "%" not in time:
        texts = np.array(cells, dtype=object)
        stamps = pd.to_datetime(texts, format=time_format, errors="coerce", utc=True, cache=False)
        naive: pd.DatetimeIndex = pd.DatetimeIndex(stamps).tz_localize(None)
        if time_format.startswith("%G"):  # pandas 2 takes week 53 of a year without one for the next year's first
            known = np.asarray(naive.isocalendar().year.astype(str)) == [cell[:4] for cell in cells]
            naive = pd.DatetimeIndex(naive.where(known))
        return naive
    halves = [cell.partition(" ") for cell in cells]
    days, dates = pd.factorize(np.array([day for day, _, _ in halves], dtype=object))
    clocks, times = pd.factorize(np.array([clock.lstrip(" ") for _, _, clock in halves], dtype=object))
    since = _parsed(times.tolist(), time.lstrip(" ")) - pd.Timestamp("1900-01-01")  # strptime's day for a time alone
    midnights = _parsed(dates.tolist(), date)
    countable = midnights.where(np.asarray(midnights.year.isin(YEARS)))  # beyond them a sum may overflow
    read: pd.DatetimeIndex = pd.DatetimeIndex(countable[days] + since[clocks])
    return read


def has_year(time_format: str) -> bool:
    """Whether a format tells the year."""
    return any(year in time_format.replace("%%", "") for year in ("%Y", "%y", "%G"))


def check_format(time_format: str) -> None:
    """UserError for a format that `read_cells` does not know, or that has no year."""
    fix = "Write it as data.time_format='%d/%m/%Y %H:%M', with the directives of strptime, or as unix or unix_ms."
    if time_format in (ISO, *LESS_USUAL, *UNIX):
        return
    if not has_year(time_format):
        raise UserError(f"data.time_format={time_format!r} has no year (%Y or %y). {fix}")
    try:
        read_cells(["2000"], time_format)
    except (ValueError, re.error) as error:
        reason = str(error).split(" in format")[0]
        raise UserError(f"data.time_format={time_format!r} cannot be used: {reason}. {fix}") from error


def _read_numbers(cells: Sequence[str], time_format: str, *, guessed: bool) -> pd.DatetimeIndex:
    """Unix time, or the days of a spreadsheet, whose fractions are of a millisecond at best."""
    size = UNIX_SIZES.get(time_format, _DAY)
    numbers: list[int | None] = [int(Decimal(c) * size) if _DECIMAL.fullmatch(c) else None for c in cells]
    seconds = _UNIX_SECONDS
    if time_format == "excel":
        numbers = [None if n is None else round(n, -6) + EXCEL_START.value for n in numbers]
        seconds = _EXCEL_SECONDS
    low, high = (
        (seconds[0] * 10**9, seconds[-1] * 10**9)
        if guessed
        else (pd.Timestamp(f"{YEARS[0]}-01-01").value, pd.Timestamp(f"{YEARS[-1]}-12-31").value)
    )
    missing = np.iinfo(np.int64).min  # NaT
    known = [n if n is not None and low <= n <= high else missing for n in numbers]
    stamps = pd.DatetimeIndex(np.array(known, dtype=np.int64).view("datetime64[ns]"))
    # In the unit in which pandas reads texts, which differs between its versions.
    usual: pd.DatetimeIndex = stamps if size == 1 else stamps.as_unit(pd.to_datetime(["2000-01-01"]).unit)
    return usual


def _without_words(cells: Sequence[str], time_format: str) -> tuple[Sequence[str], str]:
    """The cells and the format with months as numbers, without weekdays, AM and PM."""
    if not any(directive in time_format for directive in _WORD_DIRECTIVES):
        return cells, time_format
    plain = [re.sub("[A-Za-z]+", lambda m: _WORDS.get(m[0].lower(), m[0]), cell) for cell in cells]
    return plain, re.sub("%.", lambda m: _WORD_DIRECTIVES.get(m[0], m[0]), time_format)


def _layout(time_format: str) -> re.Pattern[str] | None:
    """What pandas would be too generous with: 2016711 as %Y%m%d, 18.5 as %H.%M; None where nothing is."""
    widths = {"%Y": 4, "%G": 4, "%j": 3}
    pieces = re.split(r"((?:%[YymdHIMSjGVWU]){2,}|\.%M)", time_format)
    if len(pieces) == 1:
        return None
    patterns = []
    for i, piece in enumerate(pieces):
        if i % 2:
            digits = rf"\d{{{sum(widths.get(d, 2) for d in re.findall('%.', piece))}}}"
            patterns.append(rf"\.{digits}" if piece.startswith(".") else rf"(?<!\d){digits}(?!\d)")
        else:
            patterns.append(".*" if piece else "")
    return re.compile("".join(patterns), re.DOTALL)
