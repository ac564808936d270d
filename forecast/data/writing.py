"""Forecasts written as the file that they continue: its names, separator, decimal sign, digits and times.

A row for each step, and of a file with ids for each series and step: as CSV text, or as columns for Parquet.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

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
from forecast.data.reading.time_formats import EXCEL_START, ISO, UNIX_SIZES, has_year, possible_formats, read_cells
from forecast.data.values.cells import JOINT, FloatArray, IntArray
from forecast.data.values.findings import Findings
from forecast.documents import Count
from forecast.text.documents import as_cell

CSV = ".csv"
ENDINGS = CSV, ".parquet"
SAMPLE = 200  # rows whose cells show how a file is written
MORE_DIGITS = 2  # behind the decimal sign than the file has
LEAST_DIGITS = 3  # of a column's standard deviation, however few the file has
MOST_DIGITS = 7  # of it: float32 keeps no more
# What strftime has no name for, as `time_formats.read_cells` reads it: in one column, and in two.
_BY_NAME = {"quarter": ("%YQ%q", "%Y %q"), "week": ("%G-W%V", "%G %V"), "year.month": ("%Y.%m", "%Y %m")}
_OF_DAYS = {"week": "%G-W%V-%u"}  # the same where days of weeks are told apart
_SIZES = {**UNIX_SIZES, "excel": 86_400 * 10**9}  # of the formats that are numbers, in nanoseconds
_MARK = "\x01"  # before a number without a zero in front


def _with_colon(text: str) -> str:
    """The same with a colon in its offset from UTC."""
    return re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", text)


_LETTERS: tuple[Callable[[str], str], ...] = (str, str.upper, str.lower, _with_colon)


@dataclass(frozen=True)
class TimeWriter:
    """How the time of a file is written: in the format that reads it, where that can be with the zeros of its cells.

    names: its columns; order: the same as their cells are joined, with so many words each (widths). time_format: of
    the joined cells, None for ISO 8601 as pandas writes it; style: the same for strftime, and what is done to the text.
    zone: whose clock timestamps show that are instants; shown: that of their cells, an offset in UTC.
    """

    names: tuple[str, ...]
    time_format: str | None
    zone: str | None = None
    widths: tuple[int, ...] = (1,)
    order: tuple[str, ...] = ()
    shown: str | None = None
    style: tuple[str, Callable[[str], str]] = ("", str)

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[str]], time_format: str | None, zone: str | None) -> "TimeWriter":
        """Of the cells of some rows. time_format: that their reader found, None for ISO 8601 or named parts."""
        known = None if time_format else known_parts(list(columns))
        order = tuple(known.values()) if known else tuple(columns)
        texts = [text for text in row_texts(columns, known, ())[1] if text]
        texts = [text[:-3] + "Z" if text.endswith(("UTC", "GMT")) else text for text in texts]
        if known:
            time_format = format_of_parts(known, texts)
        elif time_format in (None, ISO):
            iso = read_cells(texts, ISO)
            formats = [candidate for candidate in possible_formats(texts) if candidate != ISO]
            time_format = next((candidate for candidate in formats if read_cells(texts, candidate).equals(iso)), None)
        if time_format:
            head, _, rest = time_format.partition("|")
            time_format = (head if has_year(head) and has_year(rest) else time_format).replace("%Z", "%z")
        firsts = [next((cell for cell in columns[name] if cell), "") for name in order]
        widths = tuple(1 if known else len(cell.split()) for cell in firsts)
        offset = re.search(r"([+-]\d\d):?(\d\d)$", texts[-1]) if texts else None
        shown = f"UTC{offset[1]}:{offset[2]}" if offset and zone in (None, "UTC") else zone
        shown = "UTC" if texts and texts[0][-1:] in "Zz" else shown
        writer = cls(tuple(columns), time_format, zone, widths, order, shown)
        if time_format is None or time_format in _SIZES:
            return writer
        read = writer._read(texts)
        stamps, texts = read.dropna(), [text for text, is_read in zip(texts, read.notna(), strict=True) if is_read]
        written = _BY_NAME.get(time_format, (time_format,) * 2)[len(columns) > 1]
        written = written.replace("%z", "Z") if texts and texts[0][-1:] in "Zz" else written
        first, *others = (replace(writer, style=style) for style in _styles(written))
        if not writer._read(first._texts(stamps)).equals(stamps) and time_format in _OF_DAYS:
            first = replace(writer, style=(_OF_DAYS[time_format], str))
        return next((writer for writer in (first, *others) if writer._texts(stamps) == texts), first)

    def cells(self, stamps: pd.DatetimeIndex) -> list[list[str]]:
        """The cells (N, columns of time) of naive timestamps (N,); ISO 8601 where the reader would not agree."""
        texts = self._texts(stamps) if self.time_format else None
        if texts is None or not self._read(texts).equals(stamps):
            plain = stamps.strftime("%Y-%m-%d") if (stamps == stamps.normalize()).all() else stamps.astype(str)
            return [[text, *([""] * (len(self.names) - 1))] for text in plain]
        if len(self.names) == 1:
            return [[text] for text in texts]
        rows = []
        for text in texts:
            words = iter(text.split())
            cells = {name: " ".join(islice(words, width)) for name, width in zip(self.order, self.widths, strict=True)}
            rows.append([cells[name] for name in self.names])
        return rows

    @property
    def _are_instants(self) -> bool:
        return self.time_format in UNIX_SIZES or "%z" in (self.time_format or "")

    def _read(self, texts: Sequence[str]) -> pd.DatetimeIndex:
        """The timestamps of joined cells, on the clock of the zone."""
        read = read_cells(texts, self.time_format or ISO)
        return read.tz_localize("UTC").tz_convert(self.zone or "UTC").tz_localize(None) if self._are_instants else read

    def _texts(self, stamps: pd.DatetimeIndex) -> list[str]:
        """The timestamps as joined cells."""
        assert self.time_format is not None
        times = stamps
        if self._are_instants:
            first = np.ones(len(stamps), dtype=bool)  # of an hour that a clock change repeats
            times = stamps.tz_localize(self.zone or "UTC", ambiguous=first, nonexistent="shift_forward")
            times = times.tz_convert(self.shown or "UTC")
        if (size := _SIZES.get(self.time_format)) is not None:
            start = EXCEL_START.value if self.time_format == "excel" else 0
            units = (round(Decimal(value - start) / size, 9) for value in times.as_unit("ns").asi8.tolist())
            return [f"{unit.normalize():f}" for unit in units]
        time_format, letters = self.style
        index = times.to_period("Q") if "%q" in time_format else times
        return [re.sub(f"{_MARK}0?", "", letters(text)) for text in index.strftime(time_format)]


def _styles(time_format: str) -> Iterator[tuple[str, Callable[[str], str]]]:
    """The ways to write a format that its reader does not tell apart: zeros in front, names, capitals, offsets."""
    long = time_format.replace("%b", "%B").replace("%a", "%A")
    for bare, named, letters in product(("", "md", "HI", "mdHI"), (time_format, long), _LETTERS):
        yield re.sub(f"%(?=[{bare}])", f"{_MARK}%", named) if bare else named, letters


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
