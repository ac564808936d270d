"""Small documents as they lie in a folder that may come from anywhere: JSON, YAML and NumPy archives.

All that this program reads of this kind is read here, within bounds of size, depth and type. A document is data: it
names no place outside its folder (`bare_name`), and gives no override but those of an allow list (a key type of
`Literal`).
"""

import math
import tokenize
import zipfile
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple, TypeVar, cast

import annotated_types

from forecast.errors import UserError

T = TypeVar("T")
Arrays = dict[str, Any]  # of an archive, by their names: NumPy's, for whose import `--help` does not wait
Count = Annotated[int, annotated_types.Ge(0)]
Positive = Annotated[int, annotated_types.Ge(1)]
NotNegative = Annotated[float, annotated_types.Ge(0)]

DEEPEST = 50  # levels of a document; ours have seven
LARGEST = 2**63  # whole numbers are smaller, as in an array
FARTHEST = 1e100  # numbers are nearer to 0: their squares are numbers too
MOST_ARRAYS = 100  # of an archive
LONGEST_NAME = 200  # characters of a file's name, and of what a message quotes
# What reading an archive of any origin can raise.
ODD = (
    *(OSError, ValueError, RuntimeError, EOFError, MemoryError, RecursionError),
    *(SyntaxError, tokenize.TokenError, zipfile.BadZipFile),
)


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


def read_json(path: Path, shape: type[T], *, most: float = 50) -> T | None:
    """The document, None where there is no such file.

    shape: its type, of TypedDict, dict, list, Literal and plain values, exactly as they are: no text is taken for a
    number. Keys that a TypedDict does not have may be there. most: MB. Raises DocumentError for any other document.
    """
    content = read_content(path, most=most)
    return None if content is None else parse_json(path, content, shape)


def parse_json(path: Path | str, content: bytes, shape: type[T]) -> T:
    """As `read_json`, of the content of a file, or of a line of it. path: for the message."""
    from pydantic_core import from_json  # 0.1 seconds, which `--help` does not wait for

    try:
        value = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise DocumentError(path, f"it is no JSON ({error})") from error
    return checked(path, value, shape)


def read_yaml(path: Path, shape: type[T], *, most: float = 1) -> T | None:
    """As `read_json`; numbers may be infinite. Without aliases, of which a few lines could be written out for hours."""
    import yaml

    content = read_content(path, most=most)
    if content is None:
        return None
    try:
        value = _plain_loader()(content)
    except (yaml.YAMLError, ValueError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise DocumentError(path, f"it is no plain YAML ({problem or type(error).__name__}{where})") from error
    return checked(path, value, shape, finite=False)


@cache
def _plain_loader() -> Callable[[bytes], object]:
    import yaml

    class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
        """Refuses, as it goes along, what is deep and what stands for something else."""

        depth = 0

        def compose_node(self, parent: object, index: object) -> object:
            event, self.depth = self.peek_event(), self.depth + 1
            if isinstance(event, yaml.AliasEvent) or self.depth > DEEPEST:
                reason = "an alias" if self.depth <= DEEPEST else "it is nested too deeply"
                raise yaml.composer.ComposerError(None, None, reason, event.start_mark)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return lambda content: PlainLoader(content).get_single_data()


def read_arrays(path: Path, arrays: Mapping[str, Array], *, most: float, rest: Array | None = None) -> Arrays | None:
    """Those of the arrays that an uncompressed archive has (.npz); None where there is no such file.

    rest: of all others; None: they are not read.

    Names, sizes, types and axes are checked in its directory and in the heads of its files before any is read. most:
    MB. Raises DocumentError for another archive, and for one without an array that is not optional.
    """
    import numpy as np

    if not _is_file(path):
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            members = _directory(path, archive, most)
            lacking = next((name for name, array in arrays.items() if not array.optional and name not in members), None)
            if lacking is not None:
                raise DocumentError(path, f"it has no array {lacking}")
            read = {}
            for name in members:
                array = arrays.get(name, rest)
                if array is None:
                    continue
                with archive.open(members[name]) as file:
                    _check_head(path, file, name, array, members[name].file_size)
                with archive.open(members[name]) as file:
                    read[name] = np.lib.format.read_array(file, allow_pickle=False)
    except DocumentError:
        raise
    except ODD as error:
        raise DocumentError(path, f"it is no archive of arrays, or is cut off ({type(error).__name__})") from error
    return read


@contextmanager
def fitting(path: Path) -> Iterator[None]:
    """Around what is made of documents whose parts may not fit together: DocumentError in place of what that raises."""
    try:
        yield
    except UserError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError, RuntimeError) as error:
        reason = (str(error).splitlines() or [""])[0][:LONGEST_NAME]
        raise DocumentError(path, f"its parts do not fit together ({type(error).__name__}: {reason})") from error


