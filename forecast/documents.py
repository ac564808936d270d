"""Documents of this program as they lie in its folders: JSON, YAML and NumPy archives, each read against its type."""

import zipfile
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, cast

import annotated_types

from forecast.errors import UserError

T = TypeVar("T")
Arrays = dict[str, Any]  # of an archive, by their names: NumPy's, for whose import `--help` does not wait
Count = Annotated[int, annotated_types.Ge(0)]
Positive = Annotated[int, annotated_types.Ge(1)]
NotNegative = Annotated[float, annotated_types.Ge(0)]

LONGEST_REASON = 200  # characters that a message quotes
# What reading a damaged archive can raise.
ODD = (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile)


class DocumentError(UserError):
    """A document that cannot be read. name: of the file. reason: why, in words."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"{path} cannot be read: {reason}. Restore the file, or move it away")
        self.path, self.name, self.reason = str(path), Path(path).name, reason

    def __reduce__(self) -> tuple[type["DocumentError"], tuple[str, str]]:
        return type(self), (self.path, self.reason)  # another process may raise it


class Array(NamedTuple):
    """An array of an archive. kinds: letters of the NumPy types that it may have; ndim: its axes."""

    kinds: str
    ndim: int
    optional: bool = False


def read_json(path: Path, shape: type[T]) -> T | None:
    """The document, None where there is no such file.

    shape: its type, of TypedDict, dict, list, Literal and plain values, exactly as they are: no text is taken for a
    number. Keys that a TypedDict does not have may be there. Raises DocumentError for any other document.
    """
    content = read_content(path)
    return None if content is None else parse_json(path, content, shape)


def parse_json(path: Path | str, content: bytes, shape: type[T]) -> T:
    """As `read_json`, of the content of a file, or of a line of it. path: for the message."""
    from pydantic_core import from_json  # 0.1 seconds, which `--help` does not wait for

    try:
        value = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise DocumentError(path, f"it is no JSON ({error})") from error
    return checked(path, value, shape)


def read_yaml(path: Path, shape: type[T]) -> T | None:
    """As `read_json`; numbers may be infinite."""
    import yaml

    content = read_content(path)
    if content is None:
        return None
    try:
        value = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentError(path, f"it is no YAML ({' '.join(str(error).split())[:LONGEST_REASON]})") from error
    return checked(path, value, shape)


def read_arrays(path: Path, arrays: Mapping[str, Array], *, rest: Array | None = None) -> Arrays | None:
    """Those of the arrays that an archive has (.npz); None where there is no such file.

    rest: of all others; None: they are not read. Raises DocumentError for a damaged archive, for one without an array
    that is not optional, and for an array of another type or number of axes.
    """
    import numpy as np

    if not path.is_file():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            kinds = {name: kind for name in archive if (kind := arrays.get(name, rest)) is not None}
            read = {name: archive[name] for name in kinds}
    except ODD as error:
        raise DocumentError(path, f"it is no archive of arrays, or is cut off ({type(error).__name__})") from error
    if lacking := [name for name, array in arrays.items() if not array.optional and name not in read]:
        raise DocumentError(path, f"it has no array {lacking[0]}")
    for name, kind in kinds.items():
        if read[name].dtype.kind not in kind.kinds or read[name].ndim != kind.ndim:
            raise DocumentError(path, f"the array {name} has another type, or another number of axes")
    return read


@contextmanager
def fitting(path: Path) -> Iterator[None]:
    """Around what is made of documents whose parts may not fit together: DocumentError in place of what that raises."""
    try:
        yield
    except UserError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError, RuntimeError) as error:
        reason = (str(error).splitlines() or [""])[0][:LONGEST_REASON]
        raise DocumentError(path, f"its parts do not fit together ({type(error).__name__}: {reason})") from error


def bare_name(text: str) -> str:
    """The name of a file inside a folder. Raises ValueError for a path, and for what is no name."""
    bare = text not in ("", "..") and text == Path(text).name and "\\" not in text  # the sign is Windows' "/"
    if not bare or not text.isprintable() or len(text) > LONGEST_REASON:
        raise ValueError(f"{text[:LONGEST_REASON]!r} is no name of a file")
    return text


def read_content(path: Path) -> bytes | None:
    """The bytes of a file, None where there is none. Raises DocumentError for one that cannot be read."""
    if not path.is_file():
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise DocumentError(path, str(error.strerror)) from error


def checked(path: Path | str, value: object, shape: type[T]) -> T:
    """A value that was read from `path`, if it is of a shape as in `read_json`; DocumentError else."""
    from pydantic import ValidationError

    try:
        _validator(cast(Hashable, shape))(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place, reason = ".".join(map(str, first["loc"]))[:LONGEST_REASON], first["msg"].replace("Input should", "must")
        reason = "must be of another form" if first["type"] == "string_pattern_mismatch" else reason
        text = f"it has no {place}" if first["type"] == "missing" else f"{place}: {reason}" if place else f"it {reason}"
        raise DocumentError(path, text) from error
    return cast(T, value)  # as it is: with keys that the shape does not name


@cache
def _validator(shape: Hashable) -> Callable[..., object]:
    from pydantic import TypeAdapter

    return TypeAdapter(cast(type[object], shape)).validate_python
