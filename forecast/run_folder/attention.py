"""attention.npz, which `forecast attend` leaves in a run folder: what the attentions look at in one window."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from forecast.documents import Array, DocumentError, read_arrays


def read_attention(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    """attention.npz, as docs/attentions.md has it. Raises DocumentError where there is none, or none that is whole."""
    head = {"known_until": Array("iM", 1), **dict.fromkeys(("places", "split", "checkpoint"), Array("U", 1))}
    head |= {"window": Array("i", 1), "series": Array("U", 1, optional=True)}
    arrays = read_arrays(path, head)
    if arrays is None:
        raise DocumentError(path, "there is no such file")
    parts = {"queries": Array("iM", 2, True), "keys": Array("iM", 2, True), "columns": Array("U", 1, True)}
    parts |= {"query_names": Array("U", 1, True), "key_names": Array("U", 1, True)}
    parts |= {"active": Array("b", 3, True), "measures": Array("f", 3, True)}
    for place in map(str, arrays["places"]):
        expected = {place: Array("f", 4), **{f"{place}/{part}": array for part, array in parts.items()}}
        maps = read_arrays(path, expected) or {}
        count, heads, queries, keys = maps[place].shape
        sizes = {"queries": (queries, 2), "keys": (keys, 2), "columns": (count,)}
        sizes |= {"query_names": (queries,), "key_names": (keys,)}
        sizes |= dict.fromkeys(("active", "measures"), (count, heads, queries))
        for part, size in sizes.items():
            if f"{place}/{part}" in maps and maps[f"{place}/{part}"].shape != size:
                raise DocumentError(path, f"the array {place}/{part} is of other maps")
        arrays |= maps
    return arrays
