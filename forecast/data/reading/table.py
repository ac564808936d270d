"""The rows of a file before anything is made of them: which columns to read and how, and what was read."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.reading.csv_text import CsvText
from forecast.data.reading.layout import Layout
from forecast.data.reading.numbers import MISSING_SPELLINGS, NumberStyle
from forecast.data.values.cells import FloatArray, IntArray
from forecast.errors import UserError, closest
from forecast.text.terminal import listed

Choice = Callable[[Sequence[str]], Sequence[str]]  # of columns from the names of all but those of the time
_WHOLE = re.compile(r"[+]?0*(\d+)(\.0*)?", re.ASCII)


class Codebook:
    """Numbers from 1 on for the words of each column, alike in all files that are read with it.

    named: columns of categories whatever stands in them. perhaps: those that are where they hold words. missing: words
    that stand for none, beside the usual ones.
    """

    def __init__(
        self, named: Collection[str] = (), perhaps: Collection[str] = (), missing: Iterable[object] = ()
    ) -> None:
        self.named, self.perhaps = frozenset(named), frozenset(perhaps) - frozenset(named)
        self._missing = MISSING_SPELLINGS | {str(word) for word in missing}
        self._numbers: dict[str, dict[str, int]] = {}

    def words(self, columns: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Those so far of each of the columns that holds categories, in the order of their numbers."""
        return {name: tuple(numbers) for name, numbers in self._numbers.items() if name in columns}

    def codes(self, column: str, cells: Iterable[str]) -> npt.NDArray[np.float64]:
        """The number of each cell (n,), NaN for a missing one; 2.0 and 02 are the category 2."""
        numbers = self._numbers.setdefault(column, {})

        def code(cell: str) -> float:
            if cell in self._missing:
                return np.nan
            whole = _WHOLE.fullmatch(cell)
            return numbers.setdefault(whole[1] if whole else cell, len(numbers) + 1)

        return np.array([code(cell) for cell in cells], dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """Which columns of a file to read, by their places in the header, and how.

    times: those that make the time. numbers: None for all others that hold numbers. codebook: which of them hold
    categories, and their words.
    """

    header: Sequence[str]
    layout: Layout
    numbers: Sequence[int] | None = None
    codebook: Codebook = field(default_factory=Codebook)

    @classmethod
    def of(
        cls,
        header: Sequence[str],
        layout: Layout,
        path: str,
        *,
        columns: Choice | None = None,
        codebook: Codebook | None = None,
    ) -> "TableSpec":
        """What a layout reads of a file with this header. UserError for a name that the header does not have.

        columns: what chooses them, whatever the layout says.
        """
        others = [name for name in header if name not in layout.time_columns]
        chosen = layout.columns if columns is None else columns(others)
        of_columns = " (data.columns)" if columns is None else ""
        for key, names in {of_columns: chosen, " (data.drop)": layout.drop, " (data.where)": layout.where}.items():
            for name in names or ():
                if name not in header:
                    raise UserError(
                        f"{path}: there is no column '{name}'{key} among {listed(others)}.{closest(name, header)} Name "
                        "a column that the file has, or give it one of that name."
                    )
        numbers = None if chosen is None else [header.index(name) for name in chosen]
        return cls(header=header, layout=layout, numbers=numbers, codebook=codebook or Codebook())

    @property
    def times(self) -> list[int]:
        """The places of the columns that make the time."""
        return [self.header.index(name) for name in self.layout.time_columns]

    @property
    def style(self) -> NumberStyle:
        """How numbers are written."""
        return NumberStyle(self.layout.decimal, self.layout.thousands, tuple(self.layout.missing))

    @property
    def candidates(self) -> Sequence[int]:
        """The columns to read; where none are named, all that may hold numbers."""
        if self.numbers is not None:
            return self.numbers
        others = {*self.layout.drop, *(self.layout.where or ()), *self.layout.time_columns}
        return [place for place, name in enumerate(self.header) if name not in others]

    def called(self, names: Collection[str]) -> list[int]:
        """The candidates with one of these names."""
        return [place for place in self.candidates if self.header[place] in names]


@dataclass(frozen=True)
class Table:
    """The N rows of a file as it holds them: regular or not, with gaps or not.

    timestamps (N,) without a time zone; values (N, C) finite, or NaN where one is missing. origin (N,): the data rows
    of the file that these are; None for all, in their order. steps (N,): the times themselves where they are whole
    numbers that no calendar counts, as weeks 40, 41. time_format: in which the timestamps were read, None where no word
    need be lost about it. time_zone: whose clock they show, where their cells have an offset from UTC; None where they
    have none, or no zone has these. clock: as in `TimeReading`.
    """

    text: CsvText
    columns: tuple[str, ...]
    timestamps: pd.DatetimeIndex
    values: FloatArray
    origin: npt.NDArray[np.intp] | None = None
    steps: IntArray | None = None
    time_format: str | None = None
    time_zone: str | None = None
    clock: str | None = None

    def ordered(self) -> pd.DatetimeIndex:
        """The timestamps, increasing, each once."""
        once: pd.DatetimeIndex = self.timestamps.sort_values().unique()
        return once

    def take(self, rows: npt.NDArray[np.intp]) -> "Table":
        """Some rows alone."""
        origin = rows if self.origin is None else self.origin[rows]
        steps = None if self.steps is None else self.steps[rows]
        return replace(self, timestamps=self.timestamps[rows], values=self.values[rows], origin=origin, steps=steps)

    def records(self, rows: Collection[int]) -> dict[int, tuple[int, list[str]]]:
        """(line in the file, cells) of some rows, read in one go."""
        of_file = {row: row if self.origin is None else int(self.origin[row]) for row in rows}
        records = self.text.records_of(of_file.values())
        return {row: records[there] for row, there in of_file.items()}

    def line(self, row: int) -> int:
        """The line in the file of a row."""
        return self.records([row])[row][0]
