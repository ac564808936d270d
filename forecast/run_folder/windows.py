"""The forecasts of some windows as a run has kept them, for a picture or a page."""

from pathlib import Path
from typing import Any

from forecast.documents import Array, DocumentError, read_arrays

# The arrays of forecasts.npz: of W windows past (W, L, T), truth and forecast (W, P, T), original units, ends of
# intervals (W, P, T, A). All others in the file are forecasts of baselines.
WINDOWS = {
    **dict.fromkeys(("past", "truth", "forecast"), Array("f", 3)),
    "timestamps": Array("M", 2),
    "columns": Array("U", 1),
    "series": Array("U", 1, optional=True),
    "levels": Array("fi", 1, optional=True),
    **dict.fromkeys(("lower", "upper"), Array("f", 4, optional=True)),
}


def read_windows(path: Path, *, truth: bool = True) -> dict[str, Any]:
    """forecasts.npz; without truth, what is forecast after the end of the data.

    Raises DocumentError where there is none, or none whose arrays belong together.
    """
    import numpy as np

    expected = {name: array for name, array in WINDOWS.items() if truth or name != "truth"}
    arrays = read_arrays(path, expected, most=4000, rest=Array("f", 3))
    if arrays is None:
        raise DocumentError(path, "there is no such file")
    (windows, rows, columns), steps = arrays["past"].shape, arrays["forecast"].shape[1]
    sizes = {
        **{name: (windows, steps, columns) for name, array in arrays.items() if array.ndim == 3},
        "past": (windows, rows, columns),
        "timestamps": (windows, rows + steps),
        "columns": (columns,),
        "series": (windows,),
        **dict.fromkeys(("lower", "upper"), (windows, steps, columns, len(arrays.get("levels", ())))),
    }
    if wrong := [name for name in arrays if name in sizes and arrays[name].shape != sizes[name]]:
        raise DocumentError(path, f"the array {wrong[0]} is of other windows")
    if arrays["timestamps"].dtype != np.dtype("datetime64[ns]") or np.isnat(arrays["timestamps"]).any():
        raise DocumentError(path, "its timestamps are none")
    return arrays
