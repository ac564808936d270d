"""Forecasts written as the file that they continue: its names, separator, decimal sign, digits and times.

A row for each step, and of a file with ids for each series and step: as CSV text, or as columns for Parquet.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from typing_extensions import TypedDict

from forecast.data.panel import PanelFrame
from forecast.data.reading.csv_text import CsvText, valid_separator
from forecast.data.reading.layout import USUAL, Layout
from forecast.data.reading.raw_columns import BLANKS
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
from forecast.data.values.cells import JOINT, FloatArray, IntArray
from forecast.data.values.findings import Findings
from forecast.documents import Count
from forecast.errors import UserError
from forecast.text.documents import as_cell

CSV = ".csv"
ENDINGS = CSV, ".parquet"
SAMPLE = 200  # rows whose cells show how a file is written
MORE_DIGITS = 2  # behind the decimal sign than the file has
LEAST_DIGITS = 3  # of a column's standard deviation, however few the file has
MOST_DIGITS = 7  # of it: float32 keeps no more
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
            zone = "UTC"
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


@dataclass(frozen=True)
class Writing:
    """How a file is written, as far as what continues it must be written so too.

    times: its columns of time, none for a file without. decimals: of each column, the most digits behind the decimal
    sign. where: cells that tell its rows from those of other series.
    """

    separator: str = ","
    decimal: str = "."
    times: TimeWriter | None = None
    decimals: Mapping[str, int] = field(default_factory=dict)
    where: Mapping[str, str | float] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, layout: Layout, time_format: str | None) -> "Writing":
        """Of a file that a layout reads. time_format: that its reader found; None for ISO 8601."""
        findings = Findings(str(path), strict=False)  # what there is to say of the file its reader has said
        text = CsvText(path, valid_separator(layout.separator)).verified(findings)
        header = text.header(layout.time_columns, findings)
        rows = [cells for _, cells in islice(text.rows(), SAMPLE)]
        columns = {
            name: [cells[place].strip(BLANKS) for cells in rows if place < len(cells)]
            for place, name in enumerate(header)
        }
        times = {name: columns[name] for name in layout.time_columns}
        others = columns.keys() - times.keys() if text.table is None else ()  # of typed numbers nobody wrote the digits
        decimals = {name: _decimals(columns[name], layout) for name in others}
        writer = TimeWriter.of(times, time_format, layout.time_zone) if times else None
        return cls(text.separator, layout.decimal, writer, decimals, dict(layout.where or {}))

    def number(self, value: float, digits: int) -> str:
        """A number with so many digits behind the decimal sign, without trailing zeros but one."""
        value = round(float(value), digits) + 0.0  # no -0.0
        text = repr(value)
        if "e" in text and abs(value) < 1:
            text = f"{value:.{digits}f}".rstrip("0")
        return text.replace(".", self.decimal)


PLAIN = Writing()


def digits_of(std: float, decimals: int | None) -> int:
    """How many digits behind the decimal sign a forecast of a column has; negative where tens are rounded off.

    std: its standard deviation in the train rows. decimals: that its file writes, None where there is no file.
    """
    size = math.ceil(math.log10(std))
    most = MOST_DIGITS - size
    return most if decimals is None else min(most, max(decimals + MORE_DIGITS, LEAST_DIGITS - size))


def _decimals(cells: Sequence[str], layout: Layout = USUAL) -> int:
    """The most digits that a cell has behind the decimal sign; an exponent moves it."""
    most = 0
    for cell in cells:
        mantissa, _, exponent = cell.lower().partition("e")
        digits = mantissa.partition(layout.decimal)[2]
        if digits.isdigit():
            most = max(most, len(digits) - (int(exponent) if exponent.lstrip("+-").isdigit() else 0))
    return most


class FarSeries(TypedDict):
    """How many series begin from rows of another size than their train rows, and the number of the first, if any."""

    count: Count
    first: Count | None


NONE_FAR: FarSeries = {"count": 0, "first": None}


class SeriesForecasts(NamedTuple):
    """Forecasts of some series: their numbers (B,) in the panel, and values (B, P, T) in original units."""

    series: IntArray
    values: FloatArray
    far: FarSeries = NONE_FAR


def all_far(parts: Iterable[FarSeries]) -> FarSeries:
    """Of all series those of some."""
    parts = list(parts)
    firsts = (part["first"] for part in parts if part["first"] is not None)
    return {"count": sum(part["count"] for part in parts), "first": min(firsts, default=None)}


@dataclass(frozen=True, kw_only=True, eq=False)
class ForecastTable:
    """How the steps after the end of the series of a panel are written, in the names of its file.

    targets: the names of the T columns of values. id_names: of the columns whose cells, joined by `JOINT`, are the ids;
    none: one as the frame calls it, which may have no ids. whole: columns that hold whole numbers, which ids of a
    Parquet file stay. writing: how the panel's file writes, as far as it is a CSV. digits: of each column of values
    behind the decimal sign; None: all that a value has. safe: for a spreadsheet, which would take a text that begins
    with = for a formula.
    """

    frame: PanelFrame
    targets: Sequence[str]
    pred_len: int
    id_names: Sequence[str] = ()
    whole: Collection[str] = ()
    writing: Writing = PLAIN
    digits: Sequence[int] | None = None
    safe: bool = False

    @property
    def header(self) -> list[str]:
        """The names of the columns of a CSV."""
        times, own = self.writing.times, (self.frame.time_column,)
        of_time = own if times is None or self.frame.without_calendar else times.names
        names = [*self.id_columns, *of_time, *self.writing.where, *self.targets]
        return [as_cell(name) for name in names] if self.safe else names

    def header_text(self) -> str:
        """The first line of a CSV."""
        line = io.StringIO()
        csv.writer(line, delimiter=self.writing.separator, lineterminator="\n").writerow(self.header)
        return line.getvalue()

    def text(self, series: IntArray, values: FloatArray) -> str:
        """The lines of forecasts (B, P, T) of series (B,)."""
        steps, number = self._steps(series), self.writing.number
        ids = [cells[series] for cells in self.id_columns.values()]
        if self.safe:
            ids = [np.array([as_cell(cell) for cell in cells], dtype=object) for cells in ids]
        numbers = list(values.reshape(-1, len(self.targets)).T)
        columns = [
            *(np.repeat(cells, self.pred_len) for cells in ids),
            *(texts[steps] for texts in self._times),
            *(number(cell, 15) if isinstance(cell, float) else str(cell) for cell in self.writing.where.values()),
            *(
                numbers
                if self.digits is None
                else ([number(x, n) for x in numbers[i]] for i, n in enumerate(self.digits))
            ),
        ]
        table: pd.DataFrame = pd.DataFrame(dict(enumerate(columns)), index=range(len(steps)))
        lines: str = table.to_csv(
            header=False, index=False, sep=self.writing.separator, decimal=self.writing.decimal, lineterminator="\n"
        )
        return lines

    def table(self, series: IntArray, values: FloatArray) -> pd.DataFrame:
        """The rows of forecasts (B, P, T) of series (B,), with timestamps."""
        ids = [np.repeat(cells[series], self.pred_len) for cells in self.id_columns.values()]
        columns = [*ids, self.stamps[self._steps(series)], *values.reshape(-1, len(self.targets)).T]
        names = [*self.id_columns, self.frame.time_column, *self.targets]
        rows: pd.DataFrame = pd.DataFrame(dict(zip(names, columns, strict=True)))
        return rows

    def columns(self, series: IntArray, values: FloatArray) -> pa.Table:
        """The rows of forecasts (B, P, T) of series (B,) as a table of pyarrow's."""
        places = pa.array(np.repeat(np.arange(len(series)), self.pred_len))
        texts = [pa.array(cells[series], pa.string()) for cells in self.id_columns.values()]
        kinds = self.schema().types
        ids = [text.cast(kind).take(places) for text, kind in zip(texts, kinds, strict=False)]
        times = pa.array(self.stamps[self._steps(series)])
        targets = [pa.array(np.ascontiguousarray(part)) for part in values.reshape(-1, len(self.targets)).T]
        return pa.Table.from_arrays([*ids, times, *targets], schema=self.schema())

    def schema(self) -> pa.Schema:
        """The names and kinds of the columns of a Parquet file."""
        time = pa.int64() if self.frame.without_calendar else pa.timestamp("ns")
        ids = [(name, pa.int64() if name in self.whole else pa.string()) for name in self.id_columns]
        fields = [*ids, (self.frame.time_column, time)]
        return pa.schema([*fields, *((name, pa.float64()) for name in self.targets)])

    @cached_property
    def id_columns(self) -> dict[str, npt.NDArray[Any]]:
        """The cells (S,) of each id column."""
        ids, names = [str(name) for name in self.frame.ids], self.id_names
        if len(names) > 1 and all(name.count(JOINT) == len(names) - 1 for name in ids):
            parts = zip(*(name.split(JOINT) for name in ids), strict=True)
            return {name: np.array(cells, dtype=object) for name, cells in zip(names, parts, strict=True)}
        return {} if self.frame.id_column is None else {self.frame.id_column: np.array(ids, dtype=object)}

    def _steps(self, series: IntArray) -> IntArray:
        """The steps (B * P,) after `frame.first` of the rows of forecasts."""
        first = self.frame.steps[series] + self.frame.lengths[series]
        steps: IntArray = (first[:, None] + np.arange(self.pred_len)).ravel()
        return steps

    @cached_property
    def stamps(self) -> npt.NDArray[Any]:
        """The time of each step: a timestamp, or the number of a step that no calendar counts."""
        if self.frame.without_calendar:
            return self.frame.times(self.pred_len)
        return self.frame.calendar(self.pred_len).to_numpy().astype("datetime64[ns]")

    @cached_property
    def _times(self) -> list[npt.NDArray[Any]]:
        """The texts of each step, of each column of time; of steps that no forecast has none."""
        if self.frame.without_calendar:
            return [self.stamps]
        used = np.zeros(len(self.stamps), dtype=np.bool_)
        ends = np.unique(self.frame.steps + self.frame.lengths)
        used[(ends[:, None] + np.arange(self.pred_len)).ravel()] = True
        stamps = pd.DatetimeIndex(self.stamps[used])
        if self.writing.times is not None:
            cells = np.array(self.writing.times.cells(stamps), dtype=object)
        else:
            plain = stamps.strftime("%Y-%m-%d") if (stamps == stamps.normalize()).all() else stamps.astype(str)
            cells = plain.to_numpy(dtype=object)[:, None]
        texts = np.empty((len(used), cells.shape[1]), dtype=object)
        texts[used] = cells
        return list(texts.T)
