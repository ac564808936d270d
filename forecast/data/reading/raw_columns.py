"""The cells of a file as columns, before anyone decides what they mean: numbers, times or words."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.values.cells import FloatArray

BLANKS = " \t\n\v\f\r"  # what pandas takes for blank around a number
IntArray = npt.NDArray[np.int32]

_LARGEST = 1e15  # whole numbers below it are written without an exponent
_ROWS = 16  # of a typed table made text at a time: often just the first is needed


@dataclass(frozen=True, eq=False)
class RawColumn:
    """The N cells of a column, stripped of blanks.

    codes (N,): 0 for a number, else 1 + the place in words. numbers (N,): NaN for a word. words: the different others.
    """

    name: str
    numbers: FloatArray
    codes: IntArray
    words: list[str]

    def __len__(self) -> int:
        return len(self.codes)

    def cells(self, rows: Iterable[int]) -> list[str]:
        """Some cells as text."""
        places = np.fromiter(rows, dtype=np.int64)
        codes, numbers = self.codes[places].tolist(), self.numbers[places].tolist()
        return [self.words[code - 1] if code else _written(numbers[row]) for row, code in enumerate(codes)]

    def take(self, rows: npt.NDArray[np.intp]) -> "RawColumn":
        """Some rows alone."""
        return replace(self, numbers=self.numbers[rows], codes=self.codes[rows])

    @classmethod
    def of_numbers(cls, name: str, values: FloatArray) -> "RawColumn":
        """A column that holds numbers (N,), NaN where one is missing."""
        missing = np.isnan(values)
        if missing.any():
            return cls(name, values, missing.astype(np.int32), [""])
        return cls(name, values, np.broadcast_to(np.int32(0), len(values)), [])

    @classmethod
    def of_cells(cls, name: str, cells: "pd.Series[str]") -> "RawColumn":
        """A column of text, in the order in which its words appear."""
        codes, words = pd.factorize(cells.fillna("").str.strip(BLANKS).to_numpy(dtype=object))
        none = np.broadcast_to(np.float64(np.nan), len(codes))
        return cls(name, none, codes.astype(np.int32) + 1, words.tolist())

    @classmethod
    def of_words(
        cls, name: str, codes: npt.NDArray[np.intp], words: Sequence[str], numbers: FloatArray | None = None
    ) -> "RawColumn":
        """A column of words, by the places (N,) of the cells in `words`; blanks around them go.

        numbers (N,): what stands where a place is -1.
        """
        bare = np.array([*(word.strip(BLANKS) for word in words), ""], dtype=object)
        used = pd.unique(codes[codes >= 0])
        different, places = np.unique(bare[used], return_inverse=True)
        code_of = np.zeros(len(bare), dtype=np.int32)  # the last: of -1
        code_of[used] = places + 1
        none = np.broadcast_to(np.float64(np.nan), len(codes))
        return cls(name, none if numbers is None else numbers, code_of[codes], different.tolist())

    def as_words(self) -> "RawColumn":
        """The same where all cells are words."""
        if self.codes.all():
            return self
        rows = np.flatnonzero(self.codes == 0)
        places, values = pd.factorize(self.numbers[rows], sort=True)
        known = {word: code for code, word in enumerate(self.words, start=1)}
        of_values = [known.setdefault(_written(value), len(known) + 1) for value in values.tolist()]
        codes = np.array(self.codes)
        codes[rows] = np.array(of_values, dtype=np.int32)[places]
        return replace(self, codes=codes, words=list(known))


def _written(value: float) -> str:
    """A number as text."""
    return f"{value:.0f}" if value.is_integer() and abs(value) < _LARGEST else repr(value)


@dataclass(frozen=True, eq=False)
class TypedTable:
    """A file that knows its cells: N rows of columns of numbers, times, and words that may be written as numbers.

    kind: what the file is, in words. lines (N,): as messages count them; header: that of the names.
    """

    kind: str
    columns: Sequence[RawColumn]
    lines: Sequence[int]
    header: int = 1

    @property
    def names(self) -> list[str]:
        """Those of the columns."""
        return [column.name for column in self.columns]

    def record(self, row: int) -> tuple[int, list[str]]:
        """(line, cells) of a row."""
        return self.lines[row], [column.cells([row])[0] for column in self.columns]

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of the header and of every row."""
        yield self.header, self.names
        for first in range(0, len(self.lines), _ROWS):
            rows = range(first, len(self.lines))[:_ROWS]
            cells = zip(*(column.cells(rows) for column in self.columns), strict=True)
            yield from zip(self.lines[first : rows.stop], map(list, cells), strict=True)
