"""A file as a regular multivariate series, or one error that says what to mend."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.gaps import check_gaps, fill, regular_frequency
from forecast.data.panel import PanelFrame
from forecast.data.reading.csv_text import CsvText, valid_separator
from forecast.data.reading.layout import USUAL, Layout
from forecast.data.reading.raw_columns import BLANKS
from forecast.data.reading.rows import Rows, merged, resampled, within
from forecast.data.reading.table import Table, TableSpec
from forecast.data.reading.time_formats import possible_formats, read_cells, spread
from forecast.data.values.findings import GAPS_FIX, Findings, Gaps
from forecast.data.values.frequency import stamps_on_grid
from forecast.errors import UserError
from forecast.text.overrides import typed


def read_columns(path: Path | str, layout: Layout = USUAL) -> tuple[str, ...]:
    """The names of all columns but those of the time, in file order, from line 1; errors as `read_frame`."""
    findings = Findings(str(path), strict=True)
    header = CsvText(Path(path), valid_separator(layout.separator)).verified(findings, layout.sheet)
    return tuple(name for name in header.header(layout.time_columns, findings) if name not in layout.time_columns)


def series_of(table: Table, spec: TableSpec, findings: Findings) -> tuple[Table, str | None]:
    """The rows of a table as one series, and its frequency; None where a check found none."""
    chosen = within(table.timestamps, spec.layout, findings.path)
    table = one_series(table if chosen is None else table.take(chosen), spec.layout, findings)
    freq = regular_frequency(table, findings, gaps=spec.gaps)
    if spec.gaps == "refuse" and spec.layout.resample is not None:
        empty = np.flatnonzero(np.isnan(table.values).any(axis=1))
        if empty.size:
            findings.error(
                f"{findings.path}: data.resample={spec.layout.resample} leaves {empty.size} of {len(table.values)} "
                f"rows with a missing value, the first at {table.timestamps[empty[0]]}. Set a coarser one, or "
                f"{GAPS_FIX}."
            )
    if spec.gaps != "refuse" and not (spec.gaps == "zero" and findings.strict):
        check_gaps(table, freq, findings, zero=spec.gaps == "zero")
    return table, freq


def one_series(table: Table, layout: Layout, findings: Findings) -> Table:
    """The rows in the order of time, repeated ones made one, brought to one frequency, as the layout says.

    Times near a grid are moved onto it, as `near_grid.on_grid` does; ExchangedDays as `check_days`.
    """
    if table.timestamps.hasnans:  # an error was found; where the row belongs nobody knows
        return table
    check_days(table, layout)
    stamps, moved = stamps_on_grid(table.timestamps) if layout.time_columns else (table.timestamps, None)
    if moved is not None:
        findings.say(moved.note(len(stamps)))
    rows = merged(Rows(stamps, table.values), layout.duplicates)
    if layout.resample is not None and layout.aggregate is not None:
        rows = resampled(rows, layout.resample, layout.aggregate)
    for note in rows.notes:
        findings.say(note)
    origin = rows.origin if table.origin is None or rows.origin is None else table.origin[rows.origin]
    origin = table.origin if rows.origin is None else origin
    return replace(table, timestamps=rows.timestamps, values=rows.values, origin=origin)


def table_to_frame(table: Table, freq: str, gaps: Gaps) -> PanelFrame:
    """The frame of a table without errors, its gaps filled; UserError as `gaps.fill`."""
    values, timestamps, missing, repair = fill(table, freq, gaps)
    frame = PanelFrame.single(values, timestamps, table.columns, freq, str(table.text.path))
    measured = None if missing is None else ~missing
    return replace(frame, measured=measured, repair=repair, stepped=table.numbers is not None)


_ROWS = 10  # fewer may be in such an order by chance
_LEFT = 0.1  # of the steps that go back: so few may go back in the other reading, too


class ExchangedDays(UserError):
    """time_format: that reads the times as they were meant; None where that cannot be told."""

    def __init__(self, message: str, time_format: str | None) -> None:
        super().__init__(message)
        self.time_format = time_format


def check_days(table: Table, layout: Layout) -> None:
    """ExchangedDays for rows that go forward but for the blocks of days up to 12, unless their format is given."""
    stamps = table.timestamps
    if layout.time_format is not None or stamps.is_monotonic_increasing or len(stamps) < _ROWS or stamps.hasnans:
        return
    months = stamps.to_numpy().astype("datetime64[Y]").astype("datetime64[M]") + (stamps.day.to_numpy() - 1)
    days = pd.DatetimeIndex(months.astype("datetime64[D]") + (stamps.month.to_numpy() - 1))
    meant = stamps.where(np.asarray(stamps.day > 12), days + (stamps - stamps.normalize()))
    back, left = _against(stamps), _against(meant)
    if not back.any() or left.sum() > _LEFT * back.sum():
        return
    row, rows = int(back.argmax()) + 1, spread(len(stamps))
    header = table.text.header((), Findings(str(table.text.path), strict=False))
    places = [header.index(name) for name in layout.time_columns]
    texts = [" ".join(cells[place].strip(BLANKS) for place in places) for _, cells in table.records(rows).values()]
    both = (known for known in possible_formats(texts) if "%d" in known and "%m" in known)
    written = next((known for known in both if (read_cells(texts, known) == stamps[rows]).all()), None)
    known = written and f"{re.sub('%[dm]', lambda part: {'%d': '%m', '%m': '%d'}[part[0]], written)}|{written}"
    fix = "with day and month as they were" if known is None else f"or set {typed('data.time_format', known)}"
    raise ExchangedDays(
        f"{table.text.path}: line {table.line(row)}: day and month are exchanged where the day is at most 12, it "
        f"seems: {stamps[row]} follows {stamps[row - 1]}, and {int(back.sum())} steps turn so; read as {meant[row]} "
        f"the rows go on. Write the file anew {fix}.",
        known,
    )


def _against(stamps: pd.DatetimeIndex) -> npt.NDArray[np.bool_]:
    """(N - 1,): which steps go against the direction of most."""
    steps = np.diff(stamps.to_numpy()).astype(np.int64)
    return steps < 0 if np.count_nonzero(steps < 0) <= np.count_nonzero(steps > 0) else steps > 0
