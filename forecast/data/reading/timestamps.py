"""The time columns of a file as timestamps: one format for all cells, decided from all of them, or refused."""

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.reading.columns import BLANKS
from forecast.data.reading.time_formats import CLOCK, ISO, NUMBERS, YEARS, possible_formats, read_cells
from forecast.data.values.calendar import are_below_a_day, infer_frequency
from forecast.data.values.cells import quoted
from forecast.errors import UserError, closest
from forecast.text.overrides import typed

Codes = npt.NDArray[np.intp]
_WHOLE = re.compile(r"[+-]?\d{1,15}(\.0*)?", re.ASCII)
_SERIAL = re.compile(r"[2-7]\d{4}(\.\d*)?", re.ASCII)  # days of a spreadsheet, of the years 1954 to 2118
_OFFSET, _MOST_OFFSETS = re.compile(r"(?<=:\d\d)[+-]\d\d:?\d\d$", re.ASCII), 4  # more are no offsets: 00:00-01:00
_YEAR_AND_NUMBER = re.compile(r"\d{4}[-/. ]\d\d?", re.ASCII)
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
# Of a column that may hold the days of a spreadsheet: 39356 may as well be a second.
_DAY = re.compile(r"(?:^|[^a-z])(?:date|datetime|day|ds|dt|datum)(?:$|[^a-z])")
# What is wrong with a cell by the kinds of `TimeReading.faults`, and the fix.
FAULTS = {
    "missing": ("the timestamp is missing", "Fill it in or drop the line."),
    "zone": (
        "{} has an offset from UTC and other timestamps have none, or the other way round",
        "Write all with their offset, or none.",
    ),
    "unreadable": (
        f"{{}} is no timestamp of the years {YEARS[0]} to {YEARS[-1]}, or not written as the others are",
        "Correct it, or set data.time_format, as '%d/%m/%Y %H:%M' or, of a zone's letters, '%Y-%m-%d %H:%M CET'.",
    ),
}


@dataclass(frozen=True)
class TimeReading:
    """The timestamps of N rows, and how they were read.

    stamps (N,) naive, NaT where a cell cannot be read. settings: data.KEY -> VALUE that say the same as was decided, {}
    for plain ISO 8601. faults: row -> one of `FAULTS`.
    clock: the zone by whose clock `stamps` are instants: that of data.time_zone, or UTC; None where they are none.
    """

    stamps: pd.DatetimeIndex
    settings: dict[str, str]
    faults: dict[int, str]
    clock: str | None = None


class AmbiguousTime(UserError):
    """Several readings of the cells give other timestamps, or one must be set. candidates: for each what sets it."""

    def __init__(self, message: str, candidates: list[dict[str, str]]) -> None:
        super().__init__(message)
        self.candidates = candidates


def part_of(name: str) -> str | None:
    """The part of a time that a column of this name holds."""
    bare = re.sub("[^a-z]", "", name.lower())
    return next((part for part, known in _PARTS.items() if bare in known), None)


def format_of_parts(columns: Mapping[str, Sequence[str]], missing: Collection[str]) -> str | None:
    """The format of cells of these columns joined by spaces; None unless these are several, called as parts of a time.

    The month is a number or a name. UserError for a part that is there twice, and for one that is lacking between the
    year and the finest.
    """
    parts = {part_of(name): name for name in columns}
    if len(columns) == 1 or "year" not in parts or None in parts:
        return None
    coarsest_first = [part for part in _PARTS if part in parts]
    wholes = (["year", "quarter"], ["year", "week"], list(_DIRECTIVES)[: len(columns)])
    if coarsest_first not in wholes or len(parts) < len(columns):
        raise UserError(
            f"data.time_column names {', '.join(map(repr, columns))}, which are no time. Name the columns of the year, "
            "month, day, hour, minute and second, each once and none of them left out before the last, or those of "
            "the year and the quarter or week, or set data.time_format for all of them joined by spaces."
        )
    directives = {**_DIRECTIVES, "quarter": "%q", "week": "%V", "year": "%G" if "week" in parts else "%Y"}
    months = {cell.strip(BLANKS) for cell in columns.get(parts.get("month", ""), ())} - {*missing, ""}
    if any(map(str.isalpha, months)):
        directives["month"] = "%b" if max(map(len, months)) == 3 else "%B"
    return " ".join(directives[part] for part in parts if part is not None)


def row_texts(
    columns: Mapping[str, Sequence[str]], missing: Collection[str], *, are_parts: bool = False
) -> tuple[Codes, list[str]]:
    """(codes (N,), U texts): the cells of each row joined by a space, "" where one of them is missing.

    columns: of N cells each. are_parts: whether they are parts of a time, whose whole numbers may be written 2010.0.
    """
    order = list(columns.values())
    # "\x1f", for to pandas 2 a text ends at a NUL
    rows = order[0] if len(order) == 1 else ["\x1f".join(cells) for cells in zip(*order, strict=True)]
    codes, unique = pd.factorize(pd.Series(rows, dtype=object).fillna("").to_numpy())
    texts = []
    for row in unique:  # each different one is looked at once
        cells = [cell.strip(BLANKS) for cell in row.split("\x1f")]
        cells = [re.sub(r"\.0+$", "", cell) for cell in cells] if are_parts else cells
        texts.append("" if "" in cells or any(cell in missing for cell in cells) else " ".join(cells))
    return codes, texts


