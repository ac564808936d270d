"""How this program writes files: whole or not at all, whatever kills it."""

import errno
import glob
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

DECIMALS = 6  # of the numbers in metrics.json and metrics_by_step.csv


@contextmanager
def together(folder: Path) -> Iterator[Callable[[str], Path]]:
    """A function that gives for the name of a file in `folder` the path beside it to write to.

    At the end of the block all that was written is brought onto the disk, and only then renamed into its place, in the
    order of the calls. Until then, and when the block raises, all files stay what they were. Raises OSError, with the
    name of the file, when one cannot be written.
    """
    parts: dict[Path, Path] = {}

    def beside(name: str) -> Path:
        path = folder / name
        # the process is in its name: two that write the same file must not write into one
        return parts.setdefault(path, path.with_name(f".{path.name}.{os.getpid()}.part"))

    path = folder
    try:
        yield beside
        for path, part in parts.items():
            sync(part)  # renamed first and written later, it could be empty after a power cut
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        for path, part in parts.items():
            part.replace(path)
        sync(folder)
    except BaseException as error:
        if isinstance(error, OSError):  # a disk that is full does not say for which file, and nobody knows a part
            last = path if path in parts else next(reversed(parts), folder)
            names = {str(part): path for path, part in parts.items()}
            error.filename = str(names.get(error.filename, error.filename or last))
        for part in parts.values():
            with suppress(OSError):
                part.unlink()
        raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; what was written takes the place of `path` at the end of the block.

    Until then, and when the block raises, `path` stays what it was. Raises OSError when it cannot be written.
    """
    with together(path.parent) as beside:
        yield beside(path.name)


def remove_unfinished(path: Path) -> None:
    """Removes what killed processes have left of a file; only where no other process can be writing it now."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        part.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Brings a file, or the names in a folder, onto the disk: a power cut afterwards takes nothing of it.

    Raises OSError when the file cannot be; some file systems have no such thing for folders.
    """
    if not path.is_dir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        return
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Puts `text` at `path`."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Puts `json_text(value)` at `path`."""
    write_text(path, json_text(value))


def json_text(value: object) -> str:
    """`rounded(value)` as the lines of a JSON file."""
    return json.dumps(rounded(value), indent=2, allow_nan=False) + "\n"


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Arrays as a NumPy archive (.npz), written straight to a path from `together` or `replacing`."""
    with path.open("wb") as file:  # given a name, NumPy would add .npz to it
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its stubs take each keyword for allow_pickle


def rounded(value: object) -> object:
    """The same structure, floats rounded to DECIMALS, small ones to as many digits; NaN and inf become None.

    Tuples and arrays become lists.
    """
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return rounded(value.tolist())
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    if isinstance(value, float):
        return _rounded(value) if math.isfinite(value) else None
    return value


def _rounded(value: float) -> float:
    zeros = 0 if value == 0.0 else max(0, -math.floor(math.log10(abs(value))) - 1)  # right after the decimal point
    return round(value, DECIMALS + zeros) + 0.0  # + 0.0: no "-0.0"
