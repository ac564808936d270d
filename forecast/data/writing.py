"""Forecasts written as the file that they continue: its names, separator, decimal sign and times.

A row for each step, and of a file with ids for each series and step: as CSV text, or as columns for Parquet.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from forecast.data.panel import PanelFrame
from forecast.data.reading.columns import BLANKS
from forecast.data.reading.content import CsvText
from forecast.data.reading.layout import Layout
from forecast.data.reading.time_formats import EXCEL_START, ISO, NUMBERS, possible_formats
from forecast.data.reading.timestamps import row_texts
from forecast.data.values.cells import JOINT, Findings, FloatArray, IntArray
from forecast.text.documents import as_cell

CSV = ".csv"
GROUP = 2**17  # rows of a row group: those of a joined file do not tell where its parts began
ENDINGS = CSV, ".parquet"
SAMPLE = 200  # rows whose cells show how a file is written
MOST_DIGITS = 7  # of a column's standard deviation: float32 keeps no more
# What strftime has no name for, as `time_formats.read_cells` reads it.
_WORDS = {"quarter": "%YQ%q", "week": "%G-W%V", "year.month": "%Y.%m"}


@dataclass(frozen=True)
class TimeWriter:
    """How the time of a file is written: in the format that reads it, numbers with their zeros.

    names: of the columns of time. style: for strftime, of several columns a word for each; or a name of `NUMBERS`; "":
    ISO 8601 as pandas writes it. zone: whose clock the cells show, if they are instants.
    """

    names: tuple[str, ...]
    style: str = ""
    zone: str = "UTC"

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[str]], time_format: str | None, zone: str | None) -> "TimeWriter":
        """Of the cells of some rows. time_format: that their reader found, None for ISO 8601."""
        texts = [re.sub("(UTC|GMT)$", "Z", text) for text in row_texts(columns, ())[1] if text] or [""]
        if time_format in (None, ISO):
            time_format = [*possible_formats([max(texts, key=len)]), ""][1]
        style = _WORDS.get(time_format, time_format).replace("%Z", "%z")
        offset = re.search(r"([+-]\d\d):?(\d\d)$", texts[-1])
        if texts[-1][-1:] in ("Z", "z"):
            style, zone = style.replace("%z", "Z"), "UTC"
        elif offset and zone in (None, "UTC"):
            zone = f"UTC{offset[1]}:{offset[2]}"
        return cls(tuple(columns), style, zone or "UTC")

    def cells(self, stamps: pd.DatetimeIndex, clock: str | None = None) -> list[list[str]]:
        """The cells (N, columns of time) of naive timestamps (N,). clock: the zone of instants, None: they are none."""
        if not self.style:
            return [[text] for text in stamps.astype(str)]  # days where all are
        times, style = stamps, self.style
        if clock is not None:
            first = np.ones(len(stamps), dtype=bool)  # of an hour that a clock change repeats
            times = stamps.tz_localize(clock, ambiguous=first, nonexistent="shift_forward").tz_convert(self.zone)
        if style in NUMBERS:
            start, size = EXCEL_START.value if style == "excel" else 0, pd.Timedelta(1, NUMBERS[style][0]).value
            numbers = (value - start for value in times.as_unit("ns").asi8.tolist())
            return [[f"{number / size:.9f}" if number % size else str(number // size)] for number in numbers]
        if style == _WORDS["week"] and (times.day_of_week > 0).any():
            style += "-%u"
        texts = (times.to_period("Q") if "%q" in style else times).strftime(style)
        texts = texts.str.replace(r"([+-]\d\d)(\d\d)$", r"\1:\2", regex=True) if style.endswith("%z") else texts
        return [text.split(" ", len(self.names) - 1) for text in texts]


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
        text = CsvText(path, layout.separator).verified(findings)
        header = text.header(layout.time_columns, findings)
        rows = [cells for _, cells in islice(text.rows(), SAMPLE)]
        places = {name: header.index(name) for name in layout.time_columns}
        times = {name: [row[place].strip(BLANKS) for row in rows if place < len(row)] for name, place in places.items()}
        writer = TimeWriter.of(times, time_format, layout.time_zone) if times else None
        return cls(text.separator, layout.decimal or ".", writer, dict(layout.where or {}))


PLAIN = Writing()


class SeriesForecasts(NamedTuple):
    """Forecasts of some series: their numbers (B,) in the panel, and values (B, P, T) in original units.

    far: the numbers of those that begin from rows of another size than their train rows.
    """

    series: IntArray
    values: FloatArray
    far: Sequence[int] = ()


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
        return [*self.id_columns, *self._times, *self.writing.where, *self.targets]

    def header_text(self) -> str:
        """The first line of a CSV."""
        return self.text(np.arange(0), np.zeros((0, self.pred_len, len(self.targets))), header=True)

    def text(self, series: IntArray, values: FloatArray, *, header: bool = False) -> str:
        """The lines of forecasts (B, P, T) of series (B,); header: below the names of their columns."""
        table, steps, decimal = self.table(series, values + 0.0), self._steps(series), self.writing.decimal
        cells = {name: texts[steps] for name, texts in self._times.items()}
        for name, cell in self.writing.where.items():
            cells[name] = np.full(len(steps), str(cell).replace(".", decimal) if isinstance(cell, float) else cell)
        table = table.assign(**cells)[self.header]
        if self.safe:
            ids = {name: table[name].map(as_cell) for name in self.id_columns}
            table = table.assign(**ids).rename(columns=as_cell)
        return table.to_csv(
            header=header, index=False, sep=self.writing.separator, decimal=decimal, lineterminator="\n"
        )

    def table(self, series: IntArray, values: FloatArray) -> pd.DataFrame:
        """The rows of forecasts (B, P, T) of series (B,), with timestamps."""
        ids = {name: np.repeat(cells[series], self.pred_len) for name, cells in self.id_columns.items()}
        targets = dict(zip(self.targets, values.reshape(-1, len(self.targets)).T, strict=True))
        return pd.DataFrame({**ids, self.frame.time_column: self.stamps[self._steps(series)], **targets})

    def columns(self, series: IntArray, values: FloatArray) -> pa.Table:
        """The rows of forecasts (B, P, T) of series (B,) as a table of pyarrow's."""
        table = self.table(series, values).astype({name: np.int64 for name in self.whole if name in self.id_columns})
        return pa.Table.from_pandas(table, self.schema(), preserve_index=False)

    def schema(self) -> pa.Schema:
        """The names and kinds of the columns of a Parquet file."""
        time = pa.int64() if self.frame.without_calendar else pa.timestamp("ns", self._zone)
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

    @property
    def _zone(self) -> str | None:
        """In which instants are shown that are counted in UTC."""
        return None if self.frame.clock == self.frame.time_zone else self.frame.time_zone

    @cached_property
    def stamps(self) -> npt.NDArray[Any]:
        """The time of each step: a timestamp, or the number of a step that no calendar counts."""
        if self.frame.without_calendar:
            return self.frame.times(self.pred_len)
        return self.frame.calendar(self.pred_len).to_numpy().astype("datetime64[ns]")

    @cached_property
    def _times(self) -> dict[str, npt.NDArray[Any]]:
        """The texts of each step, by the column of time; of steps that no forecast has none."""
        if self.frame.without_calendar:
            return {self.frame.time_column: self.stamps}
        ends = np.unique(self.frame.steps + self.frame.lengths)
        used = np.unique(ends[:, None] + np.arange(self.pred_len))
        style = "%Y-%m-%d %H:%M:%S%z" if self._zone else ""
        writer = self.writing.times or TimeWriter((self.frame.time_column,), style, self._zone or "UTC")
        cells = writer.cells(pd.DatetimeIndex(self.stamps[used]), self.frame.clock)
        texts = np.empty((len(self.stamps), len(writer.names)), dtype=object)
        texts[used] = cells
        return dict(zip(writer.names, texts.T, strict=True))


def write_rows(path: Path, ending: str, table: ForecastTable, blocks: Iterable[SeriesForecasts]) -> None:
    """Writes forecasts to a path from `forecast.files.together`, as files that end so."""
    if ending == CSV:
        with path.open("w", encoding="utf-8", newline="") as file:
            file.write(table.header_text())
            file.writelines(table.text(some.series, some.values) for some in blocks)
    else:
        write_groups(path, table.schema(), (table.columns(some.series, some.values) for some in blocks))


def write_groups(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Writes rows as Parquet in row groups of GROUP rows, whatever tables they come in."""
    held = schema.empty_table()
    with pq.ParquetWriter(path, schema) as writer:
        for table in tables:
            held = pa.concat_tables([held, table]).combine_chunks()
            while len(held) >= GROUP:
                writer.write_table(held.slice(0, GROUP))
                held = held.slice(GROUP)
        if len(held):
            writer.write_table(held)
