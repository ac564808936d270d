"""The bytes of a file as they are when it is first looked at, and the text inside one that is none itself.

However long a file is read and whatever is written to it, its bytes stay those. What is compressed in it is written
once, and never more of it than a disk can bear.
"""

import codecs
import gzip
import hashlib
import io
import lzma
import os
import re
import shlex
import weakref
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile, mkstemp
from typing import IO

import pyarrow as pa
from typing_extensions import Buffer

from forecast.data.reading import workbook
from forecast.data.reading.columnar import FEATHER, KINDS, PARQUET, ColumnarFile, type_name
from forecast.data.reading.raw_columns import TypedTable
from forecast.data.values.findings import Findings
from forecast.errors import UserError
from forecast.text.overrides import install
from forecast.text.terminal import label

GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
LARGEST = 4 << 30  # bytes; a small file can hold far more
_LONGEST_REASON = 200  # characters of what another library says
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile, RuntimeError, ValueError)
_BLOCK = 1 << 20  # bytes of a file held at a time
LONGEST_LINE = 64 * _BLOCK  # of a table; a line is held whole


@dataclass(frozen=True)
class FileBytes:
    """How many bytes a file held, their MD5, their lines (line ends of any kind, and one), whether a line end is last.

    nul_line: the line of the first NUL byte, None without one. utf8: whether they are UTF-8 text. packed: the file out
    of which these bytes were unpacked; table: what they are where they are no text, whose lines are then not counted.
    endless: whether a line is longer than LONGEST_LINE.
    """

    path: Path
    size: int
    md5: str
    lines: int
    ended: bool
    nul_line: int | None
    utf8: bool = True
    packed: "FileBytes | None" = None
    endless: bool = False
    table: TypedTable | None = None

    @classmethod
    def of(cls, path: Path, *, packed: "FileBytes | None" = None) -> "FileBytes":
        """Of the file as it is now; OSError when it cannot be read."""
        md5, size, feeds, returns, nul_line, last = hashlib.md5(usedforsecurity=False), 0, 0, 0, None, b""
        unbroken, endless = 0, False
        decoder, utf8 = codecs.getincrementaldecoder("utf-8")(), True
        with open(path, "rb", opener=without_waiting) as file:
            while block := file.read(_BLOCK):
                md5.update(block)
                utf8 = utf8 and _decodes(decoder, block)
                if nul_line is None and (nul := block.find(b"\0")) >= 0:
                    nul_line = 1 + feeds + block.count(b"\n", 0, nul)
                feeds, returns = feeds + block.count(b"\n"), returns + block.count(b"\r")
                size, last = size + len(block), block[-1:]
                unbroken = 0 if b"\n" in block or b"\r" in block else unbroken + len(block)
                endless = endless or unbroken > LONGEST_LINE
        utf8 = utf8 and _decodes(decoder, b"", final=True)
        lines, ended = 1 + feeds + returns, last in b"\r\n"
        return cls(path, size, md5.hexdigest(), lines, ended, nul_line, utf8, packed, endless)

    @property
    def checksum(self) -> str:
        """The MD5 of the file that a user knows."""
        return (self.packed or self).md5

    def open(self) -> io.BufferedReader:
        """These very bytes; reading them raises UserError when the file does not hold them any more."""
        return io.BufferedReader(_Unchanged(self), _BLOCK)

    def count(self, *letters: bytes) -> list[int]:
        """How often each letter, a byte, stands in them."""
        counts = [0] * len(letters)
        with self.open() as file:
            while block := file.read(_BLOCK):
                counts = [count + block.count(letter) for count, letter in zip(counts, letters, strict=True)]
        return counts

    def changed(self) -> UserError:
        """What to say when the file holds something else by now."""
        return UserError(
            f"{self.path} was changed while it was read. Run this again when nothing writes to it, or on a copy: "
            f"cp {shlex.quote(str(self.path))} {shlex.quote(f'{self.path}.copy.csv')}"
        )


