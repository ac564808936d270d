"""Typed columns of a Parquet or Feather file, some rows at a time, as ids, times and numbers."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forecast.data.cells import FloatArray, IntArray
from forecast.data.findings import Findings, quoted
from forecast.data.panel.names import nanoseconds, whole_numbers
from forecast.data.reading.codebook import Codebook
from forecast.data.reading.columnar import holds_bytes, is_text, plain, texts_of, type_name
from forecast.data.reading.layout import Layout
from forecast.data.reading.numbers import MISSING_SPELLINGS, number_in
from forecast.data.reading.time_formats import YEARS
from forecast.data.reading.timestamps import read_timestamps
from forecast.errors import UserError


class Words:
    """The different cells of a column as text, numbered as they come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def words(self) -> list[str]:
        """All so far; a missing cell is ''."""
        return list(self._numbers)

    def codes(self, column: pa.Array) -> IntArray:
        """The number of the text of each cell (n,)."""
        column = plain(column)
        if pa.types.is_floating(column.type) and not pc.any(pc.not_equal(pc.floor(column), column)).as_py():
            column = column.cast(pa.int64())  # as pandas stores whole numbers beside a missing one
        encoded = column if isinstance(column, pa.DictionaryArray) else None
        if encoded is None:
            encoded = pc.dictionary_encode(column if _is_simple(column.type) else texts_of(column))
        words = texts_of(encoded.dictionary).to_pylist()
        numbers = self._numbers
        known = np.array([numbers.setdefault(word or "", len(numbers)) for word in words], dtype=np.int64)
        indices = encoded.indices
        if encoded.null_count:
            indices, known = pc.fill_null(indices, len(known)), np.append(known, numbers.setdefault("", len(numbers)))
        codes: IntArray = np.take(known, indices.to_numpy())
        return codes


def equal_cells(column: pa.Array, value: str | float) -> np.ndarray:
    """Which cells (n,) are what data.where asks for: a number by its value, text letter by letter."""
    words = Words()
    codes = words.codes(column)
    same = [word == value if isinstance(value, str) else number_in(word, ".", None) == value for word in words.words]
    return np.array(same, dtype=bool)[codes]


def codes_of(column: pa.Array, name: str, book: Codebook) -> FloatArray:
    """The numbers (n,) of the categories in a column, NaN for a missing cell."""
    words = Words()
    codes = words.codes(column)
    return book.codes(name, words.words)[codes]


