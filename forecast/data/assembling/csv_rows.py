"""The rows of the files of a panel: long, or a column a series."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

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
from forecast.data.reading.content import CsvText
from forecast.data.reading.layout import STEPS
from forecast.data.reading.table import Codebook, TableSpec, read_columns, table_of
from forecast.data.sources import CsvSource
from forecast.data.values.cells import JOINT, Findings

VALUE = "value"  # what the column is called of a panel whose columns are series


def file_rows(path: Path, source: CsvSource, book: Codebook) -> PanelRows:
    """The rows of one file, in whatever form; UserError for what is wrong in it."""
    findings = Findings(str(path))
    text = CsvText(path, source.separator).verified(findings, source.sheet)
    names = next((cells for _, cells in text.records()), [])
    rows = rows_of(text, names, source, book, findings)
    return _melted(rows) if source.panel_form == "columns" else rows


def rows_of(
    text: CsvText,
    names: Sequence[str],
    source: CsvSource,
    book: Codebook,
    findings: Findings,
) -> PanelRows:
    """The rows of one series, or of a long panel, in a verified text.

    names: in its header, as they stand there.
    """
    path = str(text.path)
    ids = id_columns(source, names, path) if names and source.panel_form == "long" else ()
    layout = layout_of(source, names)
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
