"""The rows of a long panel in a Parquet or Feather file: its typed columns, some rows at a time, and no text."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from forecast.data import catalog
from forecast.data.cells import FloatArray, IntArray
from forecast.data.findings import Findings, quoted
from forecast.data.panel.columnar_cells import (
    Joint,
    Times,
    as_column,
    codes_of,
    equal_cells,
    nameless,
    numbers_of,
    text_kind,
)
from forecast.data.panel.columnar_files import known_columns, schema_of
from forecast.data.panel.names import JOINT, check_ids, counted_times, id_columns, known_time, layout_of
from forecast.data.panel.rows import PanelRows, finite_values
from forecast.data.reading.codebook import Codebook
from forecast.data.reading.columnar import (
    KINDS,
    PARQUET,
    NotText,
    index_columns,
    not_text,
    plain,
    unread_column,
    unread_type,
)
from forecast.data.reading.layout import STEP, STEPS, Layout, columns_named
from forecast.data.reading.numbers import NumberStyle
from forecast.data.reading.table import TableSpec
from forecast.data.reading.unpacked import damaged
from forecast.data.sources import CsvSource
from forecast.errors import UserError, closest
from forecast.text.terminal import label, listed

CELLS = 1 << 20  # held at a time, about


class Batch(NamedTuple):
    """Some rows: their numbers in the file (n,), and the column of each name, of pyarrow."""

    rows: IntArray
    columns: dict[str, pa.Array]


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnarFile:
    """A file of typed columns, and those of them that make the panel.

    schema: of pyarrow. places: in it, of the columns by the names that the user knows. values: the C columns;
    coded: those of categories, whose words are in the book.
    """

    path: Path
    kind: bytes
    schema: pa.Schema
    places: dict[str, int]
    ids: tuple[str, ...]
    layout: Layout
    values: tuple[str, ...]
    coded: tuple[str, ...]
    book: Codebook

    def where(self, row: int) -> str:
        """A row of the file in words."""
        return f"{self.path}: row {row + 1}"

    def check_rows(self, count: int) -> None:
        """UserError where there are none."""
        if not count:
            raise UserError(f"{self.path} holds no rows. Name a file with rows: data.path=my.parquet")

    @property
    def rows_at_once(self) -> int:
        """As many as have CELLS values."""
        return max(1, CELLS // max(1, len(self.values)))

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """The rows that data.where chooses, with some of the columns; what pyarrow raises for a damaged file.

        Raises UserError where no row has the cell that data.where names.
        """
        asked = self.layout.where or {}
        places = {name: self.places[name] for name in dict.fromkeys([*names, *asked])}
        start, found = 0, dict.fromkeys(asked, False)
        stored = self._stored(list(places.values()))
        while (batch := self._next(stored)) is not None:
            columns = {
                name: self._plain(name, column, start) for name, column in zip(places, batch.columns, strict=True)
            }
            chosen = np.ones(batch.num_rows, dtype=bool)
            for name, value in asked.items():
                same = equal_cells(columns[name], value)
                found[name] |= bool(same.any())
                chosen &= same
            rows = np.flatnonzero(chosen)
            if len(rows) < batch.num_rows:
                columns = {name: column.take(as_column(rows)) for name, column in columns.items()}
            if len(rows):
                yield Batch(rows + start, columns)
            start += batch.num_rows
        for name, there in found.items():
            if not there and start:
                raise UserError(
                    f"{self.path}: data.where: no row has {quoted(str(asked[name]))} in the column '{name}'. Choose a "
                    "cell that stands there."
                )

    def _plain(self, name: str, column: pa.Array, first: int) -> pa.Array:
        """A column whose bytes are text; UserError for other bytes. first: the number of its first row."""
        try:
            return plain(column)
        except NotText as error:
            raise unread_column(self.path, name, not_text(column.type, first + error.cell)) from error

    def _next(self, stored: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        with damaged(self.path, KINDS[self.kind]):
            return next(stored, None)

    def _stored(self, places: list[int]) -> Iterator[pa.RecordBatch]:

        if self.kind == PARQUET:
            names, rows = [self.schema.field(place).name for place in places], self.rows_at_once
            with pa.parquet.ParquetFile(self.path, memory_map=True) as parquet:
                for batch in parquet.iter_batches(rows, columns=names, use_threads=False):
                    yield batch.select(names)
            return
        with pa.memory_map(str(self.path)) as file:
            ipc = pa.ipc.open_file(file)
            for number in range(ipc.num_record_batches):
                batch = ipc.get_batch(number)
                batch.validate(full=True)  # its offsets are those of a stranger
                yield pa.RecordBatch.from_arrays([batch.column(place) for place in places], list(map(str, places)))

    def timing(self) -> Times:
        """What reads the time columns."""
        return Times([self.schema.field(self.places[name]).type for name in self.layout.time_columns], self.layout)

    def times(self, batch: Batch, timing: Times) -> IntArray:
        """What stands for the times of some rows (n,)."""
        return timing.collect(
            [batch.columns[name] for name in self.layout.time_columns], of_rows(self.where, batch.rows)
        )

    def numbers(self, batch: Batch) -> FloatArray:
        """The values (n, C) of some rows."""
        marks = NumberStyle(missing=tuple(self.layout.missing)).missing_marks()[1]
        columns = [
            codes_of(batch.columns[name], name, self.book)
            if name in self.coded
            else numbers_of(batch.columns[name], marks)
            for name in self.values
        ]
        values = np.stack(columns, axis=1)
        return finite_values(values, of_rows(self.where, batch.rows), self.values)

    def id_codes(self, batch: Batch, ids: Joint) -> IntArray:
        """The number of the series of some rows (n,); UserError for a missing id."""
        columns = [batch.columns[name] for name in self.ids]
        for name, column in zip(self.ids, columns, strict=True):
            missing = nameless(column)
            if missing.any():
                raise UserError(
                    f"{self.where(int(batch.rows[missing.argmax()]))}: the id in the column {label(name)} is missing. "
                    "Fill it in, or drop the row, or name another column: data.id_column=NAME"
                )
        return ids.codes(columns)


def columnar_rows(path: Path, kind: bytes, source: CsvSource, book: Codebook) -> PanelRows:
    """The rows of a long panel; UserError as `csv_rows.long_rows`, and for a damaged file."""
    findings = Findings(str(path), strict=True)
    return _rows(opened(path, kind, source, findings, book), findings)


def opened(path: Path, kind: bytes, source: CsvSource, findings: Findings, book: Codebook) -> ColumnarFile:
    """A file and its columns; those that hold no numbers are left out, in one line."""
    with damaged(path, KINDS[kind]):
        schema = schema_of(path, kind)
    header, places = known_columns(schema)
    kinds = {name: schema.field(place).type for name, place in zip(header, places, strict=True)}
    for name in columns_named(vars(source)):
        if name in kinds and (what := unread_type(kinds[name])):
            raise unread_column(path, name, what)
    ids = id_columns(source, header, str(path))
    layout = known_time(layout_of(source), header)
    layout.check()
    if layout.resample is not None:
        raise UserError(f"data.resample={layout.resample} is for one series. Leave it out, or resample the file.")
    for name in layout.time_columns:
        if name not in header:
            raise UserError(
                f"{path}: no time column '{name}' among the columns {listed(header)}.{closest(name, header)} Set "
                "data.time_column=NAME."
            )
        if name in ids:
            raise UserError(f"{path}: the column '{name}' is in data.id_column and in data.time_column. Name it once.")
    spec = TableSpec.of(header, layout, str(path), gaps="mask")
    index = index_columns(schema)
    chosen = [header[place] for place in spec.candidates if header[place] not in ids]
    coded = [
        name for name in chosen if name in book.named or (name in book.perhaps and text_kind(kinds[name]) == "text")
    ]
    if layout.columns is None:
        chosen = _of_numbers([name for name in chosen if name not in index], kinds, findings, coded)
    for name in chosen:
        if name not in coded and (held := text_kind(kinds[name])) is not None:
            raise UserError(f"{path}: the column '{name}' (data.columns) holds {held}, no numbers. Name another one.")
    return ColumnarFile(
        path=path,
        kind=kind,
        schema=schema,
        places=dict(zip(header, places, strict=True)),
        ids=ids,
        layout=layout,
        values=tuple(chosen),
        coded=tuple(coded),
        book=book,
    )


def _of_numbers(
    names: Sequence[str], kinds: dict[str, pa.DataType], findings: Findings, coded: Collection[str]
) -> list[str]:
    """The columns of numbers or categories (coded); the others are named in one line. UserError without any."""
    out = {name: what for name in names if name not in coded and (what := text_kind(kinds[name])) is not None}
    some = ", ".join(f"{label(name)} ({what})" for name, what in out.items())
    if out:
        findings.say(f"Left out, as they hold no numbers of the series: {some}.")
    if len(out) == len(names):
        raise UserError(
            f"{findings.path}: there is no column of numbers beside the id and the time: {some or 'no other column'}. "
            "Write the numbers as such, or name another file: data.path=my.parquet"
        )
    return [name for name in names if name not in out]


def _rows(file: ColumnarFile, findings: Findings) -> PanelRows:
    layout, path, ids = file.layout, str(file.path), Joint(len(file.ids))
    timing = file.timing()
    rows, codes, times, values = [], [], [], []
    for batch in file.batches([*file.ids, *layout.time_columns, *file.values]):
        codes.append(file.id_codes(batch, ids))
        if layout.time_columns:
            times.append(file.times(batch, timing))
        values.append(file.numbers(batch))
        rows.append(batch.rows)
    file.check_rows(len(rows))
    where = of_rows(file.where, np.concatenate(rows))
    series, names = np.concatenate(codes), joint_names(ids)
    check_ids(names, len(series), file.ids, path)
    if layout.time_columns:
        timing.decide(findings)
        stamps, stepped = timing.times(np.concatenate(times), where), timing.stepped
    else:
        stamps, stepped = counted_times(layout, series), layout.freq == STEPS
    return PanelRows(
        series=series,
        times=stamps,
        values=np.concatenate(values),
        ids=names,
        columns=file.values,
        stepped=stepped,
        where=where,
        id_column="/".join(file.ids),
        time_column=time_name(layout),
        checksum=catalog.file_md5(path),
        time_format=timing.time_format,
        id_cells=dict(zip(file.ids, ids.cells(), strict=True)),
    )


def joint_names(ids: Joint) -> list[str]:
    """The id of each series, by its number."""
    return [JOINT.join(cells) for cells in zip(*ids.cells(), strict=True)]


def time_name(layout: Layout) -> str:
    """What the column of the time is called in a forecast."""
    return layout.time_column if isinstance(layout.time_column, str) else STEP if layout.freq == STEPS else "date"


def of_rows(where: Callable[[int], str], rows: IntArray) -> Callable[[int], str]:
    """Those of the rows of a part, in words."""
    return lambda row: where(int(rows[row]))
