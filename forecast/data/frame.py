"""A CSV file as a regular multivariate series, or one error that says what to mend."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.csv_text import CsvText
from forecast.data.frequency import first_deviation, future_timestamps, infer_frequency, is_exact
from forecast.errors import UserError, closest

__all__ = ["SeriesFrame", "future_timestamps", "read_columns", "read_frame"]

_MANY_REPEATS = 0.1  # share of rows: a clock set back repeats a few timestamps, stacked series repeat most
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_OTHER_DECIMAL = re.compile(r"[+-]?\d+[.,]\d+", re.ASCII)
_ZONE = re.compile(r"\d:\d\d.*?(Z|[+-]\d\d?(:?\d\d)?|\b(UTC|GMT|[A-Z]{3,4}))\s*$")


@dataclass(frozen=True, eq=False)
class SeriesFrame:
    """A regular series; valid by birth, so nobody behind `read_frame` checks it again.

    values (N, C) float64, finite, in the units of the file; timestamps (N,) increasing, without a time zone,
    equal to date_range(timestamps[0], periods=N, freq=freq); columns the C names; freq a pandas alias; name
    for messages: the file's path, or "demo".
    """

    values: npt.NDArray[np.float64]
    timestamps: pd.DatetimeIndex
    columns: tuple[str, ...]
    freq: str
    name: str

    def __post_init__(self) -> None:
        assert self.values.shape == (len(self.timestamps), len(self.columns))
        assert self.values.dtype == np.float64

    def __len__(self) -> int:
        return len(self.timestamps)

    def tail(self, rows: int) -> "SeriesFrame":
        """The last rows alone."""
        return SeriesFrame(self.values[-rows:], self.timestamps[-rows:], self.columns, self.freq, self.name)


def read_columns(path: Path | str, *, time_column: str = "date", separator: str = ",") -> tuple[str, ...]:
    """The names of all columns but the time column, in file order, from line 1; errors as `read_frame`."""
    header = CsvText(Path(path), _one_character(separator, "data.separator")).header(time_column)
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
) -> SeriesFrame:
    """Read a CSV file: a header line, a time column with the year first, and columns of numbers.

    columns: the C columns to read, in this order; None reads all but the time column, in file order. freq: the
    pandas alias that a model was trained on, which the rows must have, however few they are; None infers it, and
    any that pandas can name is accepted. UserError, naming file, line, column, value and fix, for everything else.
    """
    names = read_columns(path, time_column=time_column, separator=separator)
    chosen = names if columns is None else tuple(columns)
    for name in chosen:
        if name not in names:
            raise UserError(
                f"{path}: there is no column '{name}' among {', '.join(names)}.{closest(name, names)} "
                "Name columns as line 1 does."
            )
    text = CsvText(Path(path), _one_character(separator, "data.separator"))
    table = _read_table(text, time_column, chosen, _one_character(decimal, "data.decimal"))
    timestamps = _timestamps(text, table[time_column].to_numpy(dtype=object), time_column)
    values = table[list(chosen)].to_numpy(dtype=np.float64)
    return SeriesFrame(values, timestamps, chosen, _frequency(text, timestamps, freq), str(path))


def _one_character(value: str, key: str) -> str:
    value = "\t" if value == "\\t" else value  # as a shell hands it over
    if len(value) != 1:
        raise UserError(f"{key} is {value!r}; it must be one character, as ',' or ';' or '.' or '\\t'.")
    return value


def _read_table(text: CsvText, time_column: str, chosen: tuple[str, ...], decimal: str) -> pd.DataFrame:
    """The time column as text, the chosen ones as float64; refuses a cell that is no finite number."""
    if decimal == text.separator:
        raise UserError(f"data.decimal and data.separator are both {decimal!r}; set them to different characters.")
    header = text.header(time_column)
    # All columns are parsed, not `usecols`: with it pandas drops surplus cells in silence, as of 1,5 without
    # quotes.
    kinds: dict[str, type] = {name: np.float64 if name in chosen else str for name in header}
    try:
        with text.path.open(encoding="utf-8-sig", newline="") as file:
            table = pd.read_csv(
                file,
                sep=text.separator,
                decimal=decimal,
                dtype=kinds,
                skipinitialspace=True,
            )
    except UnicodeDecodeError as error:
        raise text.not_utf8() from error
    except pd.errors.ParserError as error:
        _refuse_long_row(text, len(header))
        raise UserError(f"{text.path} is not readable as CSV: {error}. Look for an unclosed quote.") from error
    except ValueError as error:
        _refuse_cell(text, header, chosen, decimal)
        raise UserError(f"{text.path} holds something that is no number: {error}.") from error
    if not np.isfinite(table[list(chosen)].to_numpy()).all():
        _refuse_cell(text, header, chosen, decimal)
    return table


def _refuse_long_row(text: CsvText, width: int) -> None:
    for line, cells in text.rows():
        if len(cells) > width:
            raise UserError(
                f"{text.path}: line {line} has {len(cells)} cells, the header names {width} columns. Remove "
                "the surplus cells, or set data.decimal and data.separator if numbers are written as 1,5."
            )


def _refuse_cell(text: CsvText, header: tuple[str, ...], chosen: tuple[str, ...], decimal: str) -> None:
    for line, cells in text.rows():
        for name in chosen:
            at = header.index(name)
            cell = cells[at].strip() if at < len(cells) else ""
            number = cell if decimal == "." else cell.replace(".", "?").replace(decimal, ".")
            if _NUMBER.fullmatch(number) and np.isfinite(float(number)):
                continue
            raise UserError(f"{text.path}: line {line}, column '{name}': {_cell_problem(cell, decimal)}")


def _cell_problem(cell: str, decimal: str) -> str:
    if cell == "" or cell.lower() in {"nan", "na", "n/a", "null", "none", "<na>", "#n/a"}:
        return f"the value is missing ({cell!r}). Fill the gap, or drop the column, before training."
    if _OTHER_DECIMAL.fullmatch(cell):
        other = "," if decimal == "." else "."
        return f"{cell!r} is no number when decimals are written with {decimal!r}. Set data.decimal='{other}'."
    try:
        infinite = not np.isfinite(float(cell))
    except ValueError:
        infinite = False
    if infinite:
        return f"{cell!r} is not a finite number. Replace it by a finite one before training."
    return f"{cell!r} is no number. Correct it, or drop the column, before training."


def _timestamps(text: CsvText, cells: npt.NDArray[np.object_], time_column: str) -> pd.DatetimeIndex:
    """(N,) timestamps without a time zone; refuses the first one that is missing, zoned or unreadable."""
    where = f"column '{time_column}'"
    missing = pd.isna(cells)
    if missing.any():
        line = text.line(int(missing.argmax()))
        raise UserError(f"{text.path}: line {line}, {where}: the timestamp is missing. Fill it in or drop the line.")
    try:
        stamps: pd.DatetimeIndex = pd.DatetimeIndex(pd.to_datetime(pd.Series(cells), format="ISO8601", errors="coerce"))
    except ValueError as error:  # several time zones
        raise UserError(_unreadable(text, cells, where)) from error
    if stamps.tz is not None or stamps.hasnans:
        raise UserError(_unreadable(text, cells, where))
    return stamps


def _unreadable(text: CsvText, cells: npt.NDArray[np.object_], where: str) -> str:
    for row, cell in enumerate(cells):
        if _ZONE.search(cell):
            return (
                f"{text.path}: line {text.line(row)}, {where}: {cell!r} carries a time zone. Convert all "
                "timestamps to one zone without clock changes (UTC) and write them without the suffix."
            )
        # ISO8601 has the year first: pandas would guess whether 01/02/2016 begins with the day or the month.
        if pd.isna(pd.to_datetime(cell, format="ISO8601", errors="coerce")):
            return (
                f"{text.path}: line {text.line(row)}, {where}: {cell!r} is no timestamp that can be read without "
                "guessing. Write the year first, as 2016-07-01 00:00:00."
            )
    raise AssertionError("every timestamp can be read")


def _frequency(text: CsvText, timestamps: pd.DatetimeIndex, trained_on: str | None) -> str:
    """The frequency, `trained_on` when given; an error for repeated, unsorted, irregular and other timestamps."""
    # Compared, never by name: five business days are five days too, and one row has no frequency of its own.
    if trained_on is not None and is_exact(timestamps, trained_on):
        return trained_on
    _refuse_repeats(text, timestamps)
    _refuse_unsorted(text, timestamps)
    if trained_on is not None and len(timestamps) < 3:
        raise UserError(_off_the_grid(text, timestamps, trained_on))
    freq = _inferred(text, timestamps)
    if trained_on is not None:
        raise UserError(
            f"{text.path} has the frequency '{freq}'; the model was trained on '{trained_on}'. Resample the file, or "
            "train on this frequency."
        )
    return freq


def _off_the_grid(text: CsvText, timestamps: pd.DatetimeIndex, freq: str) -> str:
    expected = pd.date_range(timestamps[0], periods=len(timestamps), freq=freq)
    row = int((expected != timestamps).argmax())
    return (
        f"{text.path}: line {text.line(row)}: {timestamps[row]}, where the frequency '{freq}' that the model was "
        f"trained on expects {expected[row]}. Resample the file, or train on its frequency."
    )


def _inferred(text: CsvText, timestamps: pd.DatetimeIndex) -> str:
    """The frequency of increasing timestamps, or an error for too few and for irregular ones."""
    if len(timestamps) < 3:
        raise UserError(
            f"{text.path}: {len(timestamps)} rows are too few to infer a frequency. At least 3 are needed to "
            "read the file, and far more to train."
        )
    freq = infer_frequency(timestamps)
    if freq is None:
        row, usual, expected = first_deviation(timestamps)
        raise UserError(
            f"{text.path}: line {text.line(row)}: the timestamps are not regular: {timestamps[row]} follows "
            f"{timestamps[row - 1]} (line {text.line(row - 1)}), where the usual step '{usual}' expects "
            f"{expected}. Fill the gap, or resample the file to one frequency."
        )
    return freq


def _refuse_unsorted(text: CsvText, timestamps: pd.DatetimeIndex) -> None:
    back = np.flatnonzero(timestamps[1:] < timestamps[:-1])
    if back.size:
        row = int(back[0]) + 1
        raise UserError(
            f"{text.path}: line {text.line(row)}: {timestamps[row]} comes after {timestamps[row - 1]}, but "
            "is earlier. Sort the rows by time."
        )


def _refuse_repeats(text: CsvText, timestamps: pd.DatetimeIndex) -> None:
    repeats = timestamps.duplicated()
    if not repeats.any():
        return
    row = int(repeats.argmax())
    first = int((timestamps == timestamps[row]).argmax())
    what = (
        f"{text.path}: line {text.line(row)}: the timestamp {timestamps[row]} stands already in line {text.line(first)}"
    )
    if repeats.mean() > _MANY_REPEATS:
        raise UserError(
            f"{what}; {int(repeats.sum())} of {len(timestamps)} rows repeat one. This looks like several "
            "series in one file: write one file per series, or one column per series."
        )
    raise UserError(f"{what}. Drop or average the repeated rows.")
