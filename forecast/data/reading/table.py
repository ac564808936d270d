"""The rows of a file before anything is made of them: which columns to read and how, and what was read."""

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from forecast.data.reading.columnar import TimeColumn
from forecast.data.reading.csv_text import CsvText
from forecast.data.reading.layout import Layout
from forecast.data.reading.numbers import MISSING_SPELLINGS, NumberStyle, number_in
from forecast.data.reading.raw_columns import BLANKS, RawColumn, TypedTable
from forecast.data.reading.timestamps import plain_iso
from forecast.data.values.cells import FloatArray
from forecast.data.values.findings import Findings, Gaps
from forecast.errors import UserError, closest, nearest
from forecast.text.terminal import label, listed

Choice = Callable[[Sequence[str]], Sequence[str]]  # of columns from the names of all but those of the time
Words = dict[int, str]
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

    times: those that make the time. numbers: None for all others that hold numbers. gaps: unless refuse, rows and
    numbers may be missing. cut: whether rows at the ends are left out that lack a number. freq: the pandas alias that a
    model was trained on, or None. codebook: which of them hold categories, and their words.
    """

    header: Sequence[str]
    layout: Layout
    numbers: Sequence[int] | None = None
    gaps: Gaps = "refuse"
    cut: bool = False
    freq: str | None = None
    codebook: Codebook = field(default_factory=Codebook)

    @classmethod
    def of(
        cls,
        header: Sequence[str],
        layout: Layout,
        path: str,
        *,
        columns: Choice | None = None,
        known: bool = False,
        gaps: Gaps | None = None,
        codebook: Codebook | None = None,
    ) -> "TableSpec":
        """What a layout reads of a file with this header. UserError for a name that the header does not have.

        columns: what chooses them, whatever the layout says. known: whether a training names them. gaps: None for the
        layout's.
        """
        chosen = layout.columns
        if columns is not None:
            chosen = columns([name for name in header if name not in layout.time_columns])
        of_columns = "" if columns is not None or known else " (data.columns)"
        names_of = {of_columns: chosen or (), " (data.drop)": layout.drop, " (data.where)": layout.where or ()}
        others = [name for name in header if name not in layout.time_columns]
        places = {name: place for place, name in enumerate(header)}
        for key, names in names_of.items():
            for name in names:
                if name not in places:
                    fix = f"{closest(name, header)} Name columns as line 1 does."
                    if known and not key:  # the file is to be mended, not the name
                        near = [f"the column '{label(other)}'" for other in nearest(name, others)[:1]] or ["it"]
                        fix = f" The model was trained on it: call {near[0]} so in line 1, or add it."
                    raise UserError(f"{path}: there is no column '{name}'{key} among {listed(others)}.{fix}")
        for name in chosen or ():
            if name in layout.time_columns or name in layout.drop:
                other = "data.time_column" if name in layout.time_columns else "data.drop"
                raise UserError(f"{path}: the column '{name}' is to be read as numbers, and in {other}. Name it once.")
        numbers = None if chosen is None else [places[name] for name in chosen]
        book = codebook or Codebook()
        return cls(header=header, layout=layout, numbers=numbers, gaps=gaps or layout.gaps, codebook=book)

    @property
    def times(self) -> list[int]:
        """The places of the columns that make the time."""
        return [self.header.index(name) for name in self.layout.time_columns]

    @property
    def left_out(self) -> set[int]:
        """The places of columns that hold no numbers of the series, whatever stands in them."""
        others = {*self.layout.drop, *(self.layout.where or ()), *self.layout.time_columns}
        return {place for place, name in enumerate(self.header) if name in others}

    @property
    def style(self) -> NumberStyle:
        """How numbers are written."""
        return NumberStyle(self.layout.decimal, self.layout.thousands, tuple(self.layout.missing))

    @property
    def candidates(self) -> Sequence[int]:
        """The columns to read; where none are named, all that may hold numbers."""
        if self.numbers is not None:
            return self.numbers
        left_out = self.left_out
        return [place for place in range(len(self.header)) if place not in left_out]

    def named(self) -> list[int]:
        """The candidates that hold categories whatever stands in them."""
        return [place for place in self.candidates if self.header[place] in self.codebook.named]

    def perhaps(self) -> list[int]:
        """The candidates that hold categories where they hold words."""
        return [place for place in self.candidates if self.header[place] in self.codebook.perhaps]


@dataclass(frozen=True)
class Table:
    """The N rows of a file as it holds them: regular or not, with gaps or not.

    places: of the C columns in the header. timestamps (N,) without a time zone; values (N, C) finite, or NaN where one
    is missing. Only where an error was found NaT stands for an unreadable timestamp, inf for a cell that is no number.
    origin (N,): the data rows of the file that these are; None for all, in their order. time_format: in which the
    timestamps were read, None where no word need be lost about it. time_zone: whose clock they show, where their cells
    have an offset from UTC; None where they have none, or no zone has these. numbers: of rows that no calendar counts,
    each a millisecond after the one before, the number of 1970-01-01 and what is added a millisecond.
    """

    text: CsvText
    columns: tuple[str, ...]
    places: Sequence[int]
    timestamps: pd.DatetimeIndex
    values: FloatArray
    origin: npt.NDArray[np.intp] | None = None
    time_format: str | None = None
    time_zone: str | None = None
    numbers: tuple[int, int] | None = None

    def ordered(self) -> pd.DatetimeIndex:
        """The readable timestamps, increasing, each once."""
        stamps = self.timestamps
        if not stamps.hasnans and stamps.is_monotonic_increasing and stamps.is_unique:  # no copy of millions of rows
            return stamps
        once: pd.DatetimeIndex = stamps.dropna().sort_values().unique()
        return once

    def words(self, stamp: pd.Timestamp) -> str:
        """One of its times in words."""
        if self.numbers is None:
            return str(stamp)
        return f"step {self.numbers[0] + self.numbers[1] * int((stamp - pd.Timestamp(0)) // pd.Timedelta(1, 'ms'))}"

    def take(self, rows: npt.NDArray[np.intp]) -> "Table":
        """Some rows alone."""
        origin = rows if self.origin is None else self.origin[rows]
        return replace(self, timestamps=self.timestamps[rows], values=self.values[rows], origin=origin)

    def records(self, rows: Collection[int]) -> dict[int, tuple[int, list[str]]]:
        """(line in the file, cells) of some rows, read in one go."""
        of_file = {row: row if self.origin is None else int(self.origin[row]) for row in rows}
        records = self.text.records_of(of_file.values())
        return {row: records[there] for row, there in of_file.items()}

    def line(self, row: int) -> int:
        """The line in the file of a row."""
        return self.records([row])[row][0]


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
