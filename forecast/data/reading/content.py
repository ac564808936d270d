"""The content of a file: its text as bytes, unpacked, or the cells of a table that is no text."""

import datetime
import gzip
import hashlib
import io
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median_low

import numpy as np
import pandas as pd
import pyarrow as pa

from forecast.data.reading.columnar import KINDS, ColumnarFile
from forecast.data.reading.raw_columns import RawColumn, TypedTable
from forecast.data.values.findings import Findings
from forecast.errors import UserError, closest, readable
from forecast.text.terminal import label, listed

GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"
_KINDS = KINDS | {GZIP: "compressed with gzip", ZIP: "a zip archive or an Excel workbook"}
_SAMPLE = 100  # rows of a sheet that tell where its table begins


def unpacked(path: Path, sheet: str | None, findings: Findings) -> tuple[str, bytes, TypedTable | None]:
    """The MD5 of a file as it is stored, and its text, unpacked, or the table that it is.

    sheet: of a workbook, None for the only one with cells. UserError for a file that cannot be read or is damaged, an
    archive of several files, and a workbook where openpyxl is not installed.
    """
    with readable(path):
        stored = path.read_bytes()
    text, table = b"", None
    kind = next((kind for kind in _KINDS if stored.startswith(kind)), b"")
    with damaged(path, _KINDS.get(kind, "")):
        if kind in KINDS:
            (table,) = ColumnarFile(pa.BufferReader(stored), kind).tables()
        elif kind == GZIP:
            text = gzip.decompress(stored)
        elif kind == ZIP:
            with zipfile.ZipFile(io.BytesIO(stored)) as archive:
                names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MAC")]
                if "xl/workbook.xml" in names:
                    table = _sheet(stored, sheet, findings)
                elif len(names) == 1:
                    text = archive.read(names[0])
                else:
                    raise UserError(f"{path} is a zip archive of {len(names)} files. Unpack it, and name one file.")
        else:
            text = stored
    return hashlib.md5(stored, usedforsecurity=False).hexdigest(), text, table


@contextmanager
def damaged(path: Path, kind: str) -> Iterator[None]:
    """UserError for whatever a reader of this kind of file raises for a damaged one, which nobody has listed."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = label(str(error)).rstrip(".") or "its end is missing"
        raise UserError(
            f"{path} is {kind}, and cannot be read: {reason}. Copy it again, or save its content as CSV, and name that."
        ) from error


def _sheet(stored: bytes, name: str | None, findings: Findings) -> TypedTable:
    """The cells of a sheet of a workbook, by its name, or of the only one with cells; row 7 is line 7 in messages.

    Of a formula its last value is taken.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl tells of styles and extensions that it leaves out
        sheets = pd.read_excel(io.BytesIO(stored), None, header=None, dtype=object, na_filter=False, engine="openpyxl")
    filled = [title for title, sheet in sheets.items() if len(sheet)]
    chosen = name if name is not None or len(filled) > 1 else [*filled, *sheets][0]
    if chosen not in sheets:
        raise UserError(
            f"{findings.path} holds the sheets {listed(filled)}.{closest(str(name), filled)} Set data.sheet=NAME."
        )
    cells = sheets[chosen]
    place = header_place(cells.head(_SAMPLE).to_numpy().tolist())
    header = [_text(name) for name in cells.iloc[place]] if len(cells) else []
    columns = [_column(name, cells.iloc[place + 1 :, n]) for n, name in enumerate(header)]
    lines = range(place + 2, len(cells) + 1)
    return TypedTable("an Excel workbook", columns, lines, place + 1).without_blank_rows()


def _column(name: str, cells: "pd.Series[str]") -> RawColumn:
    """The column of a sheet: its numbers, and all else as words."""
    exact = cells.map(lambda cell: isinstance(cell, int | float) and abs(cell) < 1 << 53)
    codes, words = pd.factorize(cells.map(_text, na_action="ignore").mask(exact))  # NaN is an error, as #N/A
    return RawColumn.of_words(name, codes, words.tolist(), cells.where(exact).astype(np.float64).to_numpy())


def _text(cell: object) -> str:
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return str(cell.date())  # a time may stand beside
    return str(cell)


def header_place(rows: Sequence[Sequence[object]]) -> int:
    """The first row that reaches as far as most do: a title above a table stands in its first cells."""
    extents = list(map(_extent, rows))
    usual = median_low([extent for extent in extents[len(rows) // 2 :] if extent] or [0])
    return next((place for place, extent in enumerate(extents) if extent >= usual > 0), 0)


def _extent(row: Sequence[object]) -> int:
    """The place of the last cell that holds something, from 1."""
    return max((place for place, cell in enumerate(row, start=1) if cell != ""), default=0)
