"""A panel as people have it, as one array: long or wide, in one file or several, with the facts of its series."""

import glob
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from forecast.data.cache import cached_panel, can_be_converted
from forecast.data.grid import frame_of, panel_grid, regular
from forecast.data.panel import Facts, PanelFrame, shown_times
from forecast.data.reading.layout import known_frequency, within
from forecast.data.reading.table import Codebook
from forecast.data.roles import with_holidays
from forecast.data.rows import PanelRows, file_rows, joined, nanoseconds, prepare_rows
from forecast.data.sources import CsvSource, MadeUpSource, Source
from forecast.data.values.calendar import is_below_a_day
from forecast.data.values.cells import FloatArray, quoted
from forecast.errors import UserError, closest, readable
from forecast.text.terminal import listed


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
        grid, positions = panel_grid(rows, trained_on=freq)
        series = regular(rows, grid, positions, source.gaps, known=source.known, leave_out=leave_out)
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


def facts_of(source: CsvSource, rows: PanelRows, book: Codebook) -> tuple[Facts, PanelRows]:
    """The facts of all series of a panel, and its rows without the columns that they come from.

    rows: of all files, sorted. UserError for a column that changes within a series, for a series without a fact, and
    for a name that is in neither file.
    """
    own = [name for name in source.static if name in rows.columns]
    facts = {name: _constant(rows, name) for name in own}
    for name in {*source.static} & rows.id_cells.keys():
        numbers = pd.to_numeric(pd.Series(rows.id_cells[name]), errors="coerce").to_numpy(dtype=np.float64)
        are_words = name in book.named or np.isnan(numbers).any()
        facts[name] = book.codes(name, rows.id_cells[name]) if are_words else numbers
    for name in source.static:
        if name not in facts:
            raise UserError(
                f"{rows.name}: there is no column '{name}' (data.static) among {listed([*facts, *rows.columns])}."
                f"{closest(name, [*facts, *rows.columns])} Name columns as line 1 does."
            )
        if (missing := np.isnan(facts[name])).any():
            raise UserError(
                f"{rows.name}: the series {quoted(rows.ids[int(missing.argmax())])} has no value of the fact '{name}' "
                f"(data.static), as have {int(missing.sum()) - 1} more. Fill it in, or leave the fact out."
            )
    values = np.array([facts[name] for name in source.static]).T
    if own:
        kept = [place for place, name in enumerate(rows.columns) if name not in own]
        columns = tuple(rows.columns[place] for place in kept)
        rows = replace(rows, values=np.ascontiguousarray(rows.values[:, kept]), columns=columns)
    return Facts(tuple(source.static), values, book.words(source.static), tuple(own)), rows


def _constant(rows: PanelRows, name: str) -> FloatArray:
    """The value (S,) of a column in each series, NaN where it has none; UserError where it changes."""
    column = pd.Series(rows.values[:, rows.columns.index(name)])
    owners = np.repeat(np.arange(len(rows.ids)), rows.lengths)
    values = column.groupby(owners).first().reindex(range(len(rows.ids))).to_numpy()
    changed = column.notna().to_numpy() & (column.to_numpy() != values[owners])
    if changed.any():
        row = int(changed.argmax())
        raise UserError(
            f"{rows.where(row)}: the fact '{name}' (data.static) of the series {quoted(rows.ids[owners[row]])} is not "
            "what it was before. Mend the row, or name the column in data.known or data.past."
        )
    return values