def read_timestamps(
    columns: Mapping[str, Sequence[str]],
    *,
    missing: Collection[str],
    time_format: str | None = None,
    time_zone: str | None = None,
) -> TimeReading:
    """The timestamps in one or more columns of N cells each, in the order of data.time_column.

    Several columns are the parts of a time, known by their names (year, month, day, hour, ...), or are joined by one
    space. missing: cells that hold no timestamp. time_format: reads the cells, joined; one of `read_cells`, None to
    decide. time_zone: the IANA name of the zone to which instants are converted, None for UTC; cells without an offset
    stay as they are. AmbiguousTime when two formats fit, or one that must be set, and for midnights of another zone
    than UTC; UserError for an unknown format or zone.
    """
    parts_format = format_of_parts(columns, missing) if time_format is None else None
    codes, written = row_texts(columns, missing, are_parts=parts_format is not None)
    texts = [re.sub("(UTC|GMT)$", "Z", text) for text in written]
    if parts_format is not None:
        time_format, stamps = parts_format, read_cells(texts, parts_format)
    elif time_format is None:
        time_format, stamps = _decided(texts, codes, are_days=all(_DAY.search(name.lower()) for name in columns))
    else:
        time_format = time_format.replace("%Z", "%z")  # names of zones but UTC are not unique
        try:
            stamps = read_cells(texts, time_format)
        except (ValueError, re.error) as error:
            raise UserError(
                f"data.time_format={time_format!r} cannot be used: {str(error).split(' in format')[0]}. Write it as "
                "data.time_format='%d/%m/%Y %H:%M', with the directives of strptime, or as unix or unix_ms."
            ) from error
    settings = {} if time_format == ISO else {"data.time_format": time_format}
    kinds, are_instants = _faults(texts, stamps, time_format)
    if len({zone[0] for zone in map(_OFFSET.search, texts) if zone}) > _MOST_OFFSETS:
        kinds[:] = "unreadable"
    stamps, clock = pd.DatetimeIndex(stamps.where(kinds == "")), None
    if are_instants:
        stamps, clock = _by_clock(stamps, time_zone, texts[codes[0]])
        settings["data.time_zone"] = time_zone or "UTC"
    of_rows = kinds[codes]
    faults = {int(row): of_rows[row] for row in np.flatnonzero(of_rows)}
    return TimeReading(stamps[codes], settings, faults, clock)


def whole_numbers(words: Sequence[str], name: str = "", time_zone: str | None = None) -> bool:
    """Whether all of these are whole numbers, and not all of them dates written so, as 2016 and 20160701 are.

    name: of their column. time_zone, AmbiguousTime: as for `read_timestamps`.
    """
    if not words or not all(_WHOLE.fullmatch(word) for word in words):
        return False
    return bool(read_timestamps({name: words}, missing=(), time_zone=time_zone).faults)


def typed_timestamps(stamps: pd.DatetimeIndex, time_zone: str | None) -> TimeReading:
    """The timestamps (N,) of a column that holds nothing else, NaT where one is missing, as `read_timestamps`.

    Those of a zone, in which the file shows them, are instants, and midnights there are days.
    """
    are_read = np.ones(len(stamps), dtype=bool)
    if {stamps.min().year, stamps.max().year} - set(YEARS) or stamps.hasnans:
        are_read = stamps.year.isin(YEARS)
    rows = np.flatnonzero(~are_read).tolist()
    faults = {row: "missing" if stamps[row] is pd.NaT else "unreadable" for row in rows}
    stamps = stamps if not faults else pd.DatetimeIndex(stamps.where(are_read))
    if stamps.tz is None:
        return TimeReading(stamps, {}, faults)
    local = stamps.tz_localize(None)
    if time_zone is None and (local.dropna() == local.dropna().normalize()).all():
        known = str(stamps.tz) in available_timezones()
        settings = {"data.time_zone": str(stamps.tz)} if known else {}
        return TimeReading(local, settings, faults, settings.get("data.time_zone"))
    stamps, clock = _by_clock(stamps.tz_convert(None), time_zone or "UTC")
    return TimeReading(stamps, {"data.time_zone": time_zone or "UTC"}, faults, clock)


