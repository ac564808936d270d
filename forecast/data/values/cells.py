"""The rows of one series or of many as one array of cells."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
JOINT = "/"  # between the cells of several id columns, in an id


class Cells(Protocol):
    """What a frame of one series and one of many have in common.

    values (N, C) in the units of the file; measured (N, C): False where no file held the cell, None: all were measured;
    offsets (S + 1,): series s has the rows offsets[s] to offsets[s + 1]. categories: the words of columns whose values
    are their numbers.
    """

    @property
    def values(self) -> FloatArray:
        """(N, C)."""

    @property
    def measured(self) -> Flags | None:
        """(N, C), or None."""

    @property
    def offsets(self) -> IntArray:
        """(S + 1,)."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def checksum(self) -> str | None:
        """Of what was read; None of made-up data."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The C names."""

    @property
    def freq(self) -> str:
        """The pandas alias of the grid."""

    @property
    def categories(self) -> Mapping[str, Sequence[str]]:
        """The words of some columns, by name."""


def runs(values: npt.NDArray[np.generic]) -> tuple[IntArray, IntArray]:
    """Where each run (R,) of equal values (N,) that stand below one another begins, and how many values it has."""
    first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))[: len(values)]
    return first, np.diff(first, append=len(values))
