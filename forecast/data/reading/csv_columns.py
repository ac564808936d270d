"""The columns of a CSV file as timestamps and numbers."""

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.findings import Findings
from forecast.data.reading.cells import read_cells
from forecast.data.reading.csv_text import CsvText
from forecast.data.reading.numbers import MISSING_SPELLINGS
from forecast.data.reading.table import Table, TableSpec
from forecast.data.reading.time_formats import CLOCK, YEARS
from forecast.errors import UserError

FloatArray = npt.NDArray[np.float64]
_PANDAS = tuple(map(int, pd.__version__.split(".")[:2]))
ROUNDS = _PANDAS < (3, 1)  # the last bit of a number; from 3.1 on it is exact
DROPS = _PANDAS < (3, 0)  # surplus cells in the first row of a chunk, in silence: the file must be one chunk
UNCLOSED = "EOF inside string"  # in the words of pandas


def read_table(text: CsvText, spec: TableSpec, findings: Findings) -> Table:
    """The chosen columns of a file; a column of nothing but True and False is 1 and 0.

    pandas reads a plain file, some rows at a time. One in which it cannot take every cell for what it should be is read
    cell by cell.
    """
    check_signs(text, spec, findings)
    table, reason = quick_table(text, spec)
    return table or read_cells(text, spec, findings, unclosed=UNCLOSED in reason)


def check_signs(text: CsvText, spec: TableSpec, findings: Findings) -> None:
    """Errors for a decimal sign that separates cells, and for NUL."""
    if spec.style.decimal == text.separator and not text.is_typed:
        findings.error(
            f"data.decimal and data.separator are both {spec.style.decimal!r}. Set them to different characters, or "
            "write the file with another separator."
        )
    text.check_nul()


def quick_table(text: CsvText, spec: TableSpec) -> tuple[Table | None, str]:
    """A plain file as pandas reads it; None, with pandas' reason, where that is not what we would read."""
    if not spec.is_plain or spec.style.decimal == text.separator:
        return None, ""
    try:
        return _quick_table(text, spec), ""
    except UserError:
        raise
    except ValueError as error:
        return None, str(error)


def _quick_table(text: CsvText, spec: TableSpec) -> Table:
    """As pandas reads it; ValueError where it cannot, or where a column is empty."""
    assert text.content is not None
    places = spec.candidates
    # Column by column as pandas lays them: sums over the rows round the same, whatever the size of a chunk.
    values = np.empty((text.content.lines, len(places)), order="F")
    stamps: list[pd.DatetimeIndex] = []
    row = 0
    for numbers, times in _quick_chunks(text, spec, places):
        values[row : row + len(times)] = numbers
        stamps.append(times)
        row += len(times)
    values = values[:row]
    if not places or (spec.numbers is None and np.isnan(values).all(axis=0).any()):
        raise ValueError("a column is empty")
    columns = tuple(spec.header[place] for place in places)
    return Table(text, columns, places, pd.DatetimeIndex(stamps[0].append(stamps[1:])), values)


def _quick_chunks(
    text: CsvText, spec: TableSpec, places: Sequence[int]
) -> Iterator[tuple[FloatArray, pd.DatetimeIndex]]:
    """Values (n, C) and timestamps (n,), some rows at a time; ValueError before the first chunk with a faulty cell."""
    assert text.content is not None
    width = len(spec.header)
    if len(next(text.rows())[1]) > width:  # pandas would take the first column for an index, in silence
        raise ValueError("surplus cells")
    numeric, (time,) = set(places), spec.times
    with (
        text.open() as file,
        pd.read_csv(
            file,
            sep=text.separator,
            decimal=spec.style.decimal,
            float_precision="round_trip" if ROUNDS else None,
            header=0,
            names=list(range(width)),
            # All columns are parsed, not `usecols`: with it pandas drops surplus cells in silence, as of 1,5
            # without quotes.
            dtype={place: np.float64 if place in numeric else str for place in range(width)},
            skipinitialspace=True,
            keep_default_na=False,
            na_values=sorted(MISSING_SPELLINGS),
            chunksize=text.content.lines + 1 if DROPS else spec.chunk_rows,
        ) as chunks,
    ):
        for chunk in chunks:
            numbers = chunk[list(places)].to_numpy(dtype=np.float64)
            if np.isinf(numbers).any() or (spec.gaps == "refuse" and np.isnan(numbers).any()):
                raise ValueError("a value is missing or not finite")
            times = chunk[time]
            if times.isna().any() or times.isin(CLOCK).any():
                raise ValueError("a timestamp is missing")
            with warnings.catch_warnings():
                warnings.filterwarnings("error", ".*mixed time zones", FutureWarning)  # of pandas 2.2; 3 raises
                try:
                    stamps = pd.DatetimeIndex(pd.to_datetime(times, format="ISO8601", errors="coerce"))
                except FutureWarning as warning:
                    raise ValueError(str(warning)) from warning
            if stamps.tz is not None or stamps.hasnans or {stamps.min().year, stamps.max().year} - set(YEARS):
                raise ValueError("a timestamp cannot be read")
            yield numbers, stamps
