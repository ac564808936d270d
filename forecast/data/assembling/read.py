"""A panel as people have it, as one array: long, wide or a line a series, in one file or several."""

import glob
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.data.assembling.cache import Unfinished, cached_panel, can_be_converted, convert_columnar
from forecast.data.assembling.csv_rows import line_rows, long_rows, wide_rows
from forecast.data.assembling.facts import facts_of
from forecast.data.assembling.grid import panel_grid
from forecast.data.assembling.regular import frame_of, regular, times_are_counted
from forecast.data.assembling.rows import PanelRows, checksum_of, in_order, joined, resampled
from forecast.data.catalog import file_md5
from forecast.data.holidays import with_holidays
from forecast.data.panel import Facts, PanelFrame
from forecast.data.reading.rows import within
from forecast.data.reading.table import Codebook
from forecast.data.sources import CsvSource, Source
from forecast.errors import UserError


def read_panel(
    source: CsvSource, *, freq: str | None = None, book: Codebook | None = None, leave_out: bool = False
) -> PanelFrame:
    """All series of a source whose `panel_form` is set, in the order of their ids' first appearance.

    freq: that of a training, which the series must have; None infers it, one for all. book: which columns hold
    categories; None: those of the source. leave_out: whether a series with a gap is left out where data.gaps=refuse,
    in place of all. UserError, naming file, line, column, value and fix, for a file that is no such panel.
    """
    files, book = panel_files(source), book or source.codebook()
    if leave_out or source.cache is None or not all(path.is_file() for path in files):  # refused with a reason
        frame = _read(source, files, freq, book, leave_out=leave_out)
    else:
        frame = cached_panel(source, files, freq, lambda home: _convert(source, files, freq, home, book))
    if not source.id_as_fact:
        return frame
    facts = frame.facts or Facts((), np.zeros((len(frame), 0)))
    return replace(frame, facts=facts.and_ids(f"{frame.id_column}", frame.ids))


def _convert(source: CsvSource, files: list[Path], freq: str | None, home: Unfinished, book: Codebook) -> None:
    if can_be_converted(source, files):
        convert_columnar(source, files, freq, home, book)
        return
    frame = _read(source, files, freq, book)
    home.add(frame.values, frame.measured)
    home.finish(frame)


def panel_rows(source: CsvSource, book: Codebook) -> PanelRows:
    """The rows of all files of a source, before they are sorted; UserError as `read_panel`."""
    return _all_rows(source, panel_files(source), book)


def _all_rows(source: CsvSource, files: list[Path], book: Codebook, *, known: bool = False) -> PanelRows:
    rows = joined([(str(path), _rows_of(path, source, book, known=known)) for path in files])
    if not len(rows):
        raise UserError(
            f"{source.path}: the panel holds no series with a value. Name a file with rows: data.path=my.csv"
        )
    if source.since is None and source.until is None:
        return rows
    if rows.stepped:
        raise UserError(
            f"{source.path}: data.since and data.until are times, and the rows count steps. Leave both out."
        )
    chosen = within(pd.DatetimeIndex(rows.times.view("datetime64[ns]")), source, str(source.path))
    return rows if chosen is None else rows.take(chosen)


def _read(
    source: CsvSource, files: list[Path], freq: str | None, book: Codebook, *, leave_out: bool = False
) -> PanelFrame:
    rows, name = _all_rows(source, files, book, known=freq is not None), str(source.path)
    again = source.duplicates == "error" and source.resample is not None  # rows of one time are then of one step
    ordered = in_order(rows, None if again else source.duplicates, name)
    if source.resample is not None and source.aggregate is not None:
        ordered = resampled(ordered, source.resample, source.aggregate, stepped=rows.stepped)
    facts = None
    if source.has_facts:
        facts, ordered = facts_of(source, rows, ordered, book)
        rows = replace(rows, columns=ordered.columns)
        if source.static_path is not None:  # a change of theirs is a change of the data
            rows = replace(rows, checksum=checksum_of([rows.checksum, file_md5(Path(source.static_path))]))
    grid = panel_grid(ordered, stepped=rows.stepped, trained_on=freq)
    series = regular(ordered, grid, source.gaps, leave_out=leave_out)
    frame = frame_of(series, rows, grid, name, counted=times_are_counted(source))
    facts = None if facts is None else facts.of(series.kept)
    return replace(frame, categories=book.words(frame.columns), facts=facts)


def panel_files(source: CsvSource) -> list[Path]:
    """The files that a path or a pattern names, sorted; UserError where there are none."""
    path = str(source.path)
    if not glob.has_magic(path) or Path(path).exists():
        if Path(path).is_dir():
            raise UserError(f"{path} is a folder. Name the files in it by a pattern, as data.path='{path}/*.csv'")
        return [Path(path)]
    # A Path would glob relative patterns alone.
    files = sorted(Path(name) for name in glob.glob(path, recursive=True) if not Path(name).is_dir())  # noqa: PTH207
    if not files:
        raise UserError(f"{path}: no file is called so. Check the pattern; a relative one starts at {Path.cwd()}.")
    return files


def _rows_of(path: Path, source: CsvSource, book: Codebook, *, known: bool) -> PanelRows:
    if source.panel_form == "columns":
        return wide_rows(path, source)
    if source.panel_form == "rows":
        return line_rows(path, source)
    return long_rows(path, source, book, known=known)


def whole_rows(source: CsvSource) -> PanelFrame:
    """All rows and columns of a file."""
    return read_panel(source) if source.panel_form else source.frame().as_panel()


def source_rows(source: Source) -> PanelFrame:
    """The rows of any source with the columns that a training uses; errors as it reads them.

    Those are the target alone for data.features=S, else all, holidays among them; with roles in the order of `Columns`.
    """
    if not isinstance(source, CsvSource) or not source.panel_form:
        frame = replace(source.frame().as_panel(), time_column=source.time_name)
    else:
        frame = read_panel(source)
    if not isinstance(source, CsvSource):
        return frame
    frame = with_holidays(frame, source.holidays)
    if source.has_roles:
        return frame.of(source.by_role(frame).all)
    return frame.of([frame.columns[i] for i in source.target_columns(frame)]) if source.features == "S" else frame