def bare_name(text: str) -> str:
    """The name of a file inside a folder. Raises ValueError for a path, and for what is no name."""
    bare = text not in ("", "..") and text == Path(text).name and "\\" not in text  # the sign is Windows' "/"
    if not bare or not text.isprintable() or len(text) > LONGEST_NAME:
        raise ValueError(f"{text[:LONGEST_NAME]!r} is no name of a file")
    return text


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no name that a file can have
        return False


def read_content(path: Path, *, most: float) -> bytes | None:
    """The bytes of a file of so many MB at most; None where there is none. Raises DocumentError for a larger one."""
    if not _is_file(path):
        return None
    try:
        if (size := path.stat().st_size / 1e6) > most:
            raise DocumentError(path, f"it has {size:.0f} MB, and none of its kind more than {most:g}")
        return path.read_bytes()
    except OSError as error:
        raise DocumentError(path, str(error.strerror)) from error


def checked(path: Path | str, value: object, shape: type[T], *, finite: bool = True) -> T:
    """A value that was read from `path`, if it is of a shape as in `read_json`; DocumentError else."""
    from pydantic import ValidationError

    _check_values(path, value, finite=finite)
    try:
        _validator(cast(Hashable, shape))(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place, reason = ".".join(map(str, first["loc"]))[:LONGEST_NAME], first["msg"].replace("Input should", "must")
        reason = "must be of another form" if first["type"] == "string_pattern_mismatch" else reason
        text = f"it has no {place}" if first["type"] == "missing" else f"{place}: {reason}" if place else f"it {reason}"
        raise DocumentError(path, text) from error
    return cast(T, value)  # as it is: with keys that the shape does not name


@cache
def _validator(shape: Hashable) -> Callable[..., object]:
    from pydantic import TypeAdapter

    return TypeAdapter(cast(type[object], shape)).validate_python


def _check_values(path: Path | str, value: object, *, finite: bool) -> None:
    """Raises DocumentError for values that JSON does not have, or that no document of ours has."""
    level: list[object] = [value]
    for _ in range(DEEPEST):
        below: list[object] = []
        for part in level:
            if isinstance(part, dict):
                below += [*part.keys(), *part.values()]
            elif isinstance(part, list):
                below += part
            elif (why := _odd(part, finite=finite)) is not None:
                raise DocumentError(path, why)
        level = below
        if not level:
            return
    raise DocumentError(path, "it is nested too deeply")


def _odd(value: object, *, finite: bool) -> str | None:
    if isinstance(value, str):
        return "a text in it has a NUL" if "\0" in value else None
    if isinstance(value, int):  # True and False too
        return None if abs(value) < LARGEST else "a whole number in it has more than 64 bits"
    if isinstance(value, float):
        return f"a number in it is {value:g}" if finite and not abs(value) < FARTHEST else None
    return None if value is None else f"it holds a {type(value).__name__}"


def _directory(path: Path, archive: zipfile.ZipFile, most: float) -> dict[str, zipfile.ZipInfo]:
    """The members by the names of their arrays."""
    members = archive.infolist()
    names = [member.filename.removesuffix(".npy") for member in members]
    if len({*names}) < len(names) or len(names) > MOST_ARRAYS:
        raise DocumentError(path, f"it holds more than {MOST_ARRAYS} arrays, or two of one name")
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
            raise DocumentError(path, "it is compressed, which none of its kind is")
    size = sum(member.file_size for member in members)
    if size > 1e6 * most or size > path.stat().st_size:
        raise DocumentError(path, f"it says that it has {size / 1e6:.3g} MB; at most its file's, or {most:g}, are read")
    return dict(zip(names, members, strict=True))


def _check_head(path: Path, file: IO[bytes], name: str, array: Array, size: int) -> None:
    """Raises DocumentError where an array is not as large, or not of the type and the axes, that it should be."""
    from numpy.lib import format as npy

    major, _ = npy.read_magic(file)
    read = {1: npy.read_array_header_1_0, 2: npy.read_array_header_2_0}.get(major)
    if read is None:
        raise DocumentError(path, f"the array {name} has a head of another version")
    shape, _, dtype = read(file)
    if dtype.hasobject or dtype.kind not in array.kinds or not dtype.itemsize or len(shape) != array.ndim:
        raise DocumentError(path, f"the array {name} has another type, or another number of axes, than it should have")
    if min(shape, default=0) < 0 or file.tell() + math.prod(shape) * dtype.itemsize != size:
        raise DocumentError(path, f"the array {name} is not as large as it says")
    # of an array without elements no axis may be longer than in one that has some: a mean over it would be as long
    if math.prod(max(length, 1) for length in shape) * dtype.itemsize > max(size, 1e6):
        raise DocumentError(path, f"the array {name} is empty, and has an axis of any length")
