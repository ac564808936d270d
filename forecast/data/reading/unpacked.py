"""The text inside a compressed file, unpacked once, and never more of it than a disk can bear."""

import gzip
import lzma
import os
import re
import weakref
import zipfile
import zlib
from pathlib import Path
from tempfile import TemporaryFile, mkstemp
from typing import IO

from forecast.data.reading.file_bytes import FileBytes
from forecast.errors import UserError

GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
LARGEST = 4 << 30  # bytes; a small file can hold far more
_BLOCK = 1 << 20  # bytes held at a time
_WORKBOOK = "xl/workbook.xml"
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zipfile.BadZipFile, RuntimeError, ValueError)


def unpacked(packed: FileBytes, first_bytes: bytes) -> FileBytes:
    """The content of a gzip or zip file, whose checksum stays that of the file; any other file as it is.

    UserError for one that is damaged or encrypted, an archive of several files, and more than `LARGEST` bytes.
    """
    if not first_bytes.startswith((GZIP, ZIP)):
        return packed
    try:
        with packed.open() as file:
            if first_bytes.startswith(GZIP):
                with gzip.GzipFile(fileobj=file) as content:
                    return _written(content, packed)
            return _from_archive(file, packed)
    except UserError:
        raise
    except _DAMAGED as error:
        reason = (
            re.sub(r"^Error -?\d+ while \w+ing data: ", "", str(error)) or "its end is missing"
        )  # zlib's own number
        what = "compressed with gzip" if first_bytes.startswith(GZIP) else "a zip archive or an Excel workbook"
        raise UserError(
            f"{packed.path} is {what}, and cannot be unpacked: {reason}. Copy it again, or "
            "save its content as CSV, and name that."
        ) from error


def _from_archive(file: IO[bytes], packed: FileBytes) -> FileBytes:
    with TemporaryFile() as seekable:
        while block := file.read(_BLOCK):
            seekable.write(block)
        with zipfile.ZipFile(seekable) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
            if _WORKBOOK in names:
                raise UserError(
                    f"{packed.path} is an Excel workbook, not a CSV file. Save the sheet as CSV, and name it."
                )
            if len(names) != 1:
                some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
                raise UserError(
                    f"{packed.path} is a zip archive of {len(names)} files ({some or 'none'}). Unpack it, and name one "
                    "CSV file."
                )
            with archive.open(names[0]) as content:
                return _written(content, packed)


def _written(content: gzip.GzipFile | IO[bytes], packed: FileBytes) -> FileBytes:
    """The content as a file that is there as long as what is returned."""
    number, name = mkstemp(prefix="forecast-", suffix=".csv")
    os.close(number)
    path = Path(name)
    try:
        with path.open("wb") as file:
            while block := content.read(_BLOCK):
                if file.tell() + len(block) > LARGEST:
                    raise UserError(
                        f"{packed.path} holds more than {LARGEST >> 30} GiB when it is unpacked. Unpack it yourself if "
                        "that is meant, and name the CSV file."
                    )
                file.write(block)
        written = FileBytes.of(path, packed=packed)
    except BaseException:
        path.unlink()
        raise
    weakref.finalize(written, path.unlink, missing_ok=True)
    return written
