"""Sheets of an Excel workbook: their numbers, and all else as words; row 7 of the sheet is line 7 in messages."""

import datetime
import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from statistics import median_low
from typing import IO, Any

import numpy as np
import pandas as pd

from forecast.data.reading.raw_columns import RawColumn, TypedTable
from forecast.data.values.findings import Findings
from forecast.errors import UserError, closest
from forecast.text.terminal import listed

KIND = "an Excel workbook"
MEMBER = "xl/workbook.xml"  # what a zip archive holds that is a workbook
ABOVE = "The names of the columns stand in line {}; what stands above them is left out."
_MOST_ROWS = 1 << 20  # of a sheet, by the format
_SAMPLE = 100  # rows that tell where a table begins
_FEWEST = 3  # rows with a number or a date, in a sheet of data

Row = Sequence[object]
Sheet = Any  # of openpyxl, as it reads one row after the other


def sheet_table(file: IO[bytes], sheet: str | None, findings: Findings) -> TypedTable:
    """The cells of a sheet, by its name, or of the only one that holds data.

    Dates are ISO 8601; of a formula its last value is taken. UserError for no such sheet, for none with data, and
    for several. Whatever openpyxl raises for a damaged file.
    """
    import openpyxl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl tells of styles and extensions that it leaves out
        book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        return _table(_chosen(book.worksheets, sheet, findings), findings)


def _chosen(sheets: Sequence[Sheet], name: str | None, findings: Findings) -> Sheet:
    names = [sheet.title for sheet in sheets]
    if name is not None:
        if name not in names:
            raise UserError(
                f"{findings.path}: there is no sheet '{name}' (data.sheet) among {listed(names)}."
                f"{closest(name, names)} Name one of them."
            )
        return sheets[names.index(name)]
    visible = [sheet for sheet in sheets if sheet.sheet_state == "visible"]
    with_data = [sheet for sheet in visible if _holds_data(sheet)]
    if len(with_data) > 1:
        titles = [sheet.title for sheet in with_data]
        raise UserError(f"{findings.path}: {len(titles)} sheets hold data: {listed(titles)}. Set data.sheet=NAME.")
    if not (with_data or visible):
        raise UserError(f"{findings.path}: no sheet of this workbook can be read. Save the data as CSV, and name that.")
    chosen = (with_data or visible)[0]
    if len(sheets) > 1:
        others = listed(title for title in names if title != chosen.title)
        findings.say(f"Sheet {chosen.title!r} is read, the only one with data; the others: {others}.")
    return chosen


def _rows(sheet: Sheet) -> Iterator[Row]:
    """The cells of all rows, whatever size the sheet says that it has."""
    sheet.reset_dimensions()
    return sheet.iter_rows(max_row=_MOST_ROWS, values_only=True)


def _holds_data(sheet: Sheet) -> bool:
    rows = islice(_rows(sheet), _SAMPLE)
    return sum(any(isinstance(cell, int | float | datetime.date) for cell in row) for row in rows) >= _FEWEST


def _table(sheet: Sheet, findings: Findings) -> TypedTable:
    rows = _rows(sheet)
    sample = list(islice(rows, _SAMPLE))
    place = header_place(sample)
    if any(any(_filled(cell) for cell in row) for row in sample[:place]):
        findings.say(ABOVE.format(place + 1))
    header = [_text(cell) for cell in sample[place]] if sample else []
    names = header[: _extent(header)]
    cells, lines, surplus = [], [], []
    for line, row in enumerate(chain(sample[place + 1 :], rows), start=place + 2):
        if extent := _extent(row):
            cells.append([_cell(value) for value in row[: len(names)]])
            lines.append(line)
            surplus += [(line, extent)] if extent > len(names) else []
    columns = [_column(name, [row[n] if n < len(row) else "" for row in cells]) for n, name in enumerate(names)]
    return TypedTable(KIND, columns, lines, place + 1, surplus).without_blank_rows()


def _column(name: str, cells: Sequence[str | float]) -> RawColumn:
    numbers = np.array([np.nan if isinstance(cell, str) else cell for cell in cells])
    codes, words = pd.factorize(np.array([cell if isinstance(cell, str) else None for cell in cells], dtype=object))
    return RawColumn.of_words(name, codes, words.tolist(), numbers)


def header_place(rows: Sequence[Row]) -> int:
    """The first row that reaches as far as most do: a title above a table stands in its first cells."""
    extents = [_extent(row) for row in rows]
    usual = median_low([extent for extent in extents[len(rows) // 2 :] if extent] or [0])
    return next((place for place, extent in enumerate(extents) if extent >= usual > 0), 0)


def _extent(row: Row) -> int:
    """The place after the last cell that holds something."""
    return next((place for place in range(len(row), 0, -1) if _filled(row[place - 1])), 0)


def _filled(cell: object) -> bool:
    return cell is not None and cell != ""


def _cell(value: object) -> str | float:
    exact = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1 << 53
    return float(value) if exact else _text(value)  # type: ignore[arg-type]


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return str(value.date() if value.time() == datetime.time() else value)
    return re.sub(r"[\r\n\0]+", " ", str(value)).encode(errors="replace").decode()
