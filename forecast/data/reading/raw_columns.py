"""The cells of a file as columns, before anyone decides what they mean: numbers where they read so, else words."""

import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.values.cells import FloatArray, runs

BLANKS = " \t\n\v\f\r"  # what pandas takes for blank around a number
IntArray = npt.NDArray[np.int32]
_Parts = tuple[npt.NDArray[Any], ...]  # numbers, decimals, commas, as in RawColumn

# A point and a comma count alike: forecast.data.reading.numbers decides which of them stands before decimals.
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)
_LETTERS = b"+-.,eE0123456789"  # float() also takes 1_000, nan, inf and digits of other scripts
_END = "\0"  # no cell holds it: CsvText.check_nul refuses it
_EXACT = 15  # decimal digits that a float keeps
_LINE_ENDS = re.compile(r"[\r\n]+")
_ROWS = 16  # of a typed table made text at a time: often just the first is needed


@dataclass(frozen=True, eq=False)
class RawColumn:
    """The N cells of a column, stripped of blanks.

    codes (N,): 0 for a number with at most one sign, a point or a comma, else 1 + the place in words. numbers (N,):
    the value as if that sign stood before decimals, NaN for a word. decimals (N,): the digits after the sign, -1
    without one or for a word. commas (N,): whether the sign is a comma. words: the distinct other cells.
    """

    name: str
    numbers: FloatArray
    decimals: npt.NDArray[np.int8]
    commas: npt.NDArray[np.bool_]
    codes: IntArray
    words: list[str]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def is_time(self) -> bool:
        """Whether it holds times that are no text."""
        return False

    @property
    def blank(self) -> npt.NDArray[np.bool_]:
        """(N,) or (): in which cells nothing stands."""
        return np.asarray(self.codes == self.words.index("") + 1 if "" in self.words else False)

    def cells(self, rows: Iterable[int]) -> list[str]:
        """Some cells as text, for messages; of a number plus signs, leading zeros and exponents may be lost."""
        places = np.fromiter(rows, dtype=np.int64)
        codes = self.codes[places]
        if codes.all():
            return [self.words[code] for code in (codes - 1).tolist()]
        cells = zip(places.tolist(), codes.tolist(), strict=True)
        return [self.words[code - 1] if code else self._number(row) for row, code in cells]

    def take(self, rows: npt.NDArray[np.intp]) -> "RawColumn":
        """Some rows alone."""
        parts = {key: getattr(self, key)[rows] for key in ("numbers", "decimals", "commas", "codes")}
        return replace(self, **parts)

    @classmethod
    def of_numbers(cls, name: str, values: FloatArray) -> "RawColumn":
        """A column that holds numbers (N,), NaN where one is missing."""
        size, gone = len(values), np.isnan(values)
        decimals, commas = np.broadcast_to(np.int8(-1), size), np.broadcast_to(np.False_, size)
        codes = gone.astype(np.int32) if gone.any() else np.broadcast_to(np.int32(0), size)
        column = cls(name, values, decimals, commas, codes, [""] if gone.any() else [])
        if (endless := np.isinf(values)).any():
            column = replace(column, codes=codes + (endless * (len(column.words) + 1)).astype(np.int32))
            column = replace(column, words=[*column.words, "inf"], numbers=np.where(endless, np.nan, values))
        return column

    @classmethod
    def of_words(cls, name: str, codes: npt.NDArray[np.intp], words: Sequence[str]) -> "RawColumn":
        """A column of words, by the places (N,) of the cells in `words`; blanks around and line ends in them go."""
        bare = np.array([_LINE_ENDS.sub(" ", word).strip(BLANKS) for word in words], dtype=object)
        numbers, size = np.zeros(len(words), dtype=np.int32), len(codes)
        numbers[codes] = 1
        there = np.flatnonzero(numbers)
        used, places = np.unique(bare[there], return_inverse=True)
        numbers[there] = places + 1
        none = np.broadcast_to(np.float64(np.nan), size), np.broadcast_to(np.int8(-1), size)
        return cls(name, *none, np.broadcast_to(np.False_, size), numbers[codes], used.tolist())

    @classmethod
    def of_text(cls, name: str, cells: "pd.Series[str]", *, words: bool) -> "RawColumn":
        """A column of cells (N,) as pandas reads text. words: whether all of them stay words."""
        codes, different = pd.factorize(
            cells.fillna("").str.strip(BLANKS).to_numpy(dtype=object)
        )  # a short row lacks some
        none, size = np.broadcast_to(np.float64(np.nan), len(codes)), len(codes)
        decimals, commas = np.broadcast_to(np.int8(-1), size), np.broadcast_to(np.False_, size)
        column = cls(name, none, decimals, commas, codes.astype(np.int32) + 1, different.tolist())
        return column if words else column.with_numbers()

    def with_numbers(self) -> "RawColumn":
        """The same where words that are written as numbers are numbers."""
        read = RawColumns([self.name])
        read.add([[word] for word in self.words])
        (different,) = read.columns()
        if different.codes.all():
            return self
        words = different.take(np.maximum(self.codes, 1) - 1)
        own = self.codes == 0
        numbers, codes = np.where(own, self.numbers, words.numbers), np.where(own, 0, words.codes).astype(np.int32)
        decimals = np.where(own, self.decimals, words.decimals)
        return RawColumn(self.name, numbers, decimals, words.commas & ~own, codes, words.words)

    def as_words(self) -> "RawColumn":
        """The same where all cells are words."""
        if self.codes.all():
            return self
        numbers = self.numbers[rows := np.flatnonzero(self.codes == 0)]
        first, counts = runs(numbers)  # ids stand below one another
        values, of_runs = np.unique(numbers[first], return_inverse=True)
        places = np.repeat(of_runs, counts)
        whole = (values == np.rint(values)) & (np.abs(values) < 10**_EXACT) & ~((values == 0) & np.signbit(values))
        if whole.all():
            words = list(map(str, values.astype(np.int64).tolist()))  # as below, for a million ids
        else:
            words = RawColumn.of_numbers(self.name, values).cells(range(len(values)))
        codes, known = np.array(self.codes), {word: code for code, word in enumerate(self.words, start=1)}
        of_words = np.array([known.setdefault(word, len(known) + 1) for word in words], dtype=np.int32)
        codes[rows] = of_words[places]
        return replace(self, codes=codes, words=list(known))

    def _number(self, row: int) -> str:
        value, decimals = float(self.numbers[row]), int(self.decimals[row])
        if 0 < decimals <= _EXACT:
            text = f"{value:.{decimals}f}"
        else:
            text = f"{value:.0f}" if value.is_integer() and abs(value) < 10**_EXACT else repr(value)
        return text.replace(".", ",") if self.commas[row] else text


