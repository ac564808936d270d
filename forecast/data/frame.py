"""A file as a regular multivariate series, or one error that says what to mend."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.gaps import Repair, Side, check_gaps, fill, regular_frequency
from forecast.data.panel import PanelFrame
from forecast.data.reading.cells import read_table
from forecast.data.reading.csv_text import CsvText, valid_separator
from forecast.data.reading.layout import USUAL, Layout, columns_named
from forecast.data.reading.raw_columns import BLANKS
from forecast.data.reading.rows import Rows, merged, resampled, within
from forecast.data.reading.table import Choice, Codebook, Table, TableSpec
from forecast.data.reading.time_formats import possible_formats, read_cells, spread
from forecast.data.values.findings import GAPS_FIX, Findings, Gaps
from forecast.data.values.frequency import stamps_on_grid
from forecast.errors import UserError
from forecast.text.overrides import typed


@dataclass(frozen=True, eq=False)
class SeriesFrame:
    """A regular series; `read_frame` has checked it, so nothing after it does.

    values (N, C) float64, finite, in the units of the file; timestamps (N,) increasing, without a time zone,
    equal to date_range(timestamps[0], periods=N, freq=freq); columns the C names; freq a pandas alias; name
    for messages: the file's path, or "demo". missing (N, C): the cells that no file held, None for none; repair: by
    which rule they were filled. time_format: in which the timestamps were read, None for ISO 8601 and columns of parts.
    time_zone: whose clock they show, None where none is known. checksum: the MD5 of the bytes it was read from, None
    for made-up data. categories: of columns whose values are numbers of words, from 1 on, the words; 0 is another.
    numbers: as `Table` has them.
    """

    values: npt.NDArray[np.float64]
    timestamps: pd.DatetimeIndex
    columns: tuple[str, ...]
    freq: str
    name: str
    missing: npt.NDArray[np.bool_] | None = None
    repair: Repair = field(default_factory=Repair)
    checksum: str | None = None
    time_format: str | None = None
    time_zone: str | None = None
    numbers: tuple[int, int] | None = None
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.values.shape == (len(self.timestamps), len(self.columns))
        assert self.values.dtype == np.float64
        assert self.missing is None or self.missing.shape == self.values.shape

    def __len__(self) -> int:
        return len(self.timestamps)

    @cached_property
    def measured(self) -> npt.NDArray[np.bool_] | None:
        """(N, C): the cells that a file held; None: all. With `offsets` a series is `Cells`."""
        return None if self.missing is None else ~self.missing

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """(2,): the rows of the one series."""
        return np.array([0, len(self)])

    def as_panel(self) -> PanelFrame:
        """The same as the one series of a panel without ids, by which all that is made of it is made."""
        return PanelFrame(
            values=np.ascontiguousarray(self.values),
            measured=self.measured,
            offsets=self.offsets,
            steps=np.array([0]),
            ids=np.array([""]),
            first=self.timestamps[0],
            id_column=None,
            stepped=self.numbers is not None,
            numbers=self.numbers or (1, 1),
            **{
                key: getattr(self, key)
                for key in ("freq", "columns", "name", "repair", "checksum", "time_format", "time_zone")
            },
            categories=self.categories,
        )

    def of(self, columns: Sequence[str]) -> "SeriesFrame":
        """Some columns alone, in this order."""
        if tuple(columns) == self.columns:
            return self
        places = [self.columns.index(name) for name in columns]
        missing = None if self.missing is None else self.missing[:, places]
        categories = {name: words for name, words in self.categories.items() if name in columns}
        return replace(
            self, values=self.values[:, places], columns=tuple(columns), missing=missing, categories=categories
        )


def read_columns(path: Path | str, layout: Layout = USUAL) -> tuple[str, ...]:
    """The names of all columns but those of the time, in file order, from line 1; errors as `read_frame`."""
    findings = Findings(str(path), strict=True)
    header = CsvText(Path(path), valid_separator(layout.separator)).verified(findings, layout.sheet)
    return tuple(name for name in header.header(layout.time_columns, findings) if name not in layout.time_columns)


def read_frame(
    path: Path | str,
    layout: Layout = USUAL,
    *,
    columns: Choice | None = None,
    freq: str | None = None,
    open_ends: Collection[Side] = (),
    codebook: Codebook | None = None,
) -> SeriesFrame:
    """Read a file: a header line, the time, and columns of numbers, as `layout` says.

    columns: the C columns to read, in this order, or what chooses them from all but the time; None those of the layout,
    or all that hold numbers, in file order. codebook: which hold categories.
    freq: the pandas alias that a model was trained on, which the rows must have, however few they are; None infers it,
    and any that pandas can name is accepted. open_ends: where a gap gets the nearest value, whatever the layout says.
    UserError, naming file, line, column, value and fix, for everything else.
    """
    layout.check()
    findings = Findings(str(path), strict=True)
    text = CsvText(Path(path), valid_separator(layout.separator)).verified(findings, layout.sheet)
    text.check_types([*columns_named(vars(layout)), *(() if columns is None or callable(columns) else columns)])
    header = text.header(layout.time_columns, findings)
    spec = TableSpec.of(header, layout, str(path), columns=columns, freq=freq, codebook=codebook)
    spec = replace(spec, cut=not open_ends and layout.resample is None)
    table, actual = series_of(read_table(text, spec, findings), spec, findings)
    assert actual is not None, "the strict reader raises the first error"
    frame = table_to_frame(table, actual, layout.gaps, open_ends)
    return replace(frame, categories=spec.codebook.words(frame.columns))


def series_of(table: Table, spec: TableSpec, findings: Findings) -> tuple[Table, str | None]:
    """The rows of a table as one series, and its frequency; None where a check found none."""
    chosen = within(table.timestamps, spec.layout, findings.path)
    table = one_series(table if chosen is None else table.take(chosen), spec.layout, findings)
    freq = regular_frequency(table, findings, trained_on=spec.freq, gaps=spec.gaps)
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


def table_to_frame(table: Table, freq: str, gaps: Gaps, open_ends: Collection[Side] = ()) -> SeriesFrame:
    """The frame of a table without errors, its gaps filled; UserError as `gaps.fill`."""
    values, timestamps, missing, repair = fill(table, freq, gaps, open_ends=open_ends)
    content, name = table.text.content, str(table.text.path)
    checksum = None if content is None else content.checksum
    frame = SeriesFrame(values, timestamps, table.columns, freq, name, missing=missing, repair=repair)
    read = {key: getattr(table, key) for key in ("time_format", "time_zone", "numbers")}
    return replace(frame, checksum=checksum, **read)


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
