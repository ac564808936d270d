"""A panel as people have it, as one array: long, wide or a line a series, in one file or several."""

import glob
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.data.assembling.cache import cached_panel, can_be_converted
from forecast.data.assembling.csv_rows import file_rows
from forecast.data.assembling.facts import facts_of
from forecast.data.assembling.grid import panel_grid
from forecast.data.assembling.regular import frame_of, regular
from forecast.data.assembling.rows import PanelRows, joined, nanoseconds, prepare_rows
from forecast.data.panel import Facts, PanelFrame, shown_times
from forecast.data.reading.layout import known_frequency, within
from forecast.data.reading.table import Codebook
from forecast.data.roles import with_holidays
from forecast.data.sources import CsvSource, MadeUpSource, Source
from forecast.data.values.frequency import is_below_a_day
from forecast.errors import UserError, readable


def read_panel(
    source: CsvSource,
    *,
    freq: str | None = None,
    book: Codebook | None = None,
    leave_out: bool = False,
) -> PanelFrame:
    """All series of a source, in the order of their ids' first appearance; a file without ids is one.

    freq: that of a training, which the series must have; None infers it, one for all. book: which columns hold
    categories; None: those of the source.
    leave_out: whether a series with a gap is left out where data.gaps=refuse, in place of all.
    UserError, naming file, line, column, value and fix, for a file that is no such panel.
    """
    source = source.located()
    files, book = panel_files(source), book or source.codebook()
    if source.cache is not None and not leave_out and can_be_converted(source, files):
        frame = cached_panel(source, files, freq, book)
    else:
        rows, facts = prepare_rows(panel_rows(source, book), source), None
        if source.static:
            facts, rows = facts_of(source, rows, book)
        grid = panel_grid(rows, trained_on=freq)
        series = regular(rows, grid, source.gaps, known=source.known, leave_out=leave_out)
        frame = frame_of(series, rows, grid, counted=not source.time_columns)
        facts = None if facts is None else facts.of(series.kept)
        frame = replace(frame, categories=book.words(frame.columns), facts=facts)
    if not source.id_as_fact:
        return frame
    facts = frame.facts or Facts((), np.zeros((len(frame), 0)))
    return replace(frame, facts=facts.and_ids(f"{frame.id_column}", frame.ids))


def panel_rows(source: CsvSource, book: Codebook) -> PanelRows:
    """The rows of all files of a source, before they are sorted; UserError as `read_panel`."""
    rows = joined([(str(path), file_rows(path, source, book)) for path in panel_files(source)])
    if not len(rows):
        raise UserError(
            f"{source.path}: the panel holds no series with a value. Name a file with rows: data.path=my.csv"
        )
    times = shown_times(pd.DatetimeIndex(rows.times.view("datetime64[ns]")), rows.clock, rows.time_zone)
    days = source.resample is not None and not is_below_a_day(known_frequency(source.resample, "data.resample"))
    if days and rows.clock is not None:
        rows = replace(rows, times=nanoseconds(times), clock=rows.time_zone)
    if source.since is None and source.until is None:
        return rows
    chosen = within(times, source, str(source.path))
    return rows if chosen is None else rows.take(chosen)


def panel_files(source: CsvSource) -> list[Path]:
    """The files that a path or a pattern names, sorted; UserError where there are none."""
    path = str(source.path)
    with readable(path):
        if Path(path).is_dir():
            raise UserError(f"{path} is a folder. Name the files in it by a pattern, as data.path='{path}/*.csv'")
        if not glob.has_magic(path) or Path(path).exists():
            return [Path(path)]
    # A Path would glob relative patterns one_target.
    files = sorted(Path(name) for name in glob.glob(path, recursive=True) if not Path(name).is_dir())  # noqa: PTH207
    if not files:
        raise UserError(f"{path}: no file is called so. Check the pattern; a relative one starts at {Path.cwd()}.")
    return files


def source_rows(source: Source) -> PanelFrame:
    """The rows of any source with the columns that a training uses; errors as it reads them.

    Those are the target alone for data.features=S, else all, holidays among them; with roles in the order of `Columns`.
    """
    if isinstance(source, CsvSource):
        # a target alone is read alone: what other columns lack or hold does not matter
        if source.features == "S" and isinstance(source.target, str) and source.panel_form in (None, "long"):
            source = replace(source, columns=[source.target])
        frame = with_holidays(read_panel(source), source.holidays)
    else:
        assert isinstance(source, MadeUpSource)
        frame = source.frame()
    columns = source.by_role(frame)
    if source.has_roles:
        return frame.of(columns.targets + columns.past + columns.known + columns.hidden)
    return frame.of(columns.targets) if source.features == "S" else frame