@dataclass(frozen=True, eq=False)
class TypedTable:
    """A file that knows its cells: N rows of columns of numbers, times, and words that may be written as numbers.

    kind: what the file is, in words. lines (N,): as messages count them; header: that of the names. surplus: (line,
    cells) of rows with more cells than there are names. index: the columns that number the rows. unread: of columns
    with nothing in them that can be read what a message says of them, by their names; these are none of the columns.
    """

    kind: str
    columns: Sequence[RawColumn]
    lines: Sequence[int]
    header: int = 1
    surplus: Sequence[tuple[int, int]] = ()
    index: Collection[str] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Those of the columns."""
        return [_LINE_ENDS.sub(" ", column.name) for column in self.columns]

    def record(self, row: int) -> tuple[int, list[str]]:
        """(line, cells) of a row."""
        return self.lines[row], [column.cells([row])[0] for column in self.columns]

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of the header and of every row."""
        if self.columns:
            yield self.header, self.names
        for first in range(0, len(self.lines), _ROWS):
            rows = range(first, min(first + _ROWS, len(self.lines)))
            cells = zip(*(column.cells(rows) for column in self.columns), strict=True)
            yield from zip(self.lines[first : rows.stop], map(list, cells), strict=True)

    def without_blank_rows(self) -> "TypedTable":
        """The same without rows in which nothing stands."""
        blank: npt.NDArray[np.bool_] = np.ones(len(self.lines), dtype=bool)
        for column in self.columns:
            blank &= column.blank
            if not blank.any():
                return self
        rows = np.flatnonzero(~blank)
        return replace(
            self,
            columns=[column.take(rows) for column in self.columns],
            lines=[self.lines[row] for row in rows.tolist()],
        )


