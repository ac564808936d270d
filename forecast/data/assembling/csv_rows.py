"""The rows of panels that are text: long, a column a series, and a line a series, its id and then its values."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.data.assembling.rows import (
    KNOWN_IDS,
    PanelRows,
    counted_times,
    finite_values,
    id_columns,
    joint_ids,
    layout_of,
    nanoseconds,
)
from forecast.data.reading.columns import BLANKS, MISSING_SPELLINGS, NumberStyle, RawColumn, TypedTable
from forecast.data.reading.content import CsvText
from forecast.data.reading.layout import STEPS
from forecast.data.reading.table import Codebook, TableSpec, read_columns, table_of
from forecast.data.reading.timestamps import AmbiguousTime, read_timestamps, whole_numbers
from forecast.data.sources import CsvSource
from forecast.data.values.cells import JOINT, Findings, quoted
from forecast.data.values.frequency import infer_frequency
from forecast.errors import UserError

VALUE = "value"  # what the column is called of a panel whose columns, or lines, are series
_COUNTED = {"", "id", "v1", "series", *KNOWN_IDS}  # first cells of a header, whatever stands behind them
_FEWEST_DATES = 3  # that make a first line one of times


def file_rows(path: Path, source: CsvSource, book: Codebook) -> PanelRows:
    """The rows of one file, in whatever form; UserError for what is wrong in it."""
    findings = Findings(str(path))
    text = CsvText(path, source.separator).verified(findings, source.sheet)
    names = next((cells for _, cells in text.records()), [])
    if source.panel_form == "rows":
        return _line_rows(text, names, source, findings)
    rows = rows_of(text, names, source, book, findings)
    return _melted(rows) if source.panel_form == "columns" else rows


def rows_of(
    text: CsvText,
    names: Sequence[str],
    source: CsvSource,
    book: Codebook,
    findings: Findings,
    *,
    form: Mapping[str, object] | None = None,
) -> PanelRows:
    """The rows of one series, or of a long panel, in a verified text.

    names: in its header, as they stand there. form: keys of the layout.
    """
    path = str(text.path)
    ids = id_columns(source, names, path) if names and source.panel_form in ("long", "rows") else ()
    layout = layout_of(source, names, form or {})
    layout.check()
    header = text.header(layout.time_columns, findings)
    layout = replace(layout, drop=[*layout.drop, *(name for name in ids if name not in layout.drop)])
    spec = TableSpec.of(header, layout, path, codebook=book)
    places = [header.index(name) for name in ids]
    cells = read_columns(text, spec, words=places)
    table = table_of(text, cells, spec, findings)
    rows = slice(None) if table.origin is None else table.origin

    def where(row: int) -> str:
        return f"{path}: line {table.line(row)}"

    series, id_cells = np.zeros(len(table.values), dtype=np.int64), [[""]]
    if ids:
        series, id_cells = joint_ids([(cells[p].codes[rows] - np.int64(1), cells[p].words) for p in places], where)
    times = table.steps
    if times is None:
        times = nanoseconds(table.timestamps) if layout.time_columns else counted_times(layout, series)
    is_counted = layout.freq == STEPS
    usual = "step" if is_counted else "date"
    return PanelRows(
        series=series,
        times=times,
        values=finite_values(table.values, where, table.columns),
        ids=[JOINT.join(parts) for parts in zip(*id_cells, strict=True)],
        columns=table.columns,
        stepped=table.steps is not None or is_counted,
        where=where,
        id_column=JOINT.join(ids) if ids else None,
        time_column=layout.time_column if isinstance(layout.time_column, str) else usual,
        checksum=text.checksum,
        time_format=table.read.settings.get("data.time_format"),
        time_zone=table.read.settings.get("data.time_zone"),
        clock=table.read.clock,
        typed_times=text.table is not None and bool(text.table.kind),
        id_cells=dict(zip(ids, id_cells, strict=False)),
    )


def _melted(rows: PanelRows) -> PanelRows:
    """The rows of a file of a column a series, one column below the other."""
    series, places = np.nonzero(~np.isnan(rows.values.T))
    return replace(
        rows,
        series=series,
        times=rows.times[places],
        values=rows.values[places, series][:, None],
        ids=list(rows.columns),
        columns=(VALUE,),
        where=lambda row: rows.where(int(places[row])),
        id_column=KNOWN_IDS[0],
    )


def _line_rows(text: CsvText, names: Sequence[str], source: CsvSource, findings: Findings) -> PanelRows:
    """The values of all lines, one series after the other, as a long panel has them.

    They are steps, unless data.freq and data.start, or dates in the first line, say when they were. A first line
    without numbers, or behind a usual name of ids, is a header.
    """
    dated = source.freq is None and source.start is None and _are_dates(names[1:])
    style = NumberStyle(source.decimal, source.thousands)
    numbers = [style.number(cell.strip(BLANKS)) for cell in names[1:]]
    header = dated or numbers.count(None) == len(numbers) or names[0].strip(BLANKS).lower() in _COUNTED
    line_of: dict[str, int] = {}
    cells: list[str] = []
    series: list[int] = []
    steps: list[int] = []
    lines: list[int] = []
    for line, (name, *values) in islice(text.records(), int(header), None):
        while values and not values[-1].strip(BLANKS):
            values.pop()
        if line_of.setdefault(name.strip(BLANKS), line) != line:
            raise UserError(
                f"{text.path}: line {line}: the series {quoted(name)} stands already in line "
                f"{line_of[name.strip(BLANKS)]}. Give each line an id of its own."
            )
        cells += values
        series += [len(line_of) - 1] * len(values)
        steps += range(len(values))
        lines += [line] * len(values)
    if not lines:
        raise UserError(f"{text.path} holds no series. Write a line for each: its id, then its values.")
    id_column = names[0] if names[0] in KNOWN_IDS else KNOWN_IDS[0]
    columns = [RawColumn.of_words(id_column, np.array(series), [*line_of]), RawColumn.of_cells(VALUE, pd.Series(cells))]
    form: dict[str, object] = {"time_column": None, "freq": source.freq or (None if source.start else STEPS)}
    if dated:
        times = [*names[1:], *[""] * (max(steps) + 2 - len(names))]
        columns.append(RawColumn.of_words("date", np.array(steps), times))
        form = {}
    text = replace(text, table=TypedTable("", columns, lines))
    return rows_of(text, [column.name for column in columns], source, Codebook(), findings, form=form)


def _are_dates(cells: Sequence[str]) -> bool:
    """Whether the first line has times above the values."""
    try:
        if len(cells) < _FEWEST_DATES or whole_numbers(cells):
            return False
        read = read_timestamps({"": [cell.strip(BLANKS) for cell in cells]}, missing=MISSING_SPELLINGS)
    except AmbiguousTime:
        return False
    return not read.faults and infer_frequency(read.stamps) is not None
