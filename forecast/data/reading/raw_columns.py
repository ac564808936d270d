"""The cells of a file as columns, before anyone decides what they mean: numbers where they read so, else words."""

import re
from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from forecast.data.cells import FloatArray
from forecast.data.reading.csv_text import BLANKS

IntArray = npt.NDArray[np.int32]
_Parts = tuple[npt.NDArray[Any], ...]  # numbers, decimals, commas, as in RawColumn

# A point and a comma count alike: forecast.data.reading.numbers decides which of them stands before decimals.
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)
_LETTERS = b"+-.,eE0123456789"  # float() also takes 1_000, nan, inf and digits of other scripts
_END = "\0"  # no cell holds it: CsvText.max_rows refuses it
_EXACT = 15  # decimal digits that a float keeps


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

    def cells(self, rows: Iterable[int]) -> list[str]:
        """Some cells as text, for messages; of a number plus signs, leading zeros and exponents may be lost."""
        return [self.words[self.codes[row] - 1] if self.codes[row] else self._number(row) for row in rows]

    def take(self, rows: npt.NDArray[np.intp]) -> "RawColumn":
        """Some rows alone."""
        parts = {key: getattr(self, key)[rows] for key in ("numbers", "decimals", "commas", "codes")}
        return replace(self, **parts)

    def _number(self, row: int) -> str:
        value, decimals = float(self.numbers[row]), int(self.decimals[row])
        if 0 < decimals <= _EXACT:
            text = f"{value:.{decimals}f}"
        else:
            text = f"{value:.0f}" if value.is_integer() and abs(value) < 10**_EXACT else repr(value)
        return text.replace(".", ",") if self.commas[row] else text


class RawColumns:
    """The columns of a file, filled some rows at a time.

    names: of all columns. text: the places of those whose every cell is kept as a word, as for times and ids.
    """

    def __init__(self, names: Sequence[str], text: Collection[int] = ()) -> None:
        self._columns = [_Growing(name, text=place in text) for place, name in enumerate(names)]

    def add(self, rows: Sequence[Sequence[str]]) -> None:
        """Appends rows of cells; what a short row lacks is '', what a long one has too much is left out."""
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
        self._grown: list[array[Any]] = [array("d"), array("b"), array("b")]
        self._codes = array("i")
        self._words: dict[str, int] = {}

    def add(self, cells: list[str]) -> None:
        """Appends cells: float() takes all at once that are no known words; where it may not, new words are told."""
        text = _END.join(cells)
        if any(blank in text for blank in BLANKS):
            cells = [cell.strip(BLANKS) for cell in cells]
        words = self._words
        if self._text:
            codes, parts = np.array([words.setdefault(cell, len(words) + 1) for cell in cells], np.int32), _numbers([])
        else:
            codes, parts = self._split(cells)
        if parts is None:
            for cell in dict.fromkeys(cells):
                if cell not in words and not _is_number(cell):
                    words[cell] = len(words) + 1
            codes, parts = self._split(cells)
        assert parts is not None
        for grown, part, of_word in zip(self._grown, parts, (np.nan, -1, 0), strict=True):
            whole = np.full(len(cells), of_word, dtype=part.dtype)
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


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None and bool(np.isfinite(float(cell.replace(",", "."))))