def without_waiting(path: str, flags: int) -> int:
    """Opens a file whose reading never waits: /proc/kmsg and others look like files, and wait for what may come."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _decodes(decoder: codecs.IncrementalDecoder, block: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError:
        return False
    return True


class _Unchanged(io.RawIOBase):
    """Reads the bytes of a FileBytes, and what was appended since not."""

    def __init__(self, expected: FileBytes) -> None:
        self._file = open(expected.path, "rb", buffering=0, opener=without_waiting)  # noqa: SIM115 - closed in close
        self._expected, self._left, self._md5 = expected, expected.size, hashlib.md5(usedforsecurity=False)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        if not self._left:
            return 0
        place = memoryview(buffer)[: self._left]
        count = self._file.readinto(place) or 0
        self._md5.update(place[:count])
        self._left -= count
        if not count or (not self._left and not self._is_whole()):
            raise self._expected.changed()
        return count

    def _is_whole(self) -> bool:
        """Whether these were the bytes, and their last line has not grown since."""
        grown = os.fstat(self._file.fileno()).st_size > self._expected.size
        return self._md5.hexdigest() == self._expected.md5 and (self._expected.ended or not grown)

    def close(self) -> None:
        self._file.close()
        super().close()


def unpacked(path: Path, first_bytes: bytes, sheet: str | None, findings: Findings) -> FileBytes:
    """The content of a gzip or zip file, a table that is no text, or any other file as it is.

    Its checksum stays that of the file. sheet: of a workbook, None for the only one with data. UserError for a file
    that is damaged or encrypted, an archive of several files, more than `LARGEST` bytes, a package that is not
    installed; SeveralSheets.
    """
    known = next((known for known in (GZIP, ZIP, PARQUET, FEATHER) if first_bytes.startswith(known)), None)
    if known in KINDS:
        stored = path.read_bytes()
        with ThreadPoolExecutor(1) as beside, damaged(path, KINDS[known]):
            md5 = beside.submit(hashlib.md5, stored, usedforsecurity=False)
            columnar = ColumnarFile(pa.BufferReader(stored), known)
            (table,) = columnar.tables(largest=LARGEST)
        unread = [f"{label(name)} ({type_name(kind)})" for name, kind in columnar.kinds.items() if name in table.unread]
        if unread:
            findings.say(f"Left out, as they hold neither numbers, text nor times: {', '.join(unread)}.")
        return FileBytes(path, len(stored), md5.result().hexdigest(), 0, True, None, table=table)
    packed = FileBytes.of(path)
    if known == GZIP:
        with _unpacking(packed, "compressed with gzip"), packed.open() as file, gzip.GzipFile(fileobj=file) as content:
            return _written(_blocks(content), packed)
    return _from_archive(packed, sheet, findings) if known == ZIP else packed


def _from_archive(packed: FileBytes, sheet: str | None, findings: Findings) -> FileBytes:
    with TemporaryFile() as file, _unpacking(packed, "a zip archive or an Excel workbook"):
        with packed.open() as content:
            file.writelines(_blocks(content))
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
            if workbook.MEMBER not in names:
                if len(names) != 1:
                    some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
                    raise UserError(
                        f"{packed.path} is a zip archive of {len(names)} files ({some or 'none'}). Unpack it, and name "
                        "one file."
                    )
                with archive.open(names[0]) as content:
                    return _written(_blocks(content), packed)
        _check_installed(packed.path)
        with damaged(packed.path, workbook.KIND):
            return replace(packed, nul_line=None, table=workbook.sheet_table(file, sheet, findings))


@contextmanager
def _unpacking(packed: FileBytes, kind: str) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except _DAMAGED as error:
        # zlib puts its own number before the reason
        reason = re.sub(r"^Error -?\d+ while \w+ing data: ", "", str(error)) or "its end is missing"
        raise UserError(
            f"{packed.path} is {kind}, and cannot be unpacked: {reason}. Copy it again, or save its content as CSV, "
            "and name that."
        ) from error


@contextmanager
def damaged(path: Path, kind: str) -> Iterator[None]:
    """UserError for whatever a reader of this kind of file raises for a damaged one, which nobody has listed."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = label(f"{type(error).__name__}: {error}", _LONGEST_REASON)
        raise UserError(
            f"{path} is {kind}, and cannot be read: {reason}. Copy it again, or save its content as CSV, and name that."
        ) from error


def _check_installed(path: Path) -> None:
    """UserError, with the command that installs them, where a package is lacking that reads workbooks."""
    lacking = [package for package in ("openpyxl", "defusedxml") if find_spec(package) is None]
    if lacking:
        raise UserError(
            f"{path} is {workbook.KIND}, and {' and '.join(lacking)}, which reads it, is not installed. Install it: "
            f"{install('xlsx')}, or save the data as CSV."
        )


def _blocks(content: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    while block := content.read(_BLOCK):
        yield block


def _written(blocks: Iterable[bytes], packed: FileBytes) -> FileBytes:
    """The text as a file that is there as long as what is returned."""
    number, name = mkstemp(prefix="forecast-", suffix=".csv")
    os.close(number)
    path = Path(name)
    try:
        with path.open("wb") as file:
            for block in blocks:
                if file.tell() + len(block) > LARGEST:
                    raise UserError(
                        f"{packed.path} holds more than {LARGEST >> 30} GiB of text. Unpack it yourself if that is "
                        "meant, and name the CSV file."
                    )
                file.write(block)
        written = FileBytes.of(path, packed=packed)
    except BaseException:
        path.unlink()
        raise
    weakref.finalize(written, path.unlink, missing_ok=True)
    return written
