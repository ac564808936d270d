"""The columns of a CSV file as timestamps and numbers."""

import contextlib
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.reading.cells import read_cells, say_left_out
from forecast.data.reading.codebook import Codebook
from forecast.data.reading.column_guess import column_kind
from forecast.data.reading.csv_text import CsvText
from forecast.data.reading.numbers import FLAGS, MISSING_SPELLINGS
from forecast.data.reading.raw_columns import BLANKS, RawColumn, RawColumns
from forecast.data.reading.table import Table, TableSpec
from forecast.data.reading.time_formats import CLOCK, YEARS, is_year_and_number
from forecast.data.values.cells import FloatArray
from forecast.data.values.findings import Findings
from forecast.errors import UserError

_PANDAS = tuple(map(int, pd.__version__.split(".")[:2]))
ROUNDS = _PANDAS < (3, 1)  # the last bit of a number; from 3.1 on it is exact
DROPS = _PANDAS < (3, 0)  # surplus cells in the first row of a chunk, in silence: the file must be one chunk
UNCLOSED = "EOF inside string"  # in the words of pandas
_SAMPLE_ROWS = 100  # that show which columns hold words; all of their cells must


class QuickRead(NamedTuple):
    """A plain file as pandas reads it.

    table: None, with pandas' reason, where that is not what we would read. words: of the table's rows, the columns that
    it leaves out, as they hold words alone.
    """

    table: Table | None
    reason: str = ""
    words: Sequence[RawColumn] = ()


def read_table(text: CsvText, spec: TableSpec, findings: Findings) -> Table:
    """The chosen columns of a file; a column of nothing but True and False is 1 and 0.

    pandas reads a plain file, some rows at a time. One in which it cannot take every cell for what it should be is read
    cell by cell.
    """
    check_signs(text, spec, findings)
    read = quick_table(text, spec)
    if read.table is None:
        return read_cells(text, spec, findings, unclosed=UNCLOSED in read.reason)
    say_left_out([(column.name, "text") for column in read.words], findings)
    return read.table


def check_signs(text: CsvText, spec: TableSpec, findings: Findings) -> None:
    """Errors for a decimal sign that separates cells, and for NUL."""
    if spec.style.decimal == text.separator and text.table is None:
        findings.error(
            f"data.decimal and data.separator are both {spec.style.decimal!r}. Set them to different characters, or "
            "write the file with another separator."
        )
    text.check_nul()


def quick_table(text: CsvText, spec: TableSpec) -> QuickRead:
    """A plain file as pandas reads it, and the columns of words in it; no table where we would read another one."""
    if text.table is not None or not spec.is_plain or spec.style.decimal == text.separator:
        return QuickRead(None)
    try:
        return _quick_table(text, spec)
    except UserError:
        raise
    except ValueError as error:
        return QuickRead(None, str(error))


def _quick_table(text: CsvText, spec: TableSpec) -> QuickRead:
    """As pandas reads it; ValueError where it cannot, or where a column is empty."""
    words = {place: Words(spec.header[place]) for place in [*_places_of_words(text, spec), *spec.named()]}
    coded = {place: words.pop(place) for place in (*spec.named(), *spec.perhaps()) if place in words}
    places = [place for place in spec.candidates if place not in words and place not in coded]
    # Column by column as pandas lays them: sums over the rows round the same, whatever the size of a chunk.
    values = np.empty((text.most_rows, len(places)), order="F")
    stamps: list[pd.DatetimeIndex] = []
    row = 0
    for chunk, times in _quick_chunks(text, spec, places, {*words, *coded}):
        values[row : row + len(times)] = chunk[places].to_numpy(dtype=np.float64)
        stamps.append(times)
        row += len(times)
        for place, column in (*words.items(), *coded.items()):
            column.add(chunk[place])
    values = values[:row]
    if coded:
        values, places = with_codes(values, places, coded, spec)
    if not places or (spec.numbers is None and np.isnan(values).all(axis=0).any()):
        raise ValueError("a column is empty")
    columns = tuple(spec.header[place] for place in places)
    table = Table(text, columns, places, pd.DatetimeIndex(stamps[0].append(stamps[1:])), values)
    return QuickRead(table, words=[column.whole() for column in words.values()])


def with_codes(
    values: FloatArray, places: Sequence[int], coded: Mapping[int, "Words"], spec: TableSpec
) -> tuple[FloatArray, list[int]]:
    """Values (N, C) and the places of the columns, those of categories among them, in the order of the candidates."""
    parts = dict(zip(places, values.T, strict=True))
    parts |= {place: column.codes(spec.codebook) for place, column in coded.items()}
    order = [place for place in spec.candidates if place in parts]
    whole = np.asfortranarray(np.stack([parts[place] for place in order], axis=1))
    if spec.gaps == "refuse" and np.isnan(whole).any():
        raise ValueError("a category is missing")
    return whole, order


