"""Forecasts written as the file that they continue: its names, separator, decimal sign and times.

A row for each step, and of a file with ids for each series and step: as CSV text, or as columns for Parquet.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from typing_extensions import TypedDict

from forecast.data.panel import PanelFrame
from forecast.data.reading.csv_text import CsvText, valid_separator
from forecast.data.reading.layout import Layout
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
MOST_DIGITS = 7  # of a column's standard deviation: float32 keeps no more
# What strftime has no name for, as `time_formats.read_cells` reads it; in two columns Q and -W are left out.
_BY_NAME = {"quarter": "%YQ%q", "week": "%G-W%V", "year.month": "%Y.%m"}
_SIZES = {**UNIX_SIZES, "excel": 86_400 * 10**9}  # of the formats that are numbers, in nanoseconds
_MARK = "\x01"  # before a number without a zero in front
_BARE = "md", "HI", "mdHI"  # directives of such numbers


@dataclass(frozen=True)
class TimeWriter:
    """How the time of a file is written: in the format that reads it, where that can be with the zeros of its cells.

    formats: of each column of time, for strftime, or a name of `_SIZES`; None: ISO 8601 as pandas writes it, in the
    first. zone: whose clock timestamps show that are instants, None: they are none; shown: that of the
    cells, an offset from UTC.
    """

    names: tuple[str, ...]
    formats: tuple[str, ...] | None = None
    zone: str | None = None
    shown: str = "UTC"

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[str]], time_format: str | None, zone: str | None) -> "TimeWriter":
        """Of the cells of some rows. time_format: that their reader found, None for ISO 8601 or named parts."""
        known = None if time_format else known_parts(list(columns))
        texts = [re.sub("(UTC|GMT)$", "Z", text) for text in row_texts(columns, known, ())[1] if text]
        if known:
            time_format = format_of_parts(known, texts)
        elif time_format in (None, ISO):
            iso, candidates = read_cells(texts, ISO), (name for name in possible_formats(texts) if name != ISO)
            time_format = next((name for name in candidates if read_cells(texts, name).equals(iso)), None)
        if time_format is None:
            return cls(tuple(columns))
        alternatives = time_format.split("|")
        time_format = alternatives[0] if all(map(has_year, alternatives)) else time_format
        style = _BY_NAME.get(time_format, time_format).replace("%Z", "%z")
        style = style if len(columns) == 1 else re.sub("Q|-W", " ", style)
        shown, offset = zone or "UTC", re.search(r"([+-]\d\d):?(\d\d)$", texts[-1]) if texts else None
        if "%z" in style and texts and texts[-1][-1] in "Zz":
            style, shown = style.replace("%z", "Z"), "UTC"
        elif offset and shown == "UTC":
            shown = f"UTC{offset[1]}:{offset[2]}"
        are_instants = time_format in UNIX_SIZES or "%z" in time_format.replace("%Z", "%z")
        writer = cls(tuple(columns), zone=(zone or "UTC") if are_instants else None, shown=shown)
        stamps = read_cells(texts, time_format)
        texts, stamps = np.array(texts, dtype=object)[stamps.notna()].tolist(), stamps.dropna()
        if writer.zone is not None:
            stamps = stamps.tz_localize("UTC").tz_convert(writer.zone).tz_localize(None)
        bare = [re.sub(f"%(?=[{letters}])", f"{_MARK}%", style) for letters in _BARE]
        style = next((form for form in (style, *bare) if writer.texts(stamps, form) == texts), style)
        # of several columns the words of the format, as many as the cells have
        names, words = list(known.values() if known else columns), iter(style.split(" "))
        widths = [1 if known else len(next(filter(None, columns[name]), "").split()) for name in names]
        formats = {name: " ".join(islice(words, width)) for name, width in zip(names, widths, strict=True)}
        return replace(writer, formats=tuple(formats[name] for name in columns) if len(columns) > 1 else (style,))

    def cells(self, stamps: pd.DatetimeIndex) -> list[list[str]]:
        """The cells (N, columns of time) of naive timestamps (N,)."""
        if self.formats is None:
            return [[text, *([""] * (len(self.names) - 1))] for text in stamps.astype(str)]  # days where all are
        return [list(row) for row in zip(*(self.texts(stamps, style) for style in self.formats), strict=True)]

    def texts(self, stamps: pd.DatetimeIndex, style: str) -> list[str]:
        """The texts (N,) of naive timestamps in a format."""
        times = stamps
        if self.zone is not None:
            first = np.ones(len(stamps), dtype=bool)  # of an hour that a clock change repeats
            times = stamps.tz_localize(self.zone, ambiguous=first, nonexistent="shift_forward")
            times = times.tz_convert(self.shown)
        if (size := _SIZES.get(style)) is not None:
            start = EXCEL_START.value if style == "excel" else 0
            units = (round(Decimal(value - start) / size, 9) for value in times.as_unit("ns").asi8.tolist())
            return [f"{unit.normalize():f}" for unit in units]
        if style == _BY_NAME["week"] and (times.day_of_week > 0).any():
            style += "-%u"
        index = times.to_period("Q") if "%q" in style else times
        texts = [re.sub(f"{_MARK}0?", "", text) for text in index.strftime(style)]
        return [f"{text[:-2]}:{text[-2:]}" for text in texts] if style.endswith("%z") else texts


@dataclass(frozen=True)
class Writing:
    """How a file is written, as far as what continues it must be written so too.

    times: its columns of time, none for a file without. where: cells that tell its rows from those of other series.
    """

    separator: str = ","
    decimal: str = "."
    times: TimeWriter | None = None
    where: Mapping[str, str | float] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, layout: Layout, time_format: str | None) -> "Writing":
        """Of a file that a layout reads. time_format: that its reader found; None for ISO 8601."""
        findings = Findings(str(path))
        text = CsvText(path, valid_separator(layout.separator)).verified(findings)
        header = text.header(layout.time_columns, findings)
        rows = [cells for _, cells in islice(text.rows(), SAMPLE)]
        places = {name: header.index(name) for name in layout.time_columns}
        times = {name: [row[place].strip(BLANKS) for row in rows if place < len(row)] for name, place in places.items()}
        writer = TimeWriter.of(times, time_format, layout.time_zone) if times else None
        return cls(text.separator, layout.decimal, writer, dict(layout.where or {}))


PLAIN = Writing()


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
    Parquet file stay. writing: how the panel's file writes, as far as it is a CSV. safe: for a spreadsheet, which would
    take a text that begins with = for a formula.
    """

    frame: PanelFrame
    targets: Sequence[str]
    pred_len: int
    id_names: Sequence[str] = ()
    whole: Collection[str] = ()
    writing: Writing = PLAIN
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
        names = pd.DataFrame(columns=self.header)
        return names.to_csv(index=False, sep=self.writing.separator, lineterminator="\n")

    def text(self, series: IntArray, values: FloatArray) -> str:
        """The lines of forecasts (B, P, T) of series (B,)."""
        steps, where = self._steps(series), self.writing.where.values()
        ids = [cells[series] for cells in self.id_columns.values()]
        if self.safe:
            ids = [np.array([as_cell(cell) for cell in cells], dtype=object) for cells in ids]
        columns = [
            *(np.repeat(cells, self.pred_len) for cells in ids),
            *(texts[steps] for texts in self._times),
            *(str(cell).replace(".", self.writing.decimal) if isinstance(cell, float) else cell for cell in where),
            *(values.reshape(-1, len(self.targets)) + 0.0).T,
        ]
        table: pd.DataFrame = pd.DataFrame(dict(enumerate(columns)), index=range(len(steps)))
        return table.to_csv(
            header=False, index=False, sep=self.writing.separator, decimal=self.writing.decimal, lineterminator="\n"
        )

    def table(self, series: IntArray, values: FloatArray) -> pd.DataFrame:
        """The rows of forecasts (B, P, T) of series (B,), with timestamps."""
        ids = [np.repeat(cells[series], self.pred_len) for cells in self.id_columns.values()]
        columns = [*ids, self.stamps[self._steps(series)], *values.reshape(-1, len(self.targets)).T]
        names = [*self.id_columns, self.frame.time_column, *self.targets]
        return pd.DataFrame(dict(zip(names, columns, strict=True)))

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
        return (first[:, None] + np.arange(self.pred_len)).ravel()

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
        writer = self.writing.times or TimeWriter((self.frame.time_column,))
        cells = np.array(writer.cells(stamps), dtype=object)
        texts = np.empty((len(used), cells.shape[1]), dtype=object)
        texts[used] = cells
        return list(texts.T)
