"""The text inside a file that is none itself, written once, and never more of it than a disk can bear."""

import gzip
import hashlib
import lzma
import os
import re
import weakref
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile, mkstemp
from typing import IO

import pyarrow as pa

from forecast.data.reading import workbook
from forecast.data.reading.columnar import FEATHER, KINDS, PARQUET, ColumnarFile, type_name
from forecast.data.reading.file_bytes import FileBytes
from forecast.data.values.findings import Findings
from forecast.errors import UserError
from forecast.text.program import install
from forecast.text.terminal import label

GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
LARGEST = 4 << 30  # bytes; a small file can hold far more
_BLOCK = 1 << 20  # bytes held at a time
_LONGEST_REASON = 200  # characters of what another library says
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile, RuntimeError, ValueError)


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
