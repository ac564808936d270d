"""The content of a file: its text as bytes, unpacked, or the cells of a table that is no text."""

import gzip
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

from forecast.data.reading import workbook
from forecast.data.reading.columnar import FEATHER, KINDS, PARQUET, ColumnarFile, type_name
from forecast.data.reading.raw_columns import TypedTable
from forecast.data.values.findings import Findings
from forecast.errors import UserError
from forecast.text.overrides import install
from forecast.text.terminal import label

GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
_LONGEST_REASON = 200  # characters of what another library says


@dataclass(frozen=True)
class FileContent:
    """What a file held when it was read, in one go: text, or a table. checksum: the MD5 of the file as it is stored."""

    checksum: str
    text: bytes = b""
    table: TypedTable | None = None


def unpacked(path: Path, sheet: str | None, findings: Findings) -> FileContent:
    """The content of a gzip or zip file, a table that is no text, or any other file as it is.

    sheet: of a workbook, None for the only one with data. OSError for a file that cannot be read; UserError for one
    that is damaged or encrypted, an archive of several files, a package that is not installed.
    """
    stored = path.read_bytes()
    checksum = hashlib.md5(stored, usedforsecurity=False).hexdigest()
    kind = next((kind for kind in (GZIP, ZIP, PARQUET, FEATHER) if stored.startswith(kind)), None)
    if kind in KINDS:
        with damaged(path, KINDS[kind]):
            columnar = ColumnarFile(pa.BufferReader(stored), kind)
            (table,) = columnar.tables()
        unread = [f"{label(name)} ({type_name(kind)})" for name, kind in columnar.kinds.items() if name in table.unread]
        if unread:
            findings.say(f"Left out, as they hold neither numbers, text nor times: {', '.join(unread)}.")
        return FileContent(checksum, table=table)
    if kind == GZIP:
        with damaged(path, "compressed with gzip"):
            return FileContent(checksum, gzip.decompress(stored))
    return _from_archive(path, stored, checksum, sheet, findings) if kind == ZIP else FileContent(checksum, stored)


def _from_archive(path: Path, stored: bytes, checksum: str, sheet: str | None, findings: Findings) -> FileContent:
    with damaged(path, "a zip archive or an Excel workbook"), zipfile.ZipFile(io.BytesIO(stored)) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
        if workbook.MEMBER not in names:
            if len(names) != 1:
                some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
                raise UserError(
                    f"{path} is a zip archive of {len(names)} files ({some or 'none'}). Unpack it, and name one file."
                )
            return FileContent(checksum, archive.read(names[0]))
    _check_installed(path)
    with damaged(path, workbook.KIND):
        return FileContent(checksum, table=workbook.sheet_table(io.BytesIO(stored), sheet, findings))


@contextmanager
def damaged(path: Path, kind: str) -> Iterator[None]:
    """UserError for whatever a reader of this kind of file raises for a damaged one, which nobody has listed."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        # zlib puts its own number before the reason
        reason = re.sub(r"^Error -?\d+ while \w+ing data: ", "", str(error)) or "its end is missing"
        raise UserError(
            f"{path} is {kind}, and cannot be read: {label(reason, _LONGEST_REASON)}. Copy it again, or save its "
            "content as CSV, and name that."
        ) from error


def _check_installed(path: Path) -> None:
    """UserError, with the command that installs them, where a package is lacking that reads workbooks."""
    lacking = [package for package in ("openpyxl", "defusedxml") if find_spec(package) is None]
    if lacking:
        raise UserError(
            f"{path} is {workbook.KIND}, and {' and '.join(lacking)}, which reads it, is not installed. Install it: "
            f"{install('xlsx')}, or save the data as CSV."
        )