def _places_of_words(text: CsvText, spec: TableSpec) -> list[int]:
    """Of columns that nobody has named as numbers, those that hold no number in the first rows, but words."""
    rows: list[list[str]] = []
    candidates = spec.candidates if spec.numbers is None else spec.perhaps()
    if candidates:
        with contextlib.suppress(UserError):  # of a quote that is never closed: pandas finds it, too
            rows = [cells for _, cells in islice(text.rows(), _SAMPLE_ROWS)]
    places = []
    for place in candidates if rows else ():
        cells = (row[place].strip(BLANKS) for row in rows if place < len(row))
        kinds = {_is_word(cell) for cell in cells if cell not in MISSING_SPELLINGS}
        if kinds == {True}:
            places.append(place)
    return places


def _is_word(cell: str) -> bool:
    if cell in FLAGS:
        return False
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return True
    return False


class Words:
    """A column of words that is being read: the code of each row so far, and the words that the codes stand for.

    plain: whether a cell that is missing, or has blanks around it, is a ValueError; else blanks go, and what is missing
    is ''.
    """

    def __init__(self, name: str, *, plain: bool = False) -> None:
        self._name, self._plain = name, plain
        self._codes: dict[str, int] = {}
        self._parts: list[npt.NDArray[np.int32]] = []

    def add(self, cells: "pd.Series[str]") -> None:
        """Appends the cells of some rows."""
        codes, words = pd.factorize(cells)
        known = [word.strip(BLANKS) for word in words]
        if self._plain and ("" in known or known != list(words) or (codes < 0).any()):
            raise ValueError("a cell is not plain")
        numbers = self._codes
        places = [numbers.setdefault(word, len(numbers)) for word in (known if self._plain else [*known, ""])]
        self._parts.append(np.array(places, dtype=np.int32)[codes])  # -1: what is missing, at the end

    @property
    def places(self) -> npt.NDArray[np.int32]:
        """The code of each row (N,)."""
        return np.concatenate(self._parts)

    @property
    def words(self) -> list[str]:
        """The different cells; ValueError for one that goes over the end of its line."""
        if any("\n" in word for word in self._codes):
            raise ValueError("a cell goes over the end of its line")
        return list(self._codes)

    def codes(self, book: Codebook) -> FloatArray:
        """The numbers of categories (N,)."""
        numbers: FloatArray = book.codes(self._name, self.words)[self.places]
        return numbers

    def whole(self) -> RawColumn:
        """All cells; ValueError where some are no words."""
        read = RawColumns([self._name])
        read.add([[word] for word in self.words])
        (different,) = read.columns()
        column = different.take(self.places.astype(np.intp))
        if not np.isnan(different.numbers).all() or column_kind(column) != "text":
            raise ValueError("a column of words holds numbers")
        return column


def plain_chunks(
    text: CsvText, spec: TableSpec, kinds: Mapping[int, type[object] | str], missing: Collection[int]
) -> Iterator[pd.DataFrame]:
    """All columns of a plain file, some rows at a time, as pandas reads them; ValueError for a faulty cell.

    kinds: the type of each, by its place, text where none is named. missing: those in which spellings of nothing count.
    """
    width = len(spec.header)
    if len(next(text.rows())[1]) > width:  # pandas would take the first column for an index, in silence
        raise ValueError("surplus cells")
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
            dtype={place: kinds.get(place, str) for place in range(width)},
            skipinitialspace=True,
            keep_default_na=False,
            na_values=dict.fromkeys(missing, sorted(MISSING_SPELLINGS)),  # type: ignore[arg-type]  # named by numbers
            chunksize=text.most_rows if DROPS else spec.chunk_rows,
        ) as chunks,
    ):
        yield from chunks


def _quick_chunks(
    text: CsvText, spec: TableSpec, places: Sequence[int], words: Collection[int]
) -> Iterator[tuple[pd.DataFrame, pd.DatetimeIndex]]:
    """Rows and their timestamps (n,), some at a time; ValueError before the first of them with a faulty cell.

    places: columns of numbers; words: columns whose cells come as categories.
    """
    # as categories numbers would lose how they are written
    kinds = dict.fromkeys(places, np.float64) | dict.fromkeys(
        (place for place in words if place not in spec.named()), "category"
    )
    (time,) = spec.times
    for chunk in plain_chunks(text, spec, kinds, [place for place in range(len(spec.header)) if place not in words]):
        numbers = chunk[list(places)].to_numpy(dtype=np.float64)
        if np.isinf(numbers).any() or (spec.gaps == "refuse" and np.isnan(numbers).any()):
            raise ValueError("a value is missing or not finite")
        times = chunk[time]
        if times.isna().any() or times.isin(CLOCK).any() or is_year_and_number(times.iloc[0]):
            raise ValueError("a timestamp is missing, or no month")
        with warnings.catch_warnings():
            warnings.filterwarnings("error", ".*mixed time zones", FutureWarning)  # of pandas 2.2; 3 raises
            try:
                stamps = pd.DatetimeIndex(pd.to_datetime(times, format="ISO8601", errors="coerce"))
            except FutureWarning as warning:
                raise ValueError(str(warning)) from warning
        if stamps.tz is not None or stamps.hasnans or {stamps.min().year, stamps.max().year} - set(YEARS):
            raise ValueError("a timestamp cannot be read")
        yield chunk, stamps
