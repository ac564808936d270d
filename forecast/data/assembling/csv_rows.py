"""The rows of panels that are text: long, a column a series, and a line a series, its id and then its values."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from forecast.data.assembling.ids import (
    KNOWN_IDS,
    check_ids,
    counted_times,
    id_columns,
    joint_ids,
    known_time,
    layout_of,
)
from forecast.data.assembling.rows import PanelRows, finite_values, nanoseconds, time_words
from forecast.data.reading.cells import read_columns, steps_in, table_of
from forecast.data.reading.csv_text import CsvText, valid_separator
from forecast.data.reading.layout import STEPS, Layout
from forecast.data.reading.numbers import MISSING_SPELLINGS, NumberStyle, number_in
from forecast.data.reading.raw_columns import BLANKS, RawColumn, TypedTable
from forecast.data.reading.table import Choice, Codebook, Table, TableSpec
from forecast.data.reading.timestamps import AmbiguousTime, read_timestamps, whole_numbers
from forecast.data.reading.unpacked import FileContent
from forecast.data.sources import CsvSource
from forecast.data.values.cells import JOINT, IntArray
from forecast.data.values.findings import Findings, quoted
from forecast.data.values.frequency import infer_frequency, stamps_on_grid
from forecast.errors import UserError
from forecast.text.overrides import hydra_value
from forecast.text.terminal import label

VALUE = "value"  # what the column is called of a panel whose columns, or lines, are series


def opened(path: Path, source: CsvSource) -> tuple[CsvText, Findings, list[str]]:
    """The text of a file and the names in its first line, as they stand there."""
    findings = Findings(str(path))
    text = CsvText(path, valid_separator(source.separator)).verified(findings, source.sheet)
    names = next((cells for _, cells in text.records()), [])
    return text, findings, names


def long_rows(
    path: Path, source: CsvSource, book: Codebook, *, known: bool = False, columns: Choice | None = None
) -> PanelRows:
    """The rows of one series, or of a long panel; UserError for what is wrong in the text.

    known: whether these are series of a training, of which each may have one row. columns: as in `read_panel`.
    """
    text, findings, names = opened(path, source)
    rows = rows_of(text, names, source, book, findings, columns=columns, known=known)
    if rows.id_column is not None:
        check_ids(rows.ids, 0 if known else len(rows), rows.id_column.split(JOINT), str(path))
    return rows


def rows_of(
    text: CsvText,
    names: Sequence[str],
    source: CsvSource,
    book: Codebook,
    findings: Findings,
    *,
    columns: Choice | None = None,
    known: bool = False,
    form: Mapping[str, object] | None = None,
) -> PanelRows:
    """The rows of one series, or of a long panel, in a verified text.

    names: in its header, as they stand there. columns, known: as in `long_rows`. form: keys of the layout.
    """
    path = text.path
    ids = id_columns(source, names, str(path)) if names and source.panel_form else ()
    layout = known_time(layout_of(source, **(form or {})), names)
    layout.check()
    header = text.header(layout.time_columns, findings)
    for name in ids:
        if name in layout.time_columns:
            raise UserError(f"{path}: the column '{name}' is in data.id_column and in data.time_column. Name it once.")
    bare = replace(layout, drop=[*layout.drop, *(name for name in ids if name not in layout.drop)])
    spec = TableSpec.of(header, bare, str(path), codebook=book, columns=columns, known=known)
    read = _read(text, spec, [header.index(name) for name in ids], findings)
    parts = [(column.codes.astype(np.int64) - 1, column.words) for column in read.words]
    _refuse_nameless(parts, ids, read.where)
    series, names_of_series = joint_ids(parts) if ids else (np.zeros(len(read.times), dtype=np.int64), [""])
    return PanelRows(
        series=series,
        times=read.times if layout.time_columns else counted_times(layout, series),
        values=finite_values(read.table.values, read.where, read.table.columns),
        ids=names_of_series,
        columns=read.table.columns,
        stepped=read.stepped or layout.freq == STEPS,
        where=read.where,
        id_column=JOINT.join(ids) if ids else None,
        time_column=_time_name(layout),
        checksum=checksum_of(text),
        time_format=read.table.time_format,
        time_zone=read.table.time_zone,
        typed_times=text.table is not None and bool(text.table.kind),
        id_cells=_cells_of(parts, ids, series) if source.has_facts else {},
    )


class _Rows(NamedTuple):
    """N rows of a file: those of its table, their times (N,) as in PanelRows, and some of its columns as words."""

    table: Table
    times: IntArray
    stepped: bool
    words: list[RawColumn]

    def where(self, row: int) -> str:
        """The file and the line of a row, for messages."""
        return f"{self.table.text.path}: line {self.table.line(row)}"


def _read(text: CsvText, spec: TableSpec, places: Sequence[int], findings: Findings) -> _Rows:
    """The rows of a file. places: of the columns to keep as words."""
    words = [*spec.times, *places, *map(spec.header.index, spec.layout.where or ())]
    columns = read_columns(text, spec, words=words)
    steps = steps_in(columns, spec, str(text.path))
    if steps is not None:  # the numbers themselves are the times
        untimed = replace(
            spec.layout, drop=[*spec.layout.drop, *spec.layout.time_columns], time_column=None, freq=STEPS
        )
        spec = replace(spec, layout=untimed)
    table = table_of(text, columns, spec, findings)
    kept = [columns[place] for place in places]
    if table.origin is not None:
        kept = [column.take(table.origin) for column in kept]
        steps = steps if steps is None else steps[table.origin]
    return _Rows(table, nanoseconds(table.timestamps) if steps is None else steps, steps is not None, kept)


def _cells_of(
    parts: Sequence[tuple[IntArray, Sequence[str]]], ids: Sequence[str], series: IntArray
) -> dict[str, list[str]]:
    """What each id column says of each series, which are numbered as they come."""
    firsts = np.unique(series, return_index=True)[1]
    return {
        name: [words[code] for code in codes[firsts].tolist()] for name, (codes, words) in zip(ids, parts, strict=True)
    }


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
    read = _read(text, TableSpec.of(header, layout, str(path)), (), findings)
    table, stamps = read.table, read.times
    if not read.stepped and layout.time_columns:
        regular, moved = stamps_on_grid(table.timestamps)
        if moved is not None:
            findings.say(moved.note(len(regular)))
            stamps = nanoseconds(regular)
    again = pd.Series(stamps).duplicated()
    if layout.duplicates == "error" and layout.resample is None and again.any():
        raise UserError(
            f"{read.where(int(again.argmax()))}: the time "
            f"{time_words(int(stamps[again.argmax()]), stepped=read.stepped)} stands in a line before, and in a "
            "panel of columns each has one line. For a row for each series and time set data.panel=long "
            "data.id_column=NAME, else data.duplicates=mean, sum, first or last."
        )
    series, places = np.nonzero(~np.isnan(table.values.T))
    values = finite_values(table.values, read.where, table.columns).T[series, places]
    return PanelRows(
        series=series,
        times=stamps[places],
        values=values[:, None],
        ids=list(table.columns),
        columns=(VALUE,),
        stepped=read.stepped or layout.freq == STEPS,
        where=lambda row: read.where(int(places[row])),
        id_column="unique_id",
        time_column=_time_name(layout),
        checksum=checksum_of(text),
        time_format=table.time_format,
    )


def checksum_of(text: CsvText) -> str:
    """The MD5 of the bytes that were read."""
    assert text.content is not None
    return text.content.checksum


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


_ID_NAMES = {"", "id", "ids", "name", "series", "v1", *KNOWN_IDS}  # of the first cell of a header that counts
_FEWEST_DATES = 3  # that make a first line one of times


def line_rows(path: Path, source: CsvSource) -> PanelRows:
    """The values of all lines, one series after the other, as a long panel has them.

    They are steps, unless data.freq and data.start, or dates in the first line, say when they were. A first line
    without numbers, or that counts them, is a header. UserError for a cell that is no number, and a file without any.
    """
    text, findings, names = opened(path, source)
    dated = source.freq is None and source.start is None and _are_dates(names[1:])
    header = dated or _is_header(names, NumberStyle(source.decimal, source.thousands))
    of_ids: dict[str, int] = {}
    lines: list[int] = []
    steps: list[int] = []
    long = io.StringIO()
    writer = csv.writer(long, delimiter=text.separator)
    id_column = names[0] if names and names[0] in KNOWN_IDS else KNOWN_IDS[0]
    writer.writerow([id_column, VALUE])
    for line, (name, *cells) in islice(text.records(), int(header), None):
        while cells and not cells[-1].strip(BLANKS):
            cells.pop()
        if of_ids.setdefault(name.strip(BLANKS), line) != line:
            raise UserError(
                f"{path}: line {line}: the series {quoted(name)} stands already in line {of_ids[name]}. Give each line "
                "an id of its own."
            )
        if dated and len(cells) >= len(names):
            raise UserError(f"{path}: line {line} has more values than line 1 times. Write a time above each value.")
        writer.writerows((name, cell) for cell in cells)
        lines += [line] * len(cells)
        steps += range(len(cells))
    if not lines:
        raise UserError(f"{path} holds no series. Write a line for each: its id, then its values.")
    written = FileContent(checksum_of(text), long.getvalue().encode())
    counted: dict[str, object] = {"time_column": None, "freq": source.freq or (None if source.start else STEPS)}
    layout = layout_of(source, time_column=None, freq=STEPS, start=None, columns=[VALUE], drop=(), where=None)
    spec = TableSpec.of([id_column, VALUE], layout, str(path))
    columns = read_columns(replace(text, content=written), spec, words=[0])
    if dated:
        columns.append(RawColumn.of_words("date", np.array(steps), names[1:]))
    typed = replace(text, content=replace(written, table=TypedTable("", columns, lines)))
    header_names, form = [column.name for column in columns], None if dated else counted
    return rows_of(typed, header_names, source, Codebook(), findings, form=form)


def _are_dates(cells: Sequence[str]) -> bool:
    """Whether the first line has times above the values."""
    try:
        if len(cells) < _FEWEST_DATES or whole_numbers(cells):
            return False
        read = read_timestamps({"": [cell.strip(BLANKS) for cell in cells]}, missing=MISSING_SPELLINGS)
    except AmbiguousTime:
        return False
    return not read.faults and infer_frequency(read.stamps) is not None


def _is_header(names: Sequence[str], style: NumberStyle) -> bool:
    """Whether the first line names what the others hold: no number stands in it, or 1, 2, 3 behind a word for id."""
    cells = [cell.strip(BLANKS) for cell in names[1:]]
    numbers = [number_in(cell, style.decimal, style.thousands) for cell in cells if cell]
    if all(number is None for number in numbers):
        return True
    counts = numbers in (list(range(len(cells))), list(range(1, len(cells) + 1)))
    return counts and names[0].strip(BLANKS).lower() in _ID_NAMES
