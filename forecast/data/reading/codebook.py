"""The words of columns of categories, numbered as they are read."""

import re
from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt

from forecast.data.reading.numbers import MISSING_SPELLINGS

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
