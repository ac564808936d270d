"""A CSV file as a regular multivariate series, or one error that says what to mend."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.csv_columns import Table, TableSpec, read_table
from forecast.data.csv_text import CsvText, valid_separator
from forecast.data.findings import Findings, Gaps
from forecast.data.gaps import Repair, check_gaps, fill, filled_cells
from forecast.data.regularity import regular_frequency
from forecast.errors import UserError, closest
from forecast.text.terminal import listed


@dataclass(frozen=True, eq=False)
class SeriesFrame:
    """A regular series; `read_frame` has checked it, so nothing after it does.

    values (N, C) float64, finite, in the units of the file; timestamps (N,) increasing, without a time zone,
    equal to date_range(timestamps[0], periods=N, freq=freq); columns the C names; freq a pandas alias; name
    for messages: the file's path, or "demo". missing (N, C): the cells that no file held, None for none; repair: by
    which rule they were filled, see `gaps`. checksum: the MD5 of the bytes it was read from, None for made-up data.
    """

    values: npt.NDArray[np.float64]
    timestamps: pd.DatetimeIndex
    columns: tuple[str, ...]
    freq: str
    name: str
    missing: npt.NDArray[np.bool_] | None = None
    repair: Repair = field(default_factory=Repair)
    checksum: str | None = None

    def __post_init__(self) -> None:
        assert self.values.shape == (len(self.timestamps), len(self.columns))
        assert self.values.dtype == np.float64
        assert self.missing is None or self.missing.shape == self.values.shape

    def __len__(self) -> int:
        return len(self.timestamps)

    @cached_property
    def filled(self) -> npt.NDArray[np.bool_] | None:
        """(N,): the rows that hold a value which no file held; None for none."""
        return None if self.missing is None else np.logical_or.reduce(self.missing, axis=1)

    def tail(self, rows: int) -> "SeriesFrame":
        """The last rows alone."""
        return self.cut(slice(-rows, None))

    def cut(self, rows: slice) -> "SeriesFrame":
        """Some rows alone."""
        missing = None if self.missing is None else self.missing[rows]
        return replace(self, values=self.values[rows], timestamps=self.timestamps[rows], missing=missing)

    def filled_within(self, splits: Mapping[str, range]) -> "SeriesFrame":
        """The same without a value that was drawn towards rows after its split: what a reader of all rows cannot see.

        Itself where no gap lies over the end of a split. splits: target rows, see `split.split_rows`.
        """
        ends = sorted({rows.stop for rows in splits.values() if 0 < rows.stop < len(self)})
        missing = self.missing
        if missing is None or not any((missing[end - 1] & missing[end]).any() for end in ends):
            return self
        parts = [range(start, stop) for start, stop in pairwise([0, *ends, len(self)])]
        values = np.where(missing, np.nan, self.values)
        return replace(self, values=filled_cells(values, self.timestamps, self.repair.policy, parts))


def read_columns(path: Path | str, *, time_column: str = "date", separator: str = ",") -> tuple[str, ...]:
    """The names of all columns but the time column, in file order, from line 1; errors as `read_frame`."""
    findings = Findings(str(path), strict=True)
    header = CsvText(Path(path), valid_separator(separator)).verified(findings).header(time_column, findings)
    return tuple(name for name in header if name != time_column)


def read_frame(
    path: Path | str,
    *,
    columns: Sequence[str] | Callable[[Sequence[str]], Sequence[str]] | None = None,
    time_column: str = "date",
    separator: str = ",",
    decimal: str = ".",
    freq: str | None = None,
    gaps: Gaps = "refuse",
) -> SeriesFrame:
    """Read a CSV file: a header line, a time column with the year first, and columns of numbers.

    columns: the C columns to read, in this order, or what chooses them from all but the time column, in file order, all
    of which None reads. freq: the
    pandas alias that a model was trained on, which the rows must have, however few they are; None infers it, and
    any that pandas can name is accepted. gaps: what becomes of missing rows and cells, see `gaps.fill`. UserError,
    naming file, line, column, value and fix, for everything else.
    """
    findings = Findings(str(path), strict=True)
    text = CsvText(Path(path), valid_separator(separator)).verified(findings)
    header = text.header(time_column, findings)
    names = [name for name in header if name != time_column]
    if callable(columns):
        columns = columns(names)
    for name in columns or ():
        if name not in names:
            raise UserError(
                f"{path}: there is no column '{name}' among {listed(names)}.{closest(name, names)} "
                "Name columns as line 1 does."
            )
    places = [header.index(name) for name in (names if columns is None else columns)]
    time = header.index(time_column)
    spec = TableSpec(header=header, time=time, numbers=places, decimal=decimal, gaps=gaps, freq=freq)
    table, actual = read_series(text, spec, findings)
    assert actual is not None, "the strict reader raises the first error"
    return table_to_frame(table, actual, gaps)


def read_series(text: CsvText, spec: TableSpec, findings: Findings) -> tuple[Table, str | None]:
    """The table of a file below its header, and its frequency: what the strict reader and a check have in common."""
    table = read_table(text, spec, findings)
    freq = regular_frequency(table, findings, trained_on=spec.freq, gaps=spec.gaps)
    if spec.gaps != "refuse":
        check_gaps(table, freq, findings)
    return table, freq


def table_to_frame(table: Table, freq: str, gaps: Gaps) -> SeriesFrame:
    """The frame of a table without errors, its gaps filled; UserError as `gaps.fill`."""
    values, timestamps, missing, repair = fill(table, freq, gaps)
    content, name = table.text.content, str(table.text.path)
    checksum = None if content is None else content.md5
    return SeriesFrame(values, timestamps, table.columns, freq, name, missing=missing, repair=repair, checksum=checksum)
