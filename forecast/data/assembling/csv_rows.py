"""The rows of panels that are text: long, and a column a series."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.assembling.names import (
    check_ids,
    counted_times,
    id_columns,
    joint_ids,
    known_time,
    layout_of,
)
from forecast.data.assembling.rows import PanelRows, finite_values, nanoseconds, time_words
from forecast.data.reading.cells import read_raw, steps_in, table_of
from forecast.data.reading.codebook import Codebook
from forecast.data.reading.csv_columns import check_signs
from forecast.data.reading.csv_text import CsvText, valid_separator
from forecast.data.reading.layout import STEPS, Layout, columns_named
from forecast.data.reading.raw_columns import TypedTable
from forecast.data.reading.table import Table, TableSpec
from forecast.data.sources import CsvSource
from forecast.data.values.cells import JOINT, IntArray
from forecast.data.values.findings import Findings, quoted
from forecast.data.values.frequency import stamps_on_grid
from forecast.errors import UserError
from forecast.text.overrides import hydra_value
from forecast.text.terminal import label

VALUE = "value"  # what the column is called of a panel whose columns, or lines, are series
_SAMPLE = 2_000  # rows that tell which columns hold numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class LongColumns:
    """N rows of a long panel.

    ids: of each id column the codes (N,) and their words. times (N,), stepped, time_format, where: as in TargetRows.
    values (N, C): NaN where one is missing.
    """

    ids: list[tuple[IntArray, list[str]]]
    times: IntArray
    stepped: bool
    time_format: str | None
    values: npt.NDArray[np.float64]
    columns: tuple[str, ...]
    where: Callable[[int], str]


def opened(path: Path, source: CsvSource) -> tuple[CsvText, Findings, list[str]]:
    """The text of a file and the names in its first line, as they stand there."""
    findings = Findings(str(path), strict=True)
    text = CsvText(path, valid_separator(source.separator)).verified(findings, source.sheet)
    text.check_types(columns_named(vars(source)))
    names = next((cells for _, cells in text.records()), [])
    return text, findings, names


def long_rows(path: Path, source: CsvSource, book: Codebook, *, known: bool = False) -> PanelRows:
    """The rows of a long panel; UserError as `read_frame` for what is wrong in the text.

    known: whether these are series of a training, of which each may have one row.
    """
    text, findings, names = opened(path, source)
    rows = rows_of(text, names, source, book, findings)
    check_ids(rows.ids, 0 if known else len(rows), rows.id_column.split(JOINT), str(path))
    return rows


def rows_of(text: CsvText, names: Sequence[str], source: CsvSource, book: Codebook, findings: Findings) -> PanelRows:
    """The rows of a long panel in a verified text. names: in its header, as they stand there."""
    path = text.path
    ids = id_columns(source, names, str(path)) if names else ()
    layout = known_time(layout_of(source), names)
    layout.check()
    header = text.header(layout.time_columns, findings)
    for name in ids:
        if name in layout.time_columns:
            raise UserError(f"{path}: the column '{name}' is in data.id_column and in data.time_column. Name it once.")
    bare = replace(layout, drop=[*layout.drop, *(name for name in ids if name not in layout.drop)])
    spec = TableSpec.of(header, bare, str(path), gaps="mask", codebook=book)
    check_signs(text, spec, findings)
    places = [header.index(name) for name in ids]
    read = _long_columns(text, spec, places, ids, findings)
    series, names_of_series = joint_ids(read.ids)
    return PanelRows(
        series=series,
        times=read.times if layout.time_columns else counted_times(layout, series),
        values=finite_values(read.values, read.where, read.columns),
        ids=names_of_series,
        columns=read.columns,
        stepped=read.stepped or layout.freq == STEPS,
        where=read.where,
        id_column=JOINT.join(ids),
        time_column=_time_name(layout),
        checksum=checksum_of(text),
        time_format=read.time_format,
        id_cells=_cells_of(read.ids, ids, series) if source.has_facts else {},
    )


def _cells_of(
    parts: Sequence[tuple[IntArray, Sequence[str]]], ids: Sequence[str], series: IntArray
) -> dict[str, list[str]]:
    """What each id column says of each series, which are numbered as they come."""
    firsts = np.unique(series, return_index=True)[1]
    return {
        name: [words[code] for code in codes[firsts].tolist()] for name, (codes, words) in zip(ids, parts, strict=True)
    }


def _long_columns(
    text: CsvText, spec: TableSpec, places: Sequence[int], ids: Sequence[str], findings: Findings
) -> LongColumns:
    words = [*spec.times, *places, *map(spec.header.index, spec.layout.where or ())]
    raw = read_raw(text, spec, findings, words=words)
    times = steps_in(raw.columns, spec, str(text.path))
    table = table_of(raw, spec if times is None else _untimed(spec), findings)
    taken = slice(None) if table.origin is None else table.origin
    parts = [(raw.columns[place].codes[taken].astype(np.int64) - 1, raw.columns[place].words) for place in places]
    _refuse_nameless(parts, ids, line_of(table))
    return LongColumns(
        ids=parts,
        times=nanoseconds(table.timestamps) if times is None else times[taken],
        stepped=times is not None,
        time_format=table.time_format,
        values=table.values,
        columns=table.columns,
        where=line_of(table),
    )


def id_codes(table: TypedTable, name: str) -> tuple[IntArray, list[str]]:
    """Of each row (N,) of typed cells which word an id column has, and the words, as `_long_columns` reads them."""
    column = table.columns[table.names.index(name)].as_words()
    return column.codes.astype(np.int64) - 1, column.words


def wide_rows(path: Path, source: CsvSource) -> PanelRows:
    """The cells of a panel of a column a series, one below the other; UserError as `read_frame`."""
    text, findings, names = opened(path, source)
    twice = next((name for name in names if name.strip() and names.count(name) > 1), None)
    if twice is not None:
        raise UserError(
            f"{path}: line 1: two columns are called {quoted(twice)}, and a panel of columns needs a name for each "
            "series. Give each column another name."
        )
    layout = known_time(layout_of(source), names)
    layout.check()
    header = text.header(layout.time_columns, findings)
    spec = TableSpec.of(header, layout, str(path), gaps="mask")
    check_signs(text, spec, findings)
    raw = read_raw(text, spec, findings, words=[*spec.times, *map(header.index, layout.where or ())])
    times = steps_in(raw.columns, spec, str(text.path))
    table = table_of(raw, spec if times is None else _untimed(spec), findings)
    times = times if times is None or table.origin is None else times[table.origin]
    if times is None and layout.time_columns:
        regular, moved = stamps_on_grid(table.timestamps)
        if moved is not None:
            findings.say(moved.note(len(regular)))
            table = replace(table, timestamps=regular)
    where = line_of(table)
    stamps = nanoseconds(table.timestamps) if times is None else times
    again = pd.Series(stamps).duplicated()
    if layout.duplicates == "error" and layout.resample is None and again.any():
        raise UserError(
            f"{where(int(again.argmax()))}: the time "
            f"{time_words(int(stamps[again.argmax()]), stepped=times is not None)} stands in a line before, and in a "
            "panel of columns each has one line. For a row for each series and time set data.panel=long "
            "data.id_column=NAME, else data.duplicates=mean, sum, first or last."
        )
    series, places = np.nonzero(~np.isnan(table.values.T))
    values = finite_values(table.values, where, table.columns).T[series, places]
    return PanelRows(
        series=series,
        times=stamps[places],
        values=values[:, None],
        ids=list(table.columns),
        columns=(VALUE,),
        stepped=times is not None or layout.freq == STEPS,
        where=lambda row: f"{where(int(places[row]))}",
        id_column="unique_id",
        time_column=_time_name(layout),
        checksum=checksum_of(text),
        time_format=table.time_format,
    )


def checksum_of(text: CsvText) -> str:
    """The MD5 of the bytes that were read."""
    assert text.content is not None
    return text.content.checksum


def line_of(table: Table) -> Callable[[int], str]:
    """The file and the line of a row, for messages."""
    return lambda row: f"{table.text.path}: line {table.line(row)}"


def _untimed(spec: TableSpec) -> TableSpec:
    """The same without the column of the time, which is left out."""
    layout = spec.layout
    drop = [*layout.drop, *layout.time_columns]
    return replace(spec, layout=replace(layout, drop=drop, time_column=None, freq=STEPS))


def _time_name(layout: Layout) -> str:
    return layout.time_column if isinstance(layout.time_column, str) else "step" if layout.freq == STEPS else "date"


def _refuse_nameless(
    parts: Sequence[tuple[IntArray, Sequence[str]]], ids: Sequence[str], where: Callable[[int], str]
) -> None:
    for name, (codes, words) in zip(ids, parts, strict=True):
        if "" in words and (nameless := codes == words.index("")).any():
            raise UserError(
                f"{where(int(nameless.argmax()))}: the id in the column {label(name)} is missing. Fill it in, or drop "
                f"the line, or name another column: data.id_column={hydra_value('NAME')}"
            )