def _is_simple(kind: pa.DataType) -> bool:

    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def nameless(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Which cells (n,) are missing or an empty text."""
    if column.null_count:
        return np.asarray(column.is_null())
    if isinstance(column, pa.DictionaryArray):
        missing: npt.NDArray[np.bool_] = np.take(nameless(column.dictionary), column.indices.to_numpy())
        return missing
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.asarray(pc.equal(column, ""))
    return np.zeros(len(column), dtype=bool)


def text_kind(kind: pa.DataType) -> str | None:
    """What a column of this type holds, where that is no numbers."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    if any(check(inner) for check in numeric):
        return None
    return "text" if is_text(inner) or holds_bytes(inner) else type_name(kind)


def numbers_of(column: pa.Array, missing: Sequence[float]) -> FloatArray:
    """(n,): NaN for a missing cell, and for a number that stands for none."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if not pa.types.is_float64(column.type):
        column = column.cast(pa.float32() if pa.types.is_float16(column.type) else column.type)
        column = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        column = column.cast(pa.float64(), safe=False)
    values = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    return np.where(np.isin(values, missing), np.nan, values) if len(missing) else values


class Joint:
    """Cells of several columns together, numbered as they come."""

    def __init__(self, columns: int) -> None:
        self._columns = [Words() for _ in range(columns)]
        self._numbers: dict[tuple[int, ...], int] = {}

    def codes(self, columns: Sequence[pa.Array]) -> IntArray:
        """The number of the cells of each row (n,)."""
        codes = [words.codes(column) for words, column in zip(self._columns, columns, strict=True)]
        if len(codes) == 1:
            return codes[0]
        table, firsts = pd.factorize(pd.MultiIndex.from_arrays(codes))
        numbers = self._numbers
        return np.array([numbers.setdefault(row, len(numbers)) for row in firsts.tolist()], dtype=np.int64)[table]

    def cells(self) -> list[list[str]]:
        """Of each column the cells (U,) that stand behind the numbers."""
        words = [column.words for column in self._columns]
        if len(words) == 1:
            return words
        return [[words[place][row[place]] for row in self._numbers] for place in range(len(words))]


class Times:
    """How the time columns of a file are read: first all cells are collected, then their format is decided.

    stepped: whether they are whole numbers that no calendar counts; time_format: see `Table`. Both once `decide` was
    called.
    """

    def __init__(self, kinds: Sequence[pa.DataType], layout: Layout) -> None:

        self._layout = layout
        self._joint = Joint(len(kinds))
        self._numbers: set[int] = set()
        alone = kinds[0] if len(kinds) == 1 else None
        self._is_time = alone is not None and (pa.types.is_timestamp(alone) or pa.types.is_date(alone))
        self._is_whole = alone is not None and pa.types.is_integer(alone) and layout.time_format is None
        self._of_codes: IntArray | None = None
        self._zone: str | None = None  # of times that are midnights there so far, and so days
        if self._is_time and layout.time_zone is None:
            self._zone = getattr(alone, "tz", None)
        self._faults: dict[int, str] = {}
        self.stepped = False
        self.time_format: str | None = None

    def collect(self, columns: Sequence[pa.Array], where: Callable[[int], str]) -> IntArray:
        """What stands for the times of some rows (n,) until they are decided on; UserError for a missing one."""
        for column in columns:
            if column.null_count:
                row = int(np.asarray(column.is_null()).argmax())
                raise UserError(f"{where(row)}: the timestamp is missing. Fill it in or drop the row.")
        if self._is_time:
            try:
                return self._instants(columns[0])
            except pa.ArrowInvalid as error:
                raise UserError(
                    f"{where(0)} or one behind it has a time outside of the years {YEARS[0]} to {YEARS[-1]}, which can "
                    "be read. Correct it, or drop the row if it marks an open end."
                ) from error
        if self._is_whole:
            values = columns[0].cast(pa.int64()).to_numpy(zero_copy_only=False)
            self._numbers.update(pd.unique(values).tolist())
            return np.asarray(values)
        return self._joint.codes(columns)

    def decide(self, findings: Findings) -> None:
        """Finds how all that was collected is written; UserError, AmbiguousTime as `read_timestamps`."""
        if self._is_time:
            return
        cells = [list(map(str, sorted(self._numbers)))] if self._is_whole else self._joint.cells()
        texts = dict(zip(self._layout.time_columns, cells, strict=True))
        self.stepped = len(cells) == 1 and self._layout.time_format is None and whole_numbers(cells[0], self._layout)
        if self.stepped and not self._is_whole:
            self._of_codes = np.array([int(float(word)) for word in cells[0]], dtype=np.int64)
        if self.stepped:
            return
        missing = MISSING_SPELLINGS | {str(word) for word in self._layout.missing}
        time_format, time_zone = self._layout.time_format, self._layout.time_zone
        try:
            read = read_timestamps(texts, missing=missing, time_format=time_format, time_zone=time_zone)
        except UserError as error:
            raise UserError(f"{findings.path}: {error}") from error
        self._of_codes = nanoseconds(read.stamps)
        self._faults = {code: " ".join(column[code] for column in cells) for code in read.faults}
        if read.how:
            findings.say(f"The time is read as {read.how}.")
        for note in read.notes:
            findings.say(note)
        self.time_format = read.settings.get("data.time_format")

    def times(self, collected: IntArray, where: Callable[[int], str]) -> IntArray:
        """The times (n,) of what was collected: nanoseconds, or steps; UserError for an unreadable one."""
        if self._of_codes is None:
            return collected if self._zone is None else _by_clock(collected, self._zone)
        codes = np.searchsorted(np.array(sorted(self._numbers)), collected) if self._is_whole else collected
        if self._faults and (bad := np.isin(codes, list(self._faults))).any():
            row = int(bad.argmax())
            raise UserError(
                f"{where(row)}: {quoted(self._faults[int(codes[row])])} is no timestamp, or not written as the others "
                "are. Correct it, or set data.time_format, as '%d/%m/%Y %H:%M'."
            )
        return self._of_codes[codes]

    def _instants(self, column: pa.Array) -> IntArray:
        """Nanoseconds of the clock: in UTC, or in data.time_zone, for times with a zone."""
        zone = getattr(column.type, "tz", None)
        stamps = np.asarray(column.cast(pa.timestamp("ns", zone)).cast(pa.int64()))
        if zone is not None and self._layout.time_zone is not None:
            return _by_clock(stamps, self._layout.time_zone)
        if self._zone is not None and (_by_clock(stamps, self._zone) % pd.Timedelta(days=1).value).any():
            self._zone = None
        return stamps


def _by_clock(instants: IntArray, zone: str) -> IntArray:
    """Nanoseconds in UTC (n,) as those that the clock of a zone shows."""
    local = pd.DatetimeIndex(instants.astype("datetime64[ns]")).tz_localize("UTC").tz_convert(zone)
    return nanoseconds(local.tz_localize(None))


def as_column(rows: IntArray) -> pa.Array:
    """(n,) as pyarrow has it."""
    return pa.array(rows)
