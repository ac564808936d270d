"""Documents of this program as they lie in its folders: JSON and NumPy archives, all read at this one place."""

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import annotated_types

from forecast.errors import UserError

T = TypeVar("T")
Document = dict[str, Any]  # JSON that needs no model
Arrays = dict[str, Any]  # of an archive, by their names: NumPy's, for whose import `--help` does not wait
Count = Annotated[int, annotated_types.Ge(0)]

# What reading a damaged archive can raise.
ODD = (OSError, ValueError, RuntimeError, EOFError, zipfile.BadZipFile)


class DocumentError(UserError):
    """A document that cannot be read. reason: why, in the words of whatever read it."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"{path} is damaged or was written by another version: {reason}")
        self.path, self.reason = str(path), reason

    def __reduce__(self) -> tuple[type["DocumentError"], tuple[str, str]]:
        return type(self), (self.path, self.reason)  # another process may raise it


def read_document(path: Path, model: type[T]) -> T | None:
    """The JSON in a file as a model of pydantic's, or as a plain type; None where there is no such file.

    Keys that the model does not have are ignored. Raises DocumentError with the first reason.
    """
    return parse_document(path, path.read_bytes(), model) if path.is_file() else None


def parse_document(path: Path | str, content: bytes | str, model: type[T]) -> T:
    """The JSON of a file, or of a part of it, as in `read_document`. path: for the message."""
    from pydantic_core import from_json  # 0.1 seconds, which `--help` does not wait for

    try:
        value = from_json(content)
    except ValueError as error:
        raise DocumentError(path, str(error)) from error
    return check_document(path, value, model)


def check_document(path: Path | str, value: object, model: type[T]) -> T:
    """A document that was read from `path`, as in `read_document`."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(model).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise DocumentError(path, ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))) from error


def read_arrays(path: Path, needed: Iterable[str] = ()) -> Arrays:
    """The arrays of an archive (.npz). Raises DocumentError for a damaged one, and where one that is needed is not."""
    import numpy as np

    if not path.is_file():
        raise DocumentError(path, "there is no such file")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive)
    except ODD as error:
        raise DocumentError(path, (str(error).splitlines() or [type(error).__name__])[0]) from error
    if lacking := [name for name in needed if name not in arrays]:
        raise DocumentError(path, f"it has no array {lacking[0]}")
    return arrays
