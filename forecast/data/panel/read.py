"""A panel as people have it, as one array: long, wide or a line a series, in one file or several."""

import glob
from pathlib import Path

import numpy as np

from forecast.data.panel.columnar_rows import columnar_kind, columnar_rows
from forecast.data.panel.csv_rows import long_rows, wide_rows
from forecast.data.panel.frame import PanelFrame
from forecast.data.panel.grid import panel_grid, said
from forecast.data.panel.line_rows import line_rows
from forecast.data.panel.regular import regular, say_left_out
from forecast.data.panel.rows import PanelRows, in_order, joined
from forecast.data.sources import CsvSource
from forecast.errors import UserError


def read_panel(source: CsvSource, *, freq: str | None = None) -> PanelFrame:
    """All series of a source whose `panel_form` is set, in the order of their ids' first appearance.

    freq: that of a training, which the series must have; None infers it, one for all. UserError, naming file, line,
    column, value and fix, for a file that is no such panel.
    """
    files = panel_files(source)
    rows = joined([(str(path), _rows_of(path, source)) for path in files])
    name = str(source.path)
    if not len(rows):
        raise UserError(f"{name}: the panel holds no series with a value. Name a file with rows: data.path=my.csv")
    return _frame_of(rows, source, name, freq)


def panel_files(source: CsvSource) -> list[Path]:
    """The files that a path or a pattern names, sorted; UserError where there are none."""
    path = str(source.path)
    if not glob.has_magic(path) or Path(path).exists():
        if Path(path).is_dir():
            raise UserError(f"{path} is a folder. Name the files in it by a pattern, as data.path='{path}/*.csv'")
        return [Path(path)]
    files = sorted(Path(name) for name in glob.glob(path, recursive=True) if not Path(name).is_dir())
    if not files:
        raise UserError(f"{path}: no file is called so. Check the pattern; a relative one starts at {Path.cwd()}.")
    return files


def _rows_of(path: Path, source: CsvSource) -> PanelRows:
    if source.panel_form == "columns":
        return wide_rows(path, source)
    if source.panel_form == "rows":
        return line_rows(path, source)
    kind = columnar_kind(path)
    return long_rows(path, source) if kind is None else columnar_rows(path, kind, source)


def _frame_of(rows: PanelRows, source: CsvSource, name: str, freq: str | None) -> PanelFrame:
    """The frame of the rows of all files; UserError for what is no regular panel."""
    ids = list(rows.ids)
    ordered = in_order(rows, source.duplicates, lambda time: said(time, stepped=rows.stepped))
    grid = panel_grid(ordered, ids, name, stepped=rows.stepped, trained_on=freq)
    found = regular(ordered, grid, source.gaps, ids, rows.columns)
    left_out = {reason: [ids[number] for number in numbers] for reason, numbers in found.left_out.items()}
    if not found.kept.size:
        reasons = ", ".join(f"{len(names)} with {reason}" for reason, names in left_out.items())
        raise UserError(
            f"{name}: none of {len(ids)} series can be used: {reasons}. Name columns that all rows have: "
            "data.columns=[NAME]"
        )
    say_left_out(name, left_out, found.repair)
    begin = int(found.steps.min())
    counted = source.panel_form == "rows" or not source.time_columns  # the first row of a series is its first step
    return PanelFrame(
        values=np.ascontiguousarray(found.values),  # columns are read one by one, and windows are views of rows
        offsets=np.concatenate([[0], np.cumsum(found.lengths)]).astype(np.int64),
        steps=found.steps - begin,
        ids=np.array([ids[number] for number in found.kept.tolist()], dtype=np.str_),
        first=grid.stamp(begin),
        freq=grid.freq,
        columns=rows.columns,
        name=name,
        measured=found.measured,
        id_column=rows.id_column,
        time_column=rows.time_column,
        numbers=(begin + 1, 1) if counted or not grid.stepped else grid.number(begin),
        repair=found.repair,
        left_out=left_out,
        checksum=rows.checksum,
        time_format=rows.time_format,
    )
