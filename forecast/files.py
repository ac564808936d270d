"""How this program writes files: whole or not at all, whatever kills it."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

DECIMALS = 6  # of the numbers in metrics.json and metrics_by_step.csv


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; what was written takes the place of `path` at the end of the block.

    Until then, and when the block raises, `path` stays what it was. Raises OSError when it cannot be written.
    """
    unfinished = path.with_name(path.name + ".part")
    try:
        yield unfinished
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())  # renamed first and written later, it could be empty after a power cut
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def write_text(path: Path, text: str) -> None:
    """Puts `text` at `path`."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Puts `rounded(value)` at `path` as JSON."""
    write_text(path, json.dumps(rounded(value), indent=2, allow_nan=False) + "\n")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Puts arrays at `path`, a NumPy archive (.npz)."""
    with replacing(path) as unfinished, unfinished.open("wb") as file:  # given a name, NumPy would add .npz to it
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its stubs take each keyword for allow_pickle


def rounded(value: Any) -> Any:
    """The same structure, floats rounded to DECIMALS; NaN and inf become None; tuples and arrays, lists."""
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return rounded(value.tolist())
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    if isinstance(value, float):
        return round(value, DECIMALS) + 0.0 if math.isfinite(value) else None  # + 0.0: no "-0.0"
    return value
