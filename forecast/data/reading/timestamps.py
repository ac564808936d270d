"""The time columns of a file as timestamps: one format for all cells, decided from all of them, or refused."""

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.reading.time_columns import Codes, format_of_parts, is_day, known_parts, row_texts
from forecast.data.reading.time_formats import (
    CLOCK,
    ISO,
    LESS_USUAL,
    UNIX,
    YEARS,
    ZONE_NAME,
    check_format,
    has_year,
    is_year_and_number,
    midnights_as_24,
    possible_formats,
    read_cells,
    spread,
)
from forecast.data.values.findings import counted, quoted
from forecast.data.values.frequency import grid_frequency, infer_frequency, rows_missing
from forecast.errors import UserError, closest
from forecast.text.overrides import typed

_OFFSET = re.compile(r"\d[T :]\d\d.*?(Z|[+-]\d\d?(?::?\d\d)?)$", re.ASCII | re.IGNORECASE)
_SIGNED = re.compile(r"([+-])(\d\d?):?(\d\d)?$", re.ASCII)
_MOST_NEED = 5  # times the rows that another reading needs: it is none any more
_WHOLE = re.compile(r"[+-]?\d{1,15}(\.0*)?", re.ASCII)
_MOST_CLOCKS = 4  # times of day in UTC of one time of day in a zone
# Of zones whose clocks agree the one that most know.
_USUAL_ZONES = (
    *("Europe/Berlin", "Europe/London", "Europe/Athens", "America/New_York", "America/Chicago", "America/Denver"),
    *("America/Los_Angeles", "Australia/Sydney"),
)
_A_YEAR = re.compile(r"(?<![\d:])(-?\d{4})(?!\d)|^(\d{4})(?=(?:\d\d){1,2}$)", re.ASCII)


@dataclass(frozen=True)
class TimeReading:
    """The timestamps of N rows, and how they were read.

    stamps (N,) naive, NaT where a cell cannot be read. how: in words for one line, "" for plain ISO 8601. settings:
    data.KEY -> VALUE that say the same as was decided, {} where nothing need be said. faults: row -> "no timestamp",
    "year", "letters" (a zone by its name), "zone" (an offset where the others have none), "no zone" (none where the
    others have one) or "unreadable". notes: sentences.
    """

    stamps: pd.DatetimeIndex
    how: str
    settings: dict[str, str]
    faults: dict[int, str]
    notes: list[str]


