"""A CSV file as a regular multivariate series, or one error that says what to mend."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.csv_table import TableSpec, read_table
from forecast.data.csv_text import CsvText
from forecast.data.frequency import future_timestamps
from forecast.data.gaps import UNTOUCHED, Gaps, Repair, fill
from forecast.data.regularity import regular_frequency
from forecast.errors import UserError, closest

__all__ = ["SeriesFrame", "future_timestamps", "read_columns", "read_frame"]


@dataclass(frozen=True, eq=False)
class SeriesFrame:
    """A regular series; valid by birth, so nobody behind `read_frame` checks it again.

    values (N, C) float64, finite, in the units of the file; timestamps (N,) increasing, without a time zone,
    equal to date_range(timestamps[0], periods=N, freq=freq); columns the C names; freq a pandas alias; name
    for messages: the file's path, or "demo". filled (N,): the rows that hold a value which no file held, None for
    none; repair: by which rule, see `gaps`.
    """

    values: npt.NDArray[np.float64]
    timestamps: pd.DatetimeIndex
    columns: tuple[str, ...]
    freq: str
    name: str
    filled: npt.NDArray[np.bool_] | None = None
    repair: Repair = UNTOUCHED

    def __post_init__(self) -> None:
        assert self.values.shape == (len(self.timestamps), len(self.columns))
        assert self.values.dtype == np.float64
        assert self.filled is None or self.filled.shape == (len(self.timestamps),)

    def __len__(self) -> int:
        return len(self.timestamps)

    def tail(self, rows: int) -> "SeriesFrame":
        """The last rows alone."""
        filled = None if self.filled is None else self.filled[-rows:]
        return replace(self, values=self.values[-rows:], timestamps=self.timestamps[-rows:], filled=filled)


def read_columns(path: Path | str, *, time_column: str = "date", separator: str = ",") -> tuple[str, ...]:
    """The names of all columns but the time column, in file order, from line 1; errors as `read_frame`."""
    header = CsvText(Path(path), _separator(separator)).header(time_column)
    if len(header) == 1:
        raise UserError(
            f"{path}: line 1: there is no column beside '{time_column}'. Add a column of numbers, or set "
            "data.separator."
        )
    return tuple(name for name in header if name != time_column)


def read_frame(
    path: Path | str,
    *,
    columns: Sequence[str] | None = None,
    time_column: str = "date",
    separator: str = ",",
    decimal: str = ".",
    freq: str | None = None,
    gaps: Gaps = "refuse",
) -> SeriesFrame:
    """Read a CSV file: a header line, a time column with the year first, and columns of numbers.

    columns: the C columns to read, in this order; None reads all but the time column, in file order. freq: the
    pandas alias that a model was trained on, which the rows must have, however few they are; None infers it, and
    any that pandas can name is accepted. gaps: what becomes of missing rows and cells, see `gaps.fill`. UserError,
    naming file, line, column, value and fix, for everything else.
    """
    names = read_columns(path, time_column=time_column, separator=separator)
    chosen = names if columns is None else tuple(columns)
    for name in chosen:
        if name not in names:
            raise UserError(
                f"{path}: there is no column '{name}' among {', '.join(names)}.{closest(name, names)} "
                "Name columns as line 1 does."
            )
    text = CsvText(Path(path), _separator(separator))
    spec = TableSpec(time_column=time_column, columns=chosen, decimal=_decimal(decimal), gaps=gaps)
    timestamps, values = read_table(text, spec)
    found = regular_frequency(text, timestamps, freq, gaps=gaps)
    if gaps == "refuse":
        return SeriesFrame(values, timestamps, chosen, found, str(path))
    whole = fill(text, timestamps, values, columns=chosen, freq=found, policy=gaps)
    return SeriesFrame(
        whole.values, whole.timestamps, chosen, found, str(path), filled=whole.filled, repair=whole.repair
    )


def _separator(value: str) -> str:
    value = "\t" if value == "\\t" else value  # as a shell hands it over
    if len(value) != 1:
        raise UserError(f"data.separator is {value!r}; it must be one character, as ',' or ';' or '\\t'.")
    if not value.isascii() or value.isalnum() or value in '"\r\n\0':
        raise UserError(f"data.separator is {value!r}. Choose ',', ';', '|', '\\t' or another sign of punctuation.")
    return value


def _decimal(value: str) -> str:
    if value not in (".", ","):
        raise UserError(f"data.decimal is {value!r}; it must be one character. Set '.' or ','.")
    return value
