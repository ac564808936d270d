"""A plain CSV file as pandas reads it: numbers at once, all else as words."""

import contextlib
from collections.abc import Collection, Sequence
from itertools import islice

import numpy as np
import pandas as pd
import pyarrow as pa

from forecast.data.reading.columnar import TimeColumn
from forecast.data.reading.csv_text import CsvText
from forecast.data.reading.numbers import MISSING_SPELLINGS, number_in
from forecast.data.reading.raw_columns import BLANKS, RawColumn, TypedTable
from forecast.data.reading.table import TableSpec
from forecast.data.reading.timestamps import plain_iso
from forecast.data.values.findings import Findings

ROUNDS = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)  # the last bit of a number; from 3.1 on it is exact
_SAMPLE_ROWS = 100  # that show which columns hold nothing but numbers; all of their cells must


def check_signs(text: CsvText, spec: TableSpec, findings: Findings) -> None:
    """An error for a decimal sign that separates cells."""
    if spec.style.decimal == text.separator and text.table is None:
        findings.error(
            f"data.decimal and data.separator are both {spec.style.decimal!r}. Set them to different characters, or "
            "write the file with another separator."
        )


def plain_table(text: CsvText, spec: TableSpec, words: Collection[int]) -> TypedTable | None:
    """All cells of a file; None where pandas cannot read it, or might read a cell otherwise than `RawColumns` does.

    words: the places of columns whose cells are kept as they are written. A missing number is left to who tells its
    line, unless gaps are filled.
    """
    if spec.style.thousands is not None or spec.style.decimal == text.separator or text.quoting:
        return None
    with contextlib.suppress(ValueError):  # a UserError too: who reads cell by cell says it better
        numbers = _places_of_numbers(text, spec, words)
        frame = _frame(text, spec, numbers)
        if len(frame) + 1 + text.above != text.lines:  # a blank line, or a cell that goes over the end of its line
            return None
        columns = [frame.iloc[:, place] for place in range(len(spec.header))]
        values = {place: columns[place].to_numpy(dtype=np.float64) for place in numbers}
        for column in values.values():
            if np.isinf(column).any() or (spec.gaps == "refuse" and np.isnan(column).any()):
                return None
        read: list[RawColumn] = []
        for place, name in enumerate(spec.header):
            alone = [place] == spec.times and spec.layout.time_format is None
            if place in numbers:
                read.append(RawColumn.of_numbers(name, values[place]))
            elif alone and (stamps := plain_iso(columns[place])) is not None:
                read.append(TimeColumn(name, pa.array(stamps)))
            else:
                is_text = place in words or place not in spec.candidates
                read.append(RawColumn.of_text(name, columns[place], words=is_text))
        first = text.above + 2
        return TypedTable("", read, range(first, first + len(frame))).without_blank_rows()
    return None


def _places_of_numbers(text: CsvText, spec: TableSpec, words: Collection[int]) -> list[int]:
    """The candidates with nothing but numbers in the first rows."""
    rows = [cells for _, cells in islice(text.rows(), _SAMPLE_ROWS)]
    if rows and len(rows[0]) > len(spec.header):  # pandas would take the first column for an index, in silence
        raise ValueError("surplus cells")
    return [
        place
        for place in spec.candidates
        if place not in words and _are_numbers([row[place].strip(BLANKS) for row in rows if place < len(row)], spec)
    ]


def _are_numbers(cells: Sequence[str], spec: TableSpec) -> bool:
    return all(cell in MISSING_SPELLINGS or number_in(cell, spec.style.decimal, None) is not None for cell in cells)


def _frame(text: CsvText, spec: TableSpec, numbers: Collection[int]) -> pd.DataFrame:
    """The columns by their places, those of numbers as such, others as text; ValueError for a cell that is none."""
    places = range(len(spec.header))
    with text.open() as file:
        return pd.read_csv(
            file,
            sep=text.separator,
            decimal=spec.style.decimal,
            float_precision="round_trip" if ROUNDS else None,
            header=0,
            names=list(places),
            # All columns are parsed, not `usecols`: with it pandas drops surplus cells in silence, as of 1,5
            # without quotes.
            dtype={place: np.float64 if place in numbers else str for place in places},
            skipinitialspace=True,
            keep_default_na=False,
            # a series may be called NA: spellings of nothing are those of numbers alone
            na_values=dict.fromkeys(numbers, sorted(MISSING_SPELLINGS)),  # type: ignore[arg-type]  # named by numbers
        )
