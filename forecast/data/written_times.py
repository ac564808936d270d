"""Timestamps written as a file writes its own."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from forecast.data.reading.time_columns import format_of_parts, known_parts, row_texts
from forecast.data.reading.time_formats import (
    EXCEL_START,
    ISO,
    LESS_USUAL,
    UNIX_SIZES,
    match_by_name,
    possible_formats,
    read_cells,
)
from forecast.data.reading.timestamps import read_timestamps, zone_of_offsets
from forecast.errors import UserError

# What a directive of strptime stands for in a cell.
_PATTERNS = {
    **dict.fromkeys("mdHIMS", r"\d\d?"),
    **dict.fromkeys("bBaA", "[A-Za-z]+"),
    "Y": r"\d{4}",
    "y": r"\d\d",
    "j": r"\d{1,3}",
    "f": r"\d+",
    "p": "[AaPp][Mm]",
    "z": r"[Zz]|[+-]\d\d:?\d\d",
}
# Those that may be written without a zero in front.
_NUMBERS: Mapping[str, Callable[[pd.Timestamp], int]] = {
    "m": lambda stamp: stamp.month,
    "d": lambda stamp: stamp.day,
    "H": lambda stamp: stamp.hour,
    "I": lambda stamp: stamp.hour % 12 or 12,
    "M": lambda stamp: stamp.minute,
    "S": lambda stamp: stamp.second,
}


@dataclass(frozen=True)
class TimeWriter:
    """How the time of a file is written.

    names: its columns. time_format: that of their cells, joined by spaces; None for ISO 8601 as pandas writes it.
    sample: the different joined cells of some rows. widths: how many of the words between spaces each column has.
    zone: whose clock the timestamps show; shown: that of the cells, where it is another.
    order: of the columns, those whose cells are joined first. bare_part: whether a quarter or week has no letter.
    """

    names: tuple[str, ...]
    time_format: str | None
    sample: tuple[str, ...]
    zone: str | None = None
    widths: tuple[int, ...] = (1,)
    order: tuple[str, ...] = ()
    bare_part: bool = False
    shown: str | None = None

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[str]], time_format: str | None, zone: str | None) -> "TimeWriter":
        """Of the cells of some rows. time_format: that their reader found, None for ISO 8601 or named parts."""
        names = tuple(columns)
        known = None if time_format else known_parts(list(names))
        order = tuple(known.values()) if known else names
        texts = tuple(text for text in row_texts(columns, known, ())[1] if text)
        texts = tuple(text[:-3] + "Z" if text.endswith(("UTC", "GMT")) else text for text in texts)
        if known:
            time_format = format_of_parts(known, texts)
        elif time_format in (None, ISO):
            iso = read_cells(texts, ISO)
            formats = [candidate for candidate in possible_formats(texts) if candidate != ISO]
            time_format = next((candidate for candidate in formats if read_cells(texts, candidate).equals(iso)), None)
        firsts = [next((cell for cell in columns[name] if cell), "") for name in order]
        alone = {"quarter", "week"} & set(known or ())
        bare = bool(alone) and not firsts[-1].lower().startswith(("q", "w"))
        widths = tuple(1 if known else len(cell.split()) for cell in firsts)
        if zone is None and "%z" in (time_format or "").replace("%Z", "%z"):
            zone = read_timestamps(columns, missing=(), time_format=time_format).settings.get("data.time_zone")
        shown = None
        if zone == "UTC" and time_format not in UNIX_SIZES and "%z" in (time_format or "").replace("%Z", "%z"):
            shown = zone_of_offsets(texts, read_cells(texts, (time_format or "").replace("%Z", "%z")))
        return cls(names, time_format, texts, zone, widths, order, bare, shown)

    def cells(self, stamps: pd.DatetimeIndex) -> list[list[str]]:
        """The cells (N, columns of time) of naive timestamps (N,); ISO 8601 where the reader would not agree."""
        texts = self._texts(stamps) if self.time_format else None
        if texts is None or not self._reads(texts, stamps):
            plain = stamps.strftime("%Y-%m-%d") if (stamps == stamps.normalize()).all() else stamps.astype(str)
            return [[text, *([""] * (len(self.names) - 1))] for text in plain]
        rows = []
        for text in texts:
            words = iter(re.sub("[QW]", "", text).split() if self.bare_part else text.split())
            cells = {
                name: " ".join(next(words) for _ in range(n)) for name, n in zip(self.order, self.widths, strict=True)
            }
            rows.append([cells[name] for name in self.names])
        return rows

    def _reads(self, texts: Sequence[str], stamps: pd.DatetimeIndex) -> bool:
        """Whether the reader of the file takes the texts for these timestamps."""
        try:
            read = read_timestamps({"time": texts}, missing=(), time_format=self.time_format, time_zone=self._zone_told)
        except (UserError, ValueError):
            return False
        return len(texts[0].split()) == sum(self.widths) and bool((read.stamps == stamps).all())

    @property
    def _zone_told(self) -> str | None:
        return self.zone if self._instants else None

    @property
    def _instants(self) -> bool:
        return self.time_format in UNIX_SIZES or "%z" in (self.time_format or "").replace("%Z", "%z")

    def _texts(self, stamps: pd.DatetimeIndex) -> list[str] | None:
        """The timestamps as joined cells; None where the sample does not show how."""
        assert self.time_format is not None
        times = stamps
        if self._instants:
            zone = ZoneInfo(self.zone or "UTC")
            first = np.ones(len(stamps), dtype=bool)  # of an hour that a clock change repeats
            times = stamps.tz_localize(zone, ambiguous=first, nonexistent="shift_forward")
            times = times.tz_convert("UTC" if self.sample[0][-1:] in "Zz" else self.shown or zone)
        if self.time_format in UNIX_SIZES:
            size = UNIX_SIZES[self.time_format]
            return [_in_units(stamp.value, size, self.sample[0]) for stamp in times.as_unit("ns")]
        if self.time_format == "excel":
            digits = max(len(cell.partition(".")[2]) for cell in self.sample)
            days = (f"{(stamp - EXCEL_START) / pd.Timedelta(days=1):.{digits}f}" for stamp in times)
            return [day.rstrip("0").rstrip(".") if digits else day for day in days]
        if self.time_format in LESS_USUAL:
            return [self._by_name(stamp) for stamp in times]
        time_format = self.time_format.replace("%Z", "%z")
        pattern = _pattern(time_format)
        matches = [pattern.fullmatch(cell) for cell in self.sample] if pattern else []
        if not matches or None in matches:
            return None
        samples: dict[str, list[str]] = {}
        for match in matches:
            for directive, text in match.groupdict().items() if match else ():
                samples.setdefault(directive, []).append(text)
        pieces = re.split("(%.)", time_format)
        # Midnight as hour 24 of the day before, where the cells have that.
        late = (times == times.normalize()) & ("24" in samples.get("H", ()))
        return [
            "".join(
                "24" if of_before and piece == "%H" else _written(piece[1], day, samples) if piece[:1] == "%" else piece
                for piece in pieces
            )
            for day, of_before in zip(times - pd.to_timedelta(late.astype(int), unit="D"), late, strict=True)
        ]

    def _by_name(self, stamp: pd.Timestamp) -> str:
        """A cell of a format without directives: the first of the sample, with other numbers."""
        cell = self.sample[0]
        match = match_by_name(cell, self.time_format or "")
        assert match is not None, "its reader has found the format"
        year, week, day = stamp.isocalendar()
        short = any(len(weeks["week"]) == 1 for c in self.sample if (weeks := match_by_name(c, "week")))
        month = (
            f"{stamp.month:02}"
            if any(c.endswith(".10") for c in self.sample)
            else f"{stamp.month:02}".removesuffix("0")
        )
        own = {"quarter": stamp.quarter, "month": month, "week": week if short else f"{week:02}", "day": day}
        own["year"] = year if self.time_format == "week" else stamp.year
        for place, part in sorted(
            ((match.start(part), part) for part, text in match.groupdict().items() if text), reverse=True
        ):
            cell = f"{cell[:place]}{own[part]}{cell[match.end(part) :]}"
        return cell


def _pattern(time_format: str) -> re.Pattern[str] | None:
    """What a cell of a format looks like, a group for each directive; None for one that is not known here."""
    pieces = re.split("(%.)", time_format)
    directives = [piece[1] for piece in pieces if piece.startswith("%")]
    if len(set(directives)) < len(directives) or set(directives) - set(_PATTERNS):
        return None
    parts = [
        f"(?P<{piece[1]}>{_PATTERNS[piece[1]]})" if piece.startswith("%") else re.escape(piece).replace(r"\ ", " +")
        for piece in pieces
    ]
    return re.compile("".join(parts), re.ASCII)


def _written(directive: str, stamp: pd.Timestamp, samples: Mapping[str, Sequence[str]]) -> str:
    """One part of a timestamp as the cells of a sample have it. samples: what they have for each directive."""
    cells, afternoon = samples[directive], stamp.hour >= 12
    if directive in _NUMBERS:
        value = _NUMBERS[directive](stamp)
        # A day without a zero in front may come later, where the month has none.
        alike = [*cells, *samples.get("m", ())] if directive == "d" and not any(c[0] == "0" for c in cells) else cells
        return str(value) if any(len(cell) == 1 for cell in alike) else f"{value:02}"
    if directive in "bBaA":
        name = stamp.month_name() if directive in "bB" else stamp.day_name()
        return _in_case(name[:3] if max(map(len, cells)) <= 4 else name, cells[0])
    if directive == "z":
        offset = stamp.strftime("%z")
        return cells[0] if cells[0] in "Zz" else f"{offset[:3]}:{offset[3:]}" if ":" in cells[0] else offset
    others = {
        "Y": f"{stamp.year:04}",
        "y": f"{stamp.year % 100:02}",
        "j": f"{stamp.day_of_year:03}",
        "f": f"{stamp.microsecond:06}{stamp.nanosecond:03}"[: max(map(len, cells))],
        "p": _in_case("PM" if afternoon else "AM", cells[0]),
    }
    return others[directive]


def _in_case(word: str, cell: str) -> str:
    return word.upper() if cell.isupper() else word.lower() if cell.islower() else word


def _in_units(value: int, size: int, cell: str) -> str:
    """Nanoseconds as a number of units of `size`, with as many digits behind the point as the cell."""
    whole, rest = divmod(value, size)
    digits = len(cell.partition(".")[2])
    needed = f"{rest:0{len(str(size)) - 1}d}".rstrip("0") if rest else ""
    decimals = needed.ljust(digits, "0")
    return f"{whole}.{decimals}" if decimals else str(whole)
