"""A file with a row of facts for each series, or for each shop, that is joined to a panel."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from forecast.data.reading.cells import RawFile, read_raw
from forecast.data.reading.codebook import Codebook
from forecast.data.reading.column_guess import column_kind
from forecast.data.reading.csv_text import CsvText, valid_separator
from forecast.data.reading.layout import STEPS, Layout
from forecast.data.reading.numbers import read_numbers
from forecast.data.reading.table import TableSpec
from forecast.data.sources import CsvSource
from forecast.data.values.cells import FloatArray
from forecast.data.values.findings import Findings, quoted
from forecast.errors import UserError, closest
from forecast.text.terminal import listed


def key_of(cell: str) -> object:
    """What a cell says to one who joins: 2, 2.0 and 02 are the same."""
    try:
        return float(cell)
    except ValueError:
        return cell


@dataclass(frozen=True, eq=False)
class FactFile:
    """The cells of the file; keys: its columns by which it is joined, in the order of data.static_on."""

    path: Path
    raw: RawFile
    spec: TableSpec
    keys: tuple[str, ...]

    @classmethod
    def read(cls, path: Path, source: CsvSource) -> "FactFile":
        """The file, written as the panel is. UserError for a column to join by that it lacks."""
        own = {key.name: getattr(source, key.name) for key in fields(Layout)}
        own |= {"time_column": None, "freq": STEPS, "start": None, "columns": None, "drop": (), "where": None}
        own |= {"time_format": None, "time_zone": None, "resample": None, "aggregate": None, "sheet": None}
        findings = Findings(str(path), strict=True)
        text = CsvText(path, valid_separator(source.separator)).verified(findings, None)
        keys = tuple((source.static_on or {}).values())
        text.check_types([*keys, *source.static])
        header = text.header((), findings)
        for name in keys:
            if name not in header:
                raise UserError(
                    f"{path}: there is no column '{name}' (data.static_on) among {listed(header)}."
                    f"{closest(name, header)} Name columns as line 1 does."
                )
        spec = TableSpec.of(header, Layout(**own), str(path), gaps="mask")
        raw = read_raw(text, spec, findings, words=[header.index(name) for name in keys])
        return cls(path, raw, spec, keys)

    @property
    def names(self) -> list[str]:
        """All columns."""
        return list(self.raw.header)

    def _column(self, name: str) -> int:
        return self.names.index(name)

    def places(self, wanted: Sequence[tuple[object, ...]], ids: Sequence[str], columns: Sequence[str]) -> list[int]:
        """The row of the file for each series; wanted: what these have in the columns of the panel.

        UserError for a series without a row, and for two rows of one key.
        """
        every = range(len(self.raw.lines))
        cells = [[key_of(cell) for cell in self.raw.columns[self._column(name)].cells(every)] for name in self.keys]
        rows: dict[tuple[object, ...], int] = {}
        for row, key in enumerate(zip(*cells, strict=True)):
            if key in rows:
                raise UserError(
                    f"{self.path}: line {self.raw.lines[row]}: {_said(self.keys, key)} stands in line "
                    f"{self.raw.lines[rows[key]]} already. Write one row for each, or name all columns that tell the "
                    "rows apart in data.static_on."
                )
            rows[key] = row
        lacking = [series for series, key in enumerate(wanted) if key not in rows]
        if lacking:
            raise UserError(
                f"{self.path} has no row for {len(lacking)} of {len(ids)} series, the first is "
                f"{quoted(ids[lacking[0]])} with {_said(columns, wanted[lacking[0]])}: no row has it in the column "
                f"{listed(self.keys)}. Add a row, or leave the series out."
            )
        return [rows[key] for key in wanted]

    def values(self, name: str, book: Codebook) -> FloatArray:
        """A fact (n,) of each row, NaN where it is missing; of words their numbers. UserError for what is neither."""
        column = self.raw.columns[self._column(name)]
        every = range(len(column))
        kind = column_kind(column, self.spec.style)
        if name in book.named or kind == "text":
            return book.codes(name, column.cells(every))
        read = read_numbers(column, self.spec.style)
        for fault, rows in read.faults.items():
            row = int(rows[0])
            raise UserError(
                f"{self.path}: line {self.raw.lines[row]}, column '{name}': {quoted(column.cells([row])[0])} is no "
                f"number ({fault}). Correct it, or name the column in data.categorical."
            )
        return read.values


def _said(names: Sequence[str], key: Sequence[object]) -> str:
    words = [f"{value:g}" if isinstance(value, float) else str(value) for value in key]
    return ", ".join(f"{name} {word}" for name, word in zip(names, words, strict=True))