class AmbiguousTime(UserError):
    """Several readings of the cells give other timestamps, or one must be set. candidates: for each what sets it."""

    def __init__(self, message: str, candidates: list[dict[str, str]]) -> None:
        super().__init__(message)
        self.candidates = candidates


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
    than UTC; UserError for an unknown format or zone, or one that fits no cell.
    """
    zone = _zone(time_zone)
    if time_format is None and len(columns) == 1:
        plain = plain_iso(next(iter(columns.values())))
        if plain is not None:
            return TimeReading(plain, "", {}, {}, _without_effect(time_zone))
    parts = known_parts(list(columns)) if time_format is None else None
    codes, written = row_texts(columns, parts, missing)
    texts = [text[:-3] + "Z" if text.endswith(("UTC", "GMT")) else text for text in written]
    how, settings = "", {}
    if time_format is not None:
        time_format = time_format.replace("%Z", "%z")  # names of zones but UTC are not unique
        stamps = _as_told(texts, codes, time_format)
    elif parts is not None:
        time_format, how = format_of_parts(parts, texts), ", ".join(parts)
        stamps = read_cells(texts, time_format)
    else:
        time_format, stamps = _decided(texts, codes, is_day=all(map(is_day, columns)))
    if parts is None and time_format != ISO:
        how, settings = _in_words(time_format), {"data.time_format": time_format}
    kinds, instants = _faults(texts, stamps, time_format)
    late = midnights_as_24(texts, time_format)
    of_day_before = np.zeros(len(texts), dtype=bool) if late is None else np.asarray(late == stamps)
    stamps, notes = pd.DatetimeIndex(stamps.where(kinds == "")), _without_effect(time_zone)
    if instants:
        if time_zone is None:
            _check_midnights(texts, codes, stamps)
        stamps, notes = _converted(stamps[codes], zone)
        how = ", ".join(filter(None, (how, zone.key)))
        settings = settings | {"data.time_zone": zone.key}
    else:
        stamps = stamps[codes]
    if of_day_before.any():
        first = texts[codes[int(of_day_before[codes].argmax())]]
        notes = [
            *notes,
            "Hour 24 is midnight of the next day, as where an hour from 1 to 24 is named by its end: "
            f"{counted(int(of_day_before.sum()), 'time')}, the first {quoted(first)}.",
        ]
    of_rows = kinds[codes]
    return TimeReading(stamps, how, settings, {int(row): of_rows[row] for row in np.flatnonzero(of_rows)}, notes)


def whole_numbers(words: Sequence[str], name: str = "") -> bool:
    """Whether all of these are whole numbers, and not all of them dates written so, as 2016 and 20160701 are.

    name: of their column. AmbiguousTime as `read_timestamps`.
    """
    if not words or not all(_WHOLE.fullmatch(word) for word in words):
        return False
    read = read_timestamps({name: words}, missing=())
    return bool(read.faults) or bool(read.stamps.hasnans)


def typed_timestamps(stamps: pd.DatetimeIndex, time_zone: str | None, stored_zone: str | None = None) -> TimeReading:
    """The timestamps (N,) of a column that holds nothing else, NaT where one is missing, as `read_timestamps`.

    stored_zone: the zone in which the file says that these instants, in UTC, are shown: midnights there are days.
    """
    zone = _zone(time_zone)
    faults = dict.fromkeys(np.flatnonzero(stamps.isna()).tolist() if stamps.hasnans else (), "no timestamp")
    if len(stamps) and {stamps.min().year, stamps.max().year} - set(YEARS):
        years = stamps.year
        outside = np.flatnonzero((years < YEARS[0]) | (years > YEARS[-1]))
        faults |= dict.fromkeys(outside.tolist(), "year")
        stamps = pd.DatetimeIndex(stamps.where(~np.isin(np.arange(len(stamps)), outside)))
    if stored_zone is None:
        return TimeReading(stamps, "", {}, faults, _without_effect(time_zone))
    local = stamps.tz_localize("UTC").tz_convert(stored_zone).tz_localize(None)
    if time_zone is None and (local.dropna() == local.dropna().normalize()).all():
        settings = {"data.time_zone": stored_zone} if stored_zone in available_timezones() else {}
        return TimeReading(local, stored_zone, settings, faults, [])
    stamps, notes = _converted(stamps, zone)
    return TimeReading(stamps, zone.key, {"data.time_zone": zone.key}, faults, notes)


def plain_iso(cells: "Sequence[str] | pd.Series[str]") -> pd.DatetimeIndex | None:
    """(N,) when all cells are ISO 8601 without an offset: by far most files, so without a look at single cells."""
    texts = pd.Series(cells) if isinstance(cells, pd.Series) else pd.Series(cells, dtype=object)
    if len(texts) and is_year_and_number(str(texts.iloc[0])):  # perhaps a quarter, or October as .1
        return None
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*mixed time zones", FutureWarning)  # of pandas 2.2; 3 raises
        try:
            stamps: pd.DatetimeIndex = pd.DatetimeIndex(pd.to_datetime(texts, format=ISO, errors="raise"))
        except (ValueError, FutureWarning):
            return None
    if stamps.tz is not None or stamps.hasnans or texts.isin(CLOCK).any():
        return None
    if not len(stamps) or {stamps.min().year, stamps.max().year} - set(YEARS):
        return None
    return stamps


def _as_told(texts: list[str], codes: Codes, time_format: str) -> pd.DatetimeIndex:
    """The texts (U,) read in a format that the user has set; UserError when it is none, or that of no text."""
    check_format(time_format)
    stamps = read_cells(texts, time_format)
    held = np.flatnonzero([text != "" for text in texts])
    if held.size and stamps.isna().all():
        row = int(np.isin(codes, held).argmax())
        raise UserError(
            f"data.time_format={time_format!r} fits no timestamp, not even {quoted(texts[codes[row]])} in row "
            f"{row + 1}. Write the format as the file writes its timestamps, or remove data.time_format to let it be "
            "found."
        )
    return stamps


def _decided(texts: list[str], codes: Codes, *, is_day: bool) -> tuple[str, pd.DatetimeIndex]:
    """(format, timestamps (U,)) of the format that reads most rows, of several the one that gives a regular series.

    is_day: whether numbers may be the days of a spreadsheet.
    """
    different: dict[str, pd.DatetimeIndex] = {}
    for known, stamps in _most_readable(texts, codes).items():
        if not any(stamps.equals(other) for other in different.values()):
            different[known] = stamps
    regular = {known: stamps for known, stamps in different.items() if _is_regular(stamps)}
    held = np.array([text != "" for text in texts], dtype=bool)
    if held.any() and not any(stamps[held].notna().all() for stamps in regular.values()):
        _check_named(texts, codes, different, held, is_day=is_day)
    if len(different) > 1:
        different = regular or different
    if len(different) > 1:
        raise _ambiguous(texts, codes, different)
    return next(iter(different.items()))


def _is_regular(stamps: pd.DatetimeIndex) -> bool:
    once = stamps.dropna().sort_values().unique()
    return len(once) >= 3 and infer_frequency(once) is not None


def _check_named(
    texts: list[str],
    codes: Codes,
    usual: Mapping[str, pd.DatetimeIndex],
    held: npt.NDArray[np.bool_],
    *,
    is_day: bool,
) -> None:
    """AmbiguousTime where a format that must be set reads all cells, and with by far fewer rows to be made up.

    held (U,): which of the texts are none that is missing.
    """
    names = [name for name in sorted(LESS_USUAL) if name != "excel" or is_day]
    named = {name: stamps for name in names if (stamps := read_cells(texts, name, guessed=True))[held].notna().all()}
    if not named:
        return
    whole = {known: stamps for known, stamps in usual.items() if stamps[held].notna().all()}
    lacking = {known: _rows_lacking(stamps) for known, stamps in (named | whole).items()}
    fewest = _MOST_NEED * max(min(lacking[name] for name in named), 1)
    if not any(lacking[known] <= fewest for known in whole):
        likely = {name: stamps for name, stamps in named.items() if lacking[name] <= fewest}
        raise _ambiguous(texts, codes, likely | whole)


def _rows_lacking(stamps: pd.DatetimeIndex) -> int:
    """How many rows a regular series lacks, and repeats; all where there is none."""
    once = stamps.dropna().sort_values().unique()
    freq = grid_frequency(once) if len(once) >= 3 else None
    return len(stamps.dropna()) - len(once) + (rows_missing(once, freq) or 0 if freq else len(once))


def _most_readable(texts: list[str], codes: Codes) -> dict[str, pd.DatetimeIndex]:
    """{format: timestamps (U,)} of the formats that read most rows; ISO 8601 alone where none reads any."""
    held = np.array([text != "" for text in texts], dtype=bool)
    cells = [text for text in texts if text]
    sample = [cells[i] for i in spread(len(cells))]
    formats = possible_formats(cells)
    # What does not read some of the cells does not read all: most formats are done with after those.
    likely = [known for known in formats if read_cells(sample, known, guessed=True).notna().all()]
    readings = {known: read_cells(texts, known, guessed=True) for known in likely}
    whole = {known: stamps for known, stamps in readings.items() if stamps[held].notna().all()}
    if whole:
        return whole
    readings |= {known: read_cells(texts, known, guessed=True) for known in formats if known not in readings}
    weights = np.bincount(codes, minlength=len(texts))
    rows = {known: int(weights[stamps.notna()].sum()) for known, stamps in readings.items()}
    most = max(rows.values())
    return {known: readings[known] for known in formats if rows[known] == most and (most or known == ISO)}


def _ambiguous(
    texts: list[str], codes: Codes, readings: Mapping[str, pd.DatetimeIndex], key: str = "data.time_format"
) -> AmbiguousTime:
    first, *others = readings.values()
    differ = [(other != first) & (first.notna() | other.notna()) for other in others] or [first.notna()]
    row = int(np.any(differ, axis=0)[codes].argmax())
    settings = {known: typed(key, known) for known in readings}
    meanings = [f"{stamps[codes[row]]} with {settings[known]}" for known, stamps in readings.items()]
    why = "no cell tells which" if others else "that is not guessed"
    return AmbiguousTime(
        f"{quoted(texts[codes[row]])} in row {row + 1} is {', or '.join(meanings)}, and {why}. "
        f"Set {' or '.join(settings.values())}.",
        [{key: known} for known in readings],
    )


def _faults(texts: list[str], stamps: pd.DatetimeIndex, time_format: str) -> tuple[npt.NDArray[np.object_], bool]:
    """(what is wrong with each text (U,), "" for nothing; whether the timestamps are instants, so in UTC)."""
    kinds = np.full(len(texts), "", dtype=object)
    for i in np.flatnonzero(stamps.isna()):
        kinds[i] = _fault(texts[i], time_format)
    if time_format != ISO:
        return kinds, time_format in UNIX or "%z" in time_format
    # A date that can be read ends in "Z", or has a sign after its digits, only with an offset.
    zoned = np.array([text[-1:] in ("Z", "z") or "+" in text or "-" in text[8:] for text in texts], dtype=bool)
    read = np.asarray(stamps.notna())
    instants = bool((zoned & read).sum() * 2 > read.sum())
    kinds[read & (zoned != instants)] = "no zone" if instants else "zone"
    return kinds, instants


def _fault(text: str, time_format: str) -> str:
    """Why a text is no timestamp of the format."""
    if text == "":
        return "no timestamp"
    year = _A_YEAR.search(text)
    if time_format not in UNIX and year and int(year[1] or year[2]) not in YEARS:
        return "year"
    return "letters" if ZONE_NAME.search(text) else "zone" if _OFFSET.search(text) else "unreadable"


def _in_words(time_format: str) -> str:
    words = {"unix": "unix seconds", "unix_ms": "unix milliseconds", "unix_us": "unix microseconds"}
    words |= {"unix_ns": "unix nanoseconds", "quarter": "quarters", "week": "ISO weeks"}
    words |= {"year.month": "a year and its month, of which .1 is October", "excel": "days of a spreadsheet"}
    if time_format in words or all(map(has_year, time_format.partition("|")[::2])):
        return words.get(time_format, f"format {time_format}")
    day, month = time_format.find("%d"), time_format.find("%m")
    order = "" if min(day, month) < 0 else "day first" if day < month else "month first"
    year_first = max(time_format.find("%Y"), time_format.find("%y")) < min(day, month)
    century = "years 1969 to 2068" if "%y" in time_format else ""
    return ", ".join(filter(None, ("" if year_first else order, century))) or f"format {time_format}"


def _zone(name: str | None) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError, OSError) as error:
        raise UserError(
            f"data.time_zone={name!r} is no time zone.{closest(str(name), available_timezones())} Set the IANA name of "
            "one, as data.time_zone=Europe/Berlin, or data.time_zone=UTC."
        ) from error


def _check_midnights(texts: list[str], codes: Codes, stamps: pd.DatetimeIndex) -> None:
    """AmbiguousTime for instants in UTC (U,) that are days of another zone, by their own offsets or without any.

    These are all midnights there, or of one time of day though the offset changes.
    """
    held = np.flatnonzero(stamps.notna())
    known = stamps[held]
    if len(held) < 2 or len((known - known.normalize()).unique()) > _MOST_CLOCKS:
        return
    cells = [texts[i] for i in held.tolist()]
    offsets = pd.to_timedelta(_minutes(cells), unit="min")
    if not offsets.any():
        # The offset that makes each a midnight, of those from -12 to 12 hours.
        offsets = (known.normalize() + pd.Timedelta(days=1) - known) % pd.Timedelta(days=1)
        offsets = offsets.where(offsets <= pd.Timedelta(hours=12), offsets - pd.Timedelta(days=1))
        if len(offsets.unique()) == 1:  # any time of day
            return
    clocks = (known + offsets) - (known + offsets).normalize()
    if len(clocks.unique()) > 1 or (clocks.any() and len(offsets.unique()) == 1):
        return
    hours, rest = divmod(offsets[0], pd.Timedelta("1h"))
    fixed = len(offsets.unique()) == 1 and not rest
    zone = f"Etc/GMT{-hours:+d}" if fixed else _zone_with(known, offsets)
    if zone is not None:
        days = stamps.tz_localize("UTC").tz_convert(ZoneInfo(str(zone))).tz_localize(None)
        raise _ambiguous(texts, codes, {str(zone): days, "UTC": stamps}, "data.time_zone")


def _minutes(texts: Sequence[str]) -> list[int]:
    """The offsets (U,) from UTC of texts (U,), in minutes; 0 for one without."""
    signed = [_SIGNED.search(text) if _OFFSET.search(text) else None for text in texts]
    return [int(f"{m[1]}1") * (60 * int(m[2]) + int(m[3] or 0)) if m else 0 for m in signed]


def _zone_with(stamps: pd.DatetimeIndex, offsets: pd.TimedeltaIndex) -> str | None:
    """A zone that has these offsets (N,) from UTC at these instants (N,), tried where they change before all."""
    order = np.argsort(stamps.to_numpy(), kind="stable")
    local = stamps + offsets
    changes = np.flatnonzero(np.diff(offsets.to_numpy()[order]))
    probes = order[np.unique([0, len(order) - 1, *changes, *(changes + 1)])]
    names = available_timezones()
    for name in (*(name for name in _USUAL_ZONES if name in names), *sorted(names)):
        if all(
            (stamps[rows].tz_localize("UTC").tz_convert(ZoneInfo(name)).tz_localize(None) == local[rows]).all()
            for rows in (probes, slice(None))
        ):
            return name
    return None


def _without_effect(time_zone: str | None) -> list[str]:
    note = f"data.time_zone={time_zone} converts nothing: the timestamps carry no offset from UTC and stay as they are."
    return [note] if time_zone is not None else []


def _converted(stamps: pd.DatetimeIndex, zone: ZoneInfo) -> tuple[pd.DatetimeIndex, list[str]]:
    """The clock's times of instants in UTC (N,), and a note when the clock was changed between them."""
    local: pd.DatetimeIndex = stamps.tz_localize("UTC").tz_convert(zone).tz_localize(None)
    order = stamps.dropna().argsort()
    ordered = local.dropna()[order]
    changes = np.diff((ordered - stamps.dropna()[order]).to_numpy())
    zero = np.timedelta64(0)
    texts = [
        f"{counted(int(change.sum()), 'time')} {direction} (first at {ordered[int(change.argmax()) + 1]})"
        for change, direction in ((changes > zero, "forward"), (changes < zero, "back"))
        if change.any()
    ]
    if not texts:
        return local, []
    return local, [
        f"In {zone.key} the clock is set {' and '.join(texts)}: those hours are skipped or stand twice. "
        "data.time_zone=UTC has no clock changes."
    ]
