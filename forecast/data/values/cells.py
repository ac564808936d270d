"""Arrays of cells."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
JOINT = "/"  # between the cells of several id columns, in an id


def runs(values: npt.NDArray[np.generic]) -> tuple[IntArray, IntArray]:
    """Where each run (R,) of equal values (N,) that stand below one another begins, and how many values it has."""
    first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))[: len(values)]
    return first, np.diff(first, append=len(values))