def _by_clock(instants: pd.DatetimeIndex, zone: str | None, first: str = "") -> tuple[pd.DatetimeIndex, str]:
    """Instants (N,) in UTC, by the clock of a zone where they are days or more apart; whose clock they then show.

    Below a day they stay in UTC: a clock that is set back and forth has an hour twice, and another never. first: a cell
    of theirs. AmbiguousTime for days without a zone that do not begin at midnight of UTC.
    """
    if zone == "UTC":
        return instants, zone
    known = instants.dropna().sort_values().unique()
    are_days = len(known) > 1 and not are_below_a_day(known)
    if zone is None and are_days and (known != known.normalize()).any():
        raise AmbiguousTime(
            f"{quoted(first)} in row 1 is, as others, a time of a day that does not begin at midnight of UTC. Set "
            "data.time_zone=Europe/Berlin, or the zone of the data, or data.time_zone=UTC.",
            [{"data.time_zone": "UTC"}],
        )
    try:
        local = instants.tz_localize("UTC").tz_convert(ZoneInfo(zone or "UTC")).tz_localize(None)
    except (KeyError, ValueError, OSError) as error:
        raise UserError(
            f"data.time_zone={zone!r} is no time zone.{closest(str(zone), available_timezones())} Set the IANA name of "
            "one, as data.time_zone=Europe/Berlin, or data.time_zone=UTC."
        ) from error
    if are_days or (local == local.normalize())[local.notna()].all():
        return local, zone or "UTC"
    return instants, "UTC"


def plain_iso(cells: "pd.Series[str]") -> pd.DatetimeIndex | None:
    """(N,) when all cells are ISO 8601 without an offset: by far most files, so without a look at single cells."""
    if not len(cells) or _YEAR_AND_NUMBER.fullmatch(str(cells.iloc[0])):  # perhaps a quarter, or October as .1
        return None
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*mixed time zones", FutureWarning)  # of pandas 2.2; 3 raises
        try:
            stamps: pd.DatetimeIndex = pd.DatetimeIndex(pd.to_datetime(cells, format=ISO, errors="raise"))
        except (ValueError, FutureWarning):
            return None
    is_plain = stamps.tz is None and not stamps.hasnans and not cells.isin(CLOCK).any()
    return stamps if is_plain and {stamps.min().year, stamps.max().year} <= set(YEARS) else None


def _decided(texts: list[str], codes: Codes, *, are_days: bool) -> tuple[str, pd.DatetimeIndex]:
    """(format, timestamps (U,)) of the format that reads most texts, of several the one that gives a regular series.

    ISO 8601 where none reads any. are_days: whether numbers may be the days of a spreadsheet.
    """
    held = np.array(texts, dtype=object) != ""
    readings = {known: read_cells(texts, known) for known in possible_formats([text for text in texts if text])}
    counts = {known: int(np.count_nonzero(stamps.notna())) for known, stamps in readings.items()}
    most = max(counts.values())
    readings = {known: stamps for known, stamps in readings.items() if counts[known] == most and (most or known == ISO)}
    likely = {known: stamps for known, stamps in readings.items() if _is_regular(stamps)}
    if held.any() and not (likely and most == held.sum()):
        words = ["quarter", "year.month", *(["week"] if most < held.sum() else [])]  # no month is the 13th
        if are_days and all(map(_SERIAL.fullmatch, filter(None, texts))):
            words.append("excel")
        by_words = {word: read_cells(texts, word) for word in words}
        by_words = {word: stamps for word, stamps in by_words.items() if stamps[held].notna().all()}
        likely = (readings if most == held.sum() else {}) | by_words if by_words else likely
    different: dict[str, pd.DatetimeIndex] = {}
    for known, stamps in (likely or readings).items():
        if not any(stamps.equals(other) for other in different.values()):
            different[known] = stamps
    if len(different) > 1 or not different.keys() <= readings.keys():
        raise _ambiguous(texts, codes, different)
    return next(iter(different.items()))


def _is_regular(stamps: pd.DatetimeIndex) -> bool:
    once = stamps.dropna().sort_values().unique()
    return len(once) >= 3 and infer_frequency(once) is not None


def _ambiguous(texts: list[str], codes: Codes, readings: Mapping[str, pd.DatetimeIndex]) -> AmbiguousTime:
    first, *others = readings.values()
    differ = [(other != first) & (first.notna() | other.notna()) for other in others] or [first.notna()]
    row = int(np.any(differ, axis=0)[codes].argmax())
    settings = {known: typed("data.time_format", known) for known in readings}
    meanings = (f"{stamps[codes[row]]} with {settings[known]}" for known, stamps in readings.items())
    return AmbiguousTime(
        f"{quoted(texts[codes[row]])} in row {row + 1} is {', or '.join(meanings)}, and that is not guessed. "
        f"Set {' or '.join(settings.values())}.",
        [{"data.time_format": known} for known in readings],
    )


def _faults(texts: list[str], stamps: pd.DatetimeIndex, time_format: str) -> tuple[npt.NDArray[np.object_], bool]:
    """(what is wrong with each text (U,), "" for nothing; whether the timestamps are instants, so in UTC)."""
    kinds = np.full(len(texts), "", dtype=object)
    kinds[stamps.isna()] = "unreadable"
    kinds[np.array(texts, dtype=object) == ""] = "missing"
    if time_format != ISO:
        return kinds, (time_format in NUMBERS and time_format != "excel") or "%z" in time_format
    # A date that can be read ends in "Z", or has a sign after its digits, only with an offset.
    zoned = np.array([text[-1:] in ("Z", "z") or "+" in text or "-" in text[8:] for text in texts], dtype=bool)
    read = np.asarray(stamps.notna())
    are_instants = bool((zoned & read).sum() * 2 > read.sum())
    kinds[read & (zoned != are_instants)] = "zone"
    return kinds, are_instants