class RawColumns:
    """The columns of a file, filled some rows at a time.

    names: of all columns. text: the places of those whose every cell is kept as a word, as for times and ids.
    """

    def __init__(self, names: Sequence[str], text: Collection[int] = ()) -> None:
        self._columns = [_Growing(name, text=place in text) for place, name in enumerate(names)]

    def add(self, rows: Sequence[Sequence[str | float]]) -> None:
        """Appends rows of cells; what a short row lacks is '', what a long one has too much is left out.

        Numbers may stand in columns of text alone.
        """
        width = len(self._columns)
        whole = [row if len(row) == width else [*row, *[""] * width][:width] for row in rows]
        for place, growing in enumerate(self._columns):
            growing.add([row[place] for row in whole])

    def columns(self) -> list[RawColumn]:
        """The columns, without a copy: this object is then empty."""
        columns = [growing.column() for growing in self._columns]
        self._columns = []
        return columns


class _Growing:
    """A column that is being read."""

    def __init__(self, name: str, *, text: bool) -> None:
        self._name, self._text = name, text
        self._grown: list[array[float] | array[int]] = [array("d"), array("b"), array("b")]
        self._codes = array("i")
        self._words: dict[str, int] = {}

    def add(self, cells: Sequence[str | float]) -> None:
        """Appends cells: float() takes all at once that are no known words; where it may not, new words are told."""
        words, texts = self._words, [cell.strip(BLANKS) for cell in cells if isinstance(cell, str)]
        if self._text:
            of_texts = iter([words.setdefault(cell, len(words) + 1) for cell in texts])
            codes = np.array([next(of_texts) if isinstance(cell, str) else 0 for cell in cells], np.int32)
            numbers = RawColumn.of_numbers(
                "", np.array([cell for cell in cells if not isinstance(cell, str)], np.float64)
            )
            parts: _Parts | None = (numbers.numbers, numbers.decimals, numbers.commas)
        else:
            codes, parts = self._split(texts)
        if parts is None:
            for cell in dict.fromkeys(texts):
                if cell not in words and not (_NUMBER.fullmatch(cell) and np.isfinite(float(cell.replace(",", ".")))):
                    words[cell] = len(words) + 1
            codes, parts = self._split(texts)
        assert parts is not None
        for grown, part, of_word in zip(self._grown, parts, (np.nan, -1, 0), strict=True):
            whole = np.full(len(codes), of_word, dtype=part.dtype)
            whole[codes == 0] = part
            grown.frombytes(whole.tobytes())
        self._codes.frombytes(codes.tobytes())

    def _split(self, cells: list[str]) -> tuple[IntArray, _Parts | None]:
        """The codes of known words among cells (n,), 0 for others; what the others are if all of them are numbers."""
        if not self._words:
            return np.zeros(len(cells), dtype=np.int32), _numbers(cells)
        codes = np.array(list(map(self._words.get, cells, repeat(0))), dtype=np.int32)
        return codes, _numbers(list(compress(cells, (codes == 0).tolist())))

    def column(self) -> RawColumn:
        """All cells so far; none can be added after it."""
        numbers, decimals, commas, codes = map(np.asarray, (*self._grown, self._codes))
        return RawColumn(self._name, numbers, decimals, commas.view(np.bool_), codes, list(self._words))


def _numbers(cells: list[str]) -> _Parts | None:
    """(values, decimals, commas) of cells (n,) without blanks; None unless all are numbers."""
    text = _END.join(cells)
    written = text.encode(errors="surrogatepass")
    if written.translate(None, _LETTERS).strip(b"\0"):
        return None
    try:
        values = np.array(list(map(float, text.replace(",", ".").split(_END) if "," in text else cells)))
    except ValueError:
        return None
    if not np.isfinite(values).all():
        return None
    decimals, commas = np.full(len(cells), -1, dtype=np.int8), np.zeros(len(cells), dtype=np.bool_)
    letters = np.frombuffer(written, dtype=np.uint8)
    signs = np.flatnonzero((letters == ord(".")) | (letters == ord(",")))
    ends = np.append(np.flatnonzero(letters == 0), len(letters))
    owners = np.searchsorted(ends, signs)  # float() has refused a second sign in a cell
    decimals[owners] = np.minimum(ends[owners] - signs - 1, 127)
    commas[owners] = letters[signs] == ord(",")
    if b"e" in written or b"E" in written:
        powers = np.searchsorted(ends, np.flatnonzero((letters | 32) == ord("e")))
        decimals[powers[decimals[powers] > 0]] = 0
    return values, decimals, commas
