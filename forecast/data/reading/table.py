"""The table that a layout makes of a file: which columns to read and how, each typed as a whole, or as text."""

import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.reading.columns import (
    BLANKS,
    MISSING_SPELLINGS,
    NumberStyle,
    RawColumn,
    bare,
    check_points,
    column_kind,
    fault_words,
    read_numbers,
    unit_of,
    with_numbers,
    without_units,
)
from forecast.data.reading.content import CsvText, TimeColumn
from forecast.data.reading.layout import STEPS, Layout, known_frequency, time_of
from forecast.data.reading.time_formats import YEARS
from forecast.data.reading.timestamps import (
    FAULTS,
    TimeReading,
    plain_iso,
    read_timestamps,
    typed_timestamps,
    whole_numbers,
)
from forecast.data.values.cells import Findings, FloatArray, IntArray, quoted
from forecast.errors import UserError, closest
from forecast.text.terminal import label, listed

_WHOLE = re.compile(r"[+]?0*(\d+)(\.0*)?", re.ASCII)
_TEXT = re.compile(r"\d+([-/:]|\.\d+\.)\d|[a-z]+[-_ ]?\d", re.ASCII | re.IGNORECASE)  # as 2016-07-01, H1
_MOST_FAULTS = 5  # columns of which one is told
_ROUNDS = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)  # the last bit of a number; from 3.1 on it is exact


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
        codes = []
        for cell in cells:
            whole = _WHOLE.fullmatch(cell)
            word = whole[1] if whole else cell
            codes.append(np.nan if cell in self._missing else numbers.setdefault(word, len(numbers) + 1))
        return np.array(codes, dtype=np.float64)


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
        codebook: Codebook | None = None,
    ) -> "TableSpec":
        """What a layout reads of a file with this header. UserError for a name that the header does not have."""
        others = [name for name in header if name not in layout.time_columns]
        chosen = layout.columns
        # the columns to read may be a target alone, or those of a training
        for key, names in {"": chosen, " (data.drop)": layout.drop, " (data.where)": layout.where}.items():
            for name in names or ():
                if name not in header:
                    raise UserError(
                        f"{path}: there is no column '{name}'{key} among {listed(others)}."
                        f"{closest(name, header)} Name a column that the file has, or give it one of that name."
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
        return NumberStyle(self.layout.decimal or ".", self.layout.thousands, tuple(self.layout.missing))

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
    numbers that no calendar counts, as weeks 40, 41. read: how the times of all rows were read.
    """

    text: CsvText
    columns: tuple[str, ...]
    timestamps: pd.DatetimeIndex
    values: FloatArray
    origin: npt.NDArray[np.intp] | None
    steps: IntArray | None
    read: TimeReading

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


def read_columns(text: CsvText, spec: TableSpec, *, words: Collection[int]) -> list[RawColumn]:
    """The columns of a file. words: the places of those whose cells are kept as written, beside time and categories.

    UserError for a file whose rows cannot be told apart.
    """
    layout, named = spec.layout, spec.called(spec.codebook.named)
    words = {*words, *spec.times, *named, *map(spec.header.index, layout.where or ())}
    numbers = {*spec.candidates}.difference(words)
    columns = _parsed(text, spec, numbers) if text.table is None else list(text.table.columns)
    for place, column in enumerate(columns):
        is_time = isinstance(column, TimeColumn)
        if place in words and not (is_time and place in spec.times):
            columns[place] = column.as_words()
        elif place in spec.candidates and not is_time:
            bare_cells = without_units(column, layout.units)
            columns[place] = with_numbers(bare_cells, spec.style)
            if not (layout.decimal or layout.thousands or (text.table and not column.words)):
                of_file = (row[place].strip() for _, row in text.rows() if place < len(row))  # read where needed
                written = bare_cells.as_words().words if column.words else of_file
                check_points(f"{text.path}: column {quoted(column.name)}", columns[place].numbers, written)
    return columns


def _parsed(text: CsvText, spec: TableSpec, numbers: Collection[int]) -> list[RawColumn]:
    """The columns of a CSV. numbers: the places of those that pandas may read as numbers."""
    places = range(len(spec.header))
    # a series may be called NA: spellings of nothing are those of numbers alone
    missing = {place: sorted(MISSING_SPELLINGS) if place in numbers else [""] for place in places}
    try:
        _, first = next(text.rows())
        if len(first) > len(places):
            raise pd.errors.ParserError("surplus cells, of which pandas would make an index, in silence")
        # a column whose first cell converts to nothing becomes text unasked, in a third of the time
        text_places = {*places}.difference(numbers, (place for place, cell in enumerate(first) if _TEXT.match(cell)))
        frame = pd.read_csv(
            io.BytesIO(text.content),
            sep=text.separator,
            skiprows=text.above,
            decimal=spec.style.decimal,
            float_precision="round_trip" if _ROUNDS else None,
            header=0,
            names=list(places),
            # no `usecols`: with it pandas drops surplus cells in silence, as of an unquoted 1,5
            dtype=dict.fromkeys(text_places, str),
            skipinitialspace=True,
            keep_default_na=False,
            low_memory=False,  # else a column would have a type in each part
            na_values=missing,  # type: ignore[arg-type]  # columns are named by numbers
        ).dropna(how="all")
    except pd.errors.ParserError as error:
        line = 1
        for line, record in text.records():
            if len(record) > len(places):
                raise UserError(
                    f"{text.path}: line {line} has {len(record)} cells, the header names {len(places)} columns. Remove "
                    "the surplus, name all columns, or set data.decimal and data.separator if numbers are as 1,5."
                ) from error
        raise UserError(
            f"{text.path}: line {line}: a quotation mark opens a cell that is never closed. Close or remove it."
        ) from error
    columns = []
    for place, name in enumerate(spec.header):
        cells = frame.iloc[:, place]
        if cells.dtype.kind in "iuf":
            columns.append(RawColumn.of_numbers(name, cells.to_numpy(dtype=np.float64)))
        elif [place] == spec.times and not spec.layout.time_format and (stamps := plain_iso(cells)) is not None:
            columns.append(TimeColumn.of(name, stamps))
        else:
            columns.append(RawColumn.of_cells(name, cells.map(str, na_action="ignore") if place in numbers else cells))
    return columns


def table_of(text: CsvText, columns: Sequence[RawColumn], spec: TableSpec, findings: Findings) -> Table:
    """What a layout reads of the columns of a file. UserError with a line for each column that has a fault."""
    origin = _chosen_rows(columns, spec, findings.path)
    if origin is not None:
        columns = [column.take(origin) for column in columns]
    rows, named = len(columns[0]), spec.called(spec.codebook.named)
    perhaps = spec.called(spec.codebook.perhaps)
    coded = {*named, *(place for place in perhaps if column_kind(columns[place], spec.style) == "text")}
    places = spec.candidates if spec.numbers is not None else _numeric(columns, spec, findings, coded)
    try:
        read, steps = _times(columns, rows, spec)
    except UserError as error:
        error.args = (f"{findings.path}: {error}",)
        raise
    if read.settings:
        findings.say(f"The time is read as {', '.join(read.settings.values())}.")
    values = np.empty((rows, len(places)), order="F")
    faults = [(row, spec.times[0], read.faults[row]) for row in sorted(read.faults)[:1]]
    for number, place in enumerate(places):
        column = columns[place]
        if place in coded:
            column = column.as_words()
            values[:, number] = spec.codebook.codes(column.name, column.words)[column.codes - 1]
        else:
            values[:, number] = read_numbers(column, spec.style)
        if (bad := np.isinf(values[:, number])).any():
            faults.append((int(bad.argmax()), place, unit_of(column)))
    names = tuple(spec.header[place] for place in places)
    table = Table(text, names, read.stamps, values, origin, steps, read)
    if faults:
        raise UserError("\n".join(_fault_lines(sorted(faults), table, spec)))
    return table


def _fault_lines(faults: Sequence[tuple[int, int, str]], table: Table, spec: TableSpec) -> Iterator[str]:
    """A line for each of the first cells: where it stands, what is wrong with it, and the fix.

    faults: the row and the place of each, and what is wrong with a time, or the unit of the numbers.
    """
    units = dict.fromkeys(
        [*spec.layout.units, *(unit for _, place, unit in faults if unit and place not in spec.times)]
    )
    records = table.records([row for row, *_ in faults[:_MOST_FAULTS]])
    for row, place, detail in faults[:_MOST_FAULTS]:
        line, cells = records[row]
        parts = spec.times if place in spec.times else [place]
        cell = " ".join(cells[part].strip(BLANKS) for part in parts if part < len(cells))
        if place in spec.times:
            message, fix = FAULTS[detail]
            message = f"{message.format(quoted(cell))}. {fix}"
        else:
            message = fault_words(bare(cell, spec.layout.units), spec.style, [*units] if detail else ())
        yield f"{table.text.path}: line {line}, column {quoted(spec.header[place])}: {message}"


def _chosen_rows(columns: Sequence[RawColumn], spec: TableSpec, path: str) -> npt.NDArray[np.intp] | None:
    """The rows whose cells are what `data.where` asks for; None for all. UserError when there are none."""
    chosen = np.ones(len(columns[0]), dtype=bool)
    for name, value in (spec.layout.where or {}).items():
        column = columns[spec.header.index(name)].as_words()
        read = [word if isinstance(value, str) else spec.style.number(word) for word in column.words]
        chosen &= np.isin(column.codes, [code for code, word in enumerate(read, start=1) if word == value])
        if not chosen.any():
            raise UserError(
                f"{path}: data.where: no row has {quoted(str(value))} in the column '{name}' and what else is asked "
                f"for. It holds {listed(column.words[:8])}.{closest(str(value), column.words)} Choose cells that stand "
                "in one row."
            )
    return np.flatnonzero(chosen) if spec.layout.where else None


def _numeric(columns: Sequence[RawColumn], spec: TableSpec, findings: Findings, coded: Collection[int]) -> list[int]:
    """The columns that hold numbers, or categories (coded); the others are named in a sentence. UserError for none."""
    places, others = [], []
    for place in spec.candidates:
        kind = "numbers" if place in coded else column_kind(columns[place], spec.style, first=place == 0)
        if kind == "numbers":
            places.append(place)
        else:
            others.append(f"{label(spec.header[place])} ({kind})")
    out = ", ".join(others)
    if out:
        findings.say(f"Left out, as they hold no numbers of the series: {out}.")
    if not places:
        raise UserError(
            f"{findings.path}: there is no column of numbers beside the time: {out or 'no other column'}. "
            "Name the columns to read all the same: data.columns=[NAME]"
        )
    return places


def _times(columns: Sequence[RawColumn], rows: int, spec: TableSpec) -> tuple[TimeReading, IntArray | None]:
    """The timestamps (N,), and the times themselves where they are numbers that no calendar counts, as weeks 40, 41."""
    layout = spec.layout
    if not spec.times:
        return TimeReading(counted_stamps(layout, rows), {}, {}), None
    column = columns[spec.times[0]]
    if len(spec.times) == 1 and layout.time_format is None:
        if isinstance(column, TimeColumn):
            return typed_timestamps(column.stamps, layout.time_zone), None
        if whole_numbers(column.words, column.name, layout.time_zone):
            steps = np.array([int(float(word)) for word in column.words], dtype=np.int64)[column.codes - 1]
            stamps = pd.DatetimeIndex((steps - steps.min()).astype("datetime64[ms]"))
            return TimeReading(stamps, {}, {}), steps
    parts = {columns[place].name: columns[place].cells(range(rows)) for place in spec.times}
    missing = MISSING_SPELLINGS | {str(word) for word in layout.missing}
    return read_timestamps(parts, missing=missing, time_format=layout.time_format, time_zone=layout.time_zone), None


def counted_stamps(layout: Layout, rows: int) -> pd.DatetimeIndex:
    """(N,): the timestamps of a file without a time column. UserError for a frequency or a start that are none."""
    if layout.freq == STEPS:
        return pd.date_range("1970-01-01", periods=rows, freq="ms")
    freq, start = known_frequency(layout.freq or "", "data.freq"), time_of(layout.start, "data.start")
    try:
        return pd.date_range(start, periods=rows, freq=freq, unit="ns")
    except (pd.errors.OutOfBoundsDatetime, OverflowError) as error:
        raise UserError(
            f"{rows} rows from data.start={layout.start} at data.freq={layout.freq} leave the years {YEARS[0]} to "
            f"{YEARS[-1]}. Set a finer data.freq, or data.freq={STEPS}."
        ) from error
