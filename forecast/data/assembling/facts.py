"""Facts of the series of a panel: columns that do not change within a series, ids, or columns of another file.

Such a file has a row for each series, or for each shop.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from forecast.data.assembling.rows import PanelRows, SortedRows
from forecast.data.panel import Facts
from forecast.data.reading.cells import read_columns
from forecast.data.reading.column_guess import column_kind
from forecast.data.reading.csv_text import CsvText, valid_separator
from forecast.data.reading.layout import STEPS, Layout
from forecast.data.reading.numbers import read_numbers
from forecast.data.reading.raw_columns import RawColumn
from forecast.data.reading.table import Codebook, TableSpec
from forecast.data.sources import CsvSource
from forecast.data.values.cells import FloatArray
from forecast.data.values.findings import Findings, quoted
from forecast.errors import UserError, closest
from forecast.text.terminal import listed


def facts_of(source: CsvSource, rows: PanelRows, ordered: SortedRows, book: Codebook) -> tuple[Facts, SortedRows]:
    """The facts of all series of a panel, and its rows without the columns that they come from.

    rows: of all files, as they were read; ordered: the same, sorted. UserError for a column that changes within a
    series, for a series without a fact, and for a name that is in neither file.
    """
    keys = list(source.static_on or ())
    own = [name for name in dict.fromkeys([*source.static, *keys]) if name in ordered.columns]
    per_series = {name: _constant(ordered, name, book) for name in own}
    for name in {*source.static, *keys} & rows.id_cells.keys():
        per_series[name] = _of_ids(name, rows.id_cells[name], book)
    names, file = list(source.static), None
    if source.static_path is not None:
        file = FactFile.read(Path(source.static_path), source)
        joint = [_words(ordered, key, per_series, rows, book) for key in keys]
        names = names or [name for name in file.names if name not in file.keys]
        places = file.places([tuple(cells) for cells in zip(*joint, strict=True)], ordered.ids, keys)
        per_series |= {
            name: file.values(name, book)[places] for name in names if name not in per_series and name in file.names
        }
    for name in names:
        if name not in per_series:
            others = [*ordered.columns, *rows.id_cells, *(file.names if file else ())]
            raise UserError(
                f"{ordered.name}: there is no column '{name}' (data.static) among {listed(others)}."
                f"{closest(name, others)} Name columns as line 1 does."
            )
        if (missing := np.isnan(per_series[name])).any():
            where = file.path if file and name not in own and name not in rows.id_cells else ordered.name
            raise UserError(
                f"{where}: the series {quoted(ordered.ids[int(missing.argmax())])} has no value of the fact '{name}' "
                f"(data.static), as have {int(missing.sum()) - 1} more. Fill it in, or leave the fact out."
            )
    values = np.stack([per_series[name] for name in names], axis=1) if names else np.zeros((len(ordered.ids), 0))
    kept = [place for place, name in enumerate(ordered.columns) if name not in own]
    if own:
        columns = tuple(ordered.columns[place] for place in kept)
        ordered = replace(ordered, values=np.ascontiguousarray(ordered.values[:, kept]), columns=columns)
    return Facts(tuple(names), values, book.words(names), tuple(own)), ordered


def _constant(rows: SortedRows, name: str, book: Codebook) -> FloatArray:
    """The value (S,) of a column in each series, NaN where it has none; UserError where it changes."""
    column = rows.values[:, rows.columns.index(name)]
    held = np.flatnonzero(~np.isnan(column))
    owners = np.repeat(np.arange(len(rows.ids)), rows.lengths)
    first = np.full(len(rows.ids), -1)
    first[owners[held][::-1]] = held[::-1]
    values = np.where(first < 0, np.nan, column[first]).astype(np.float64)
    other = held[column[held] != values[owners[held]]]
    if other.size:
        row = int(other[0])
        series, before = int(owners[row]), rows.where(int(first[owners[row]])).rpartition(": ")[2]
        words = book.words([name]).get(name)
        now, then = (words[int(v) - 1] if words else f"{v:g}" for v in (column[row], values[series]))
        raise UserError(
            f"{rows.where(row)}: the fact '{name}' (data.static) of the series {quoted(rows.ids[series])} is {now}, "
            f"and was {then} before ({before}): a fact does not change within a series. Mend the row, or name the "
            "column in data.known or data.past."
        )
    return values


def _of_ids(name: str, cells: Sequence[str], book: Codebook) -> FloatArray:
    """A fact (S,) that is a part of the id: a number where all cells are and nobody says otherwise, else a category."""
    if name not in book.named:
        try:
            numbers = np.array([float(cell) for cell in cells])
        except ValueError:
            numbers = np.array([np.nan])
        if np.isfinite(numbers).all():
            return numbers
    return book.codes(name, cells)


def _words(
    rows: SortedRows, key: str, per_series: dict[str, FloatArray], panel: PanelRows, book: Codebook
) -> list[object]:
    """What a column to join by says of each series."""
    if key in panel.id_cells:
        return [key_of(cell) for cell in panel.id_cells[key]]
    if key not in per_series:
        others = [*rows.columns, *panel.id_cells]
        raise UserError(
            f"{rows.name}: there is no column '{key}' (data.static_on) among {listed(others)}.{closest(key, others)} "
            "Name the columns of the panel first: 'data.static_on={store: STORE}'"
        )
    words = book.words([key]).get(key)
    values = per_series[key].tolist()
    return values if words is None else [key_of(words[int(value) - 1]) if value > 0 else None for value in values]


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
    text: CsvText
    columns: Sequence[RawColumn]
    spec: TableSpec
    keys: tuple[str, ...]

    @classmethod
    def read(cls, path: Path, source: CsvSource) -> "FactFile":
        """The file, written as the panel is. UserError for a column to join by that it lacks."""
        own = {key.name: getattr(source, key.name) for key in fields(Layout)}
        own |= {"time_column": None, "freq": STEPS, "start": None, "columns": None, "drop": (), "where": None}
        own |= {"time_format": None, "time_zone": None, "resample": None, "aggregate": None, "sheet": None}
        findings = Findings(str(path))
        text = CsvText(path, valid_separator(source.separator)).verified(findings, None)
        keys = tuple((source.static_on or {}).values())
        header = text.header((), findings)
        for name in keys:
            if name not in header:
                raise UserError(
                    f"{path}: there is no column '{name}' (data.static_on) among {listed(header)}."
                    f"{closest(name, header)} Name columns as line 1 does."
                )
        spec = TableSpec.of(header, Layout(**own), str(path))
        columns = read_columns(text, spec, words=[header.index(name) for name in keys])
        return cls(path, text, columns, spec, keys)

    @property
    def names(self) -> list[str]:
        """All columns."""
        return list(self.spec.header)

    def _column(self, name: str) -> int:
        return self.names.index(name)

    def places(self, wanted: Sequence[tuple[object, ...]], ids: Sequence[str], columns: Sequence[str]) -> list[int]:
        """The row of the file for each series; wanted: what these have in the columns of the panel.

        UserError for a series without a row, and for two rows of one key.
        """
        every = range(len(self.columns[0]))
        cells = [[key_of(cell) for cell in self.columns[self._column(name)].cells(every)] for name in self.keys]
        rows: dict[tuple[object, ...], int] = {}
        for row, key in enumerate(zip(*cells, strict=True)):
            if key in rows:
                raise UserError(
                    f"{self.path}: line {self.text.line(row)}: {_said(self.keys, key)} stands in line "
                    f"{self.text.line(rows[key])} already. Write one row for each, or name all columns that tell the "
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
        column = self.columns[self._column(name)]
        every = range(len(column))
        kind = column_kind(column, self.spec.style)
        if name in book.named or kind == "text":
            return book.codes(name, column.cells(every))
        values = read_numbers(column, self.spec.style).values
        if (bad := np.isinf(values)).any():
            row = int(bad.argmax())
            raise UserError(
                f"{self.path}: line {self.text.line(row)}, column '{name}': {quoted(column.cells([row])[0])} is no "
                "number. Correct it, or name the column in data.categorical."
            )
        return values


def _said(names: Sequence[str], key: Sequence[object]) -> str:
    words = [f"{value:g}" if isinstance(value, float) else str(value) for value in key]
    return ", ".join(f"{name} {word}" for name, word in zip(names, words, strict=True))
