"""The rows of panels that are text: long, a column a series, and a line a series, its id and then its values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.assembling.ids import (
    KNOWN_IDS,
    check_ids,
    counted_times,
    id_columns,
    joint_ids,
    known_time,
    layout_of,
)
from forecast.data.assembling.rows import PanelRows, finite_values, nanoseconds, time_words
from forecast.data.reading.cells import counted_stamps, read_raw, steps_in, table_of
from forecast.data.reading.column_guess import CellFaults
from forecast.data.reading.csv_text import CsvText, valid_separator
from forecast.data.reading.layout import STEP, STEPS, Layout, columns_named
from forecast.data.reading.numbers import MISSING_SPELLINGS, NumberStyle, number_in, read_numbers
from forecast.data.reading.raw_columns import BLANKS, RawColumns, TypedTable
from forecast.data.reading.table import Choice, Codebook, Table, TableSpec, check_signs
from forecast.data.reading.timestamps import AmbiguousTime, read_timestamps, whole_numbers
from forecast.data.sources import CsvSource
from forecast.data.values.cells import JOINT, IntArray
from forecast.data.values.findings import Findings, quoted
from forecast.data.values.frequency import infer_frequency, stamps_on_grid
from forecast.errors import UserError
from forecast.text.overrides import hydra_value
from forecast.text.terminal import label

VALUE = "value"  # what the column is called of a panel whose columns, or lines, are series
_SAMPLE = 2_000  # rows that tell which columns hold numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class LongColumns:
    """N rows of a long panel.

    ids: of each id column the codes (N,) and their words. times (N,), stepped, time_format, where: as in TargetRows.
    values (N, C): NaN where one is missing.
    """

    ids: list[tuple[IntArray, list[str]]]
    times: IntArray
    stepped: bool
    time_format: str | None
    time_zone: str | None
    values: npt.NDArray[np.float64]
    columns: tuple[str, ...]
    where: Callable[[int], str]


def opened(path: Path, source: CsvSource) -> tuple[CsvText, Findings, list[str]]:
    """The text of a file and the names in its first line, as they stand there."""
    findings = Findings(str(path), strict=True)
    text = CsvText(path, valid_separator(source.separator)).verified(findings, source.sheet)
    text.check_types(columns_named(vars(source)))
    names = next((cells for _, cells in text.records()), [])
    return text, findings, names


def long_rows(
    path: Path, source: CsvSource, book: Codebook, *, known: bool = False, columns: Choice | None = None
) -> PanelRows:
    """The rows of one series, or of a long panel; UserError for what is wrong in the text.

    known: whether these are series of a training, of which each may have one row. columns: as in `read_panel`.
    """
    text, findings, names = opened(path, source)
    rows = rows_of(text, names, source, book, findings, columns=columns, known=known)
    if rows.id_column is not None:
        check_ids(rows.ids, 0 if known else len(rows), rows.id_column.split(JOINT), str(path))
    return rows


def rows_of(
    text: CsvText,
    names: Sequence[str],
    source: CsvSource,
    book: Codebook,
    findings: Findings,
    *,
    columns: Choice | None = None,
    known: bool = False,
) -> PanelRows:
    """The rows of one series, or of a long panel, in a verified text. names: in its header, as they stand there."""
    path = text.path
    ids = id_columns(source, names, str(path)) if names and source.panel_form else ()
    layout = known_time(layout_of(source), names)
    layout.check()
    header = text.header(layout.time_columns, findings)
    for name in ids:
        if name in layout.time_columns:
            raise UserError(f"{path}: the column '{name}' is in data.id_column and in data.time_column. Name it once.")
    bare = replace(layout, drop=[*layout.drop, *(name for name in ids if name not in layout.drop)])
    spec = TableSpec.of(header, bare, str(path), gaps="mask", codebook=book, columns=columns, known=known)
    check_signs(text, spec, findings)
    places = [header.index(name) for name in ids]
    read = _long_columns(text, spec, places, ids, findings)
    series, names_of_series = joint_ids(read.ids) if ids else (np.zeros(len(read.values), dtype=np.int64), [""])
    return PanelRows(
        series=series,
        times=read.times if layout.time_columns else counted_times(layout, series),
        values=finite_values(read.values, read.where, read.columns),
        ids=names_of_series,
        columns=read.columns,
        stepped=read.stepped or layout.freq == STEPS,
        where=read.where,
        id_column=JOINT.join(ids) if ids else None,
        time_column=_time_name(layout),
        checksum=checksum_of(text),
        time_format=read.time_format,
        time_zone=read.time_zone,
        typed=text.table is not None,
        id_cells=_cells_of(read.ids, ids, series) if source.has_facts else {},
    )


def _cells_of(
    parts: Sequence[tuple[IntArray, Sequence[str]]], ids: Sequence[str], series: IntArray
) -> dict[str, list[str]]:
    """What each id column says of each series, which are numbered as they come."""
    firsts = np.unique(series, return_index=True)[1]
    return {
        name: [words[code] for code in codes[firsts].tolist()] for name, (codes, words) in zip(ids, parts, strict=True)
    }


def _long_columns(
    text: CsvText, spec: TableSpec, places: Sequence[int], ids: Sequence[str], findings: Findings
) -> LongColumns:
    words = [*spec.times, *places, *map(spec.header.index, spec.layout.where or ())]
    raw = read_raw(text, spec, findings, words=words)
    times = steps_in(raw.columns, spec, str(text.path))
    table = table_of(raw, spec if times is None else _untimed(spec), findings)
    taken = slice(None) if table.origin is None else table.origin
    parts = [(raw.columns[place].codes[taken].astype(np.int64) - 1, raw.columns[place].words) for place in places]
    _refuse_nameless(parts, ids, line_of(table))
    return LongColumns(
        ids=parts,
        times=nanoseconds(table.timestamps) if times is None else times[taken],
        stepped=times is not None,
        time_format=table.time_format,
        time_zone=table.time_zone,
        values=table.values,
        columns=table.columns,
        where=line_of(table),
    )


def id_codes(table: TypedTable, name: str) -> tuple[IntArray, list[str]]:
    """Of each row (N,) of typed cells which word an id column has, and the words, as `_long_columns` reads them."""
    column = table.columns[table.names.index(name)].as_words()
    return column.codes.astype(np.int64) - 1, column.words


def wide_rows(path: Path, source: CsvSource) -> PanelRows:
    """The cells of a panel of a column a series, one below the other; UserError as `read_frame`."""
    text, findings, names = opened(path, source)
    twice = next((name for name in names if name.strip() and names.count(name) > 1), None)
    if twice is not None:
        raise UserError(
            f"{path}: line 1: two columns are called {quoted(twice)}, and a panel of columns needs a name for each "
            "series. Give each column another name."
        )
    layout = known_time(layout_of(source), names)
    layout.check()
    header = text.header(layout.time_columns, findings)
    spec = TableSpec.of(header, layout, str(path), gaps="mask")
    check_signs(text, spec, findings)
    raw = read_raw(text, spec, findings, words=[*spec.times, *map(header.index, layout.where or ())])
    times = steps_in(raw.columns, spec, str(text.path))
    table = table_of(raw, spec if times is None else _untimed(spec), findings)
    times = times if times is None or table.origin is None else times[table.origin]
    if times is None and layout.time_columns:
        regular, moved = stamps_on_grid(table.timestamps)
        if moved is not None:
            findings.say(moved.note(len(regular)))
            table = replace(table, timestamps=regular)
    where = line_of(table)
    stamps = nanoseconds(table.timestamps) if times is None else times
    again = pd.Series(stamps).duplicated()
    if layout.duplicates == "error" and layout.resample is None and again.any():
        raise UserError(
            f"{where(int(again.argmax()))}: the time "
            f"{time_words(int(stamps[again.argmax()]), stepped=times is not None)} stands in a line before, and in a "
            "panel of columns each has one line. For a row for each series and time set data.panel=long "
            "data.id_column=NAME, else data.duplicates=mean, sum, first or last."
        )
    series, places = np.nonzero(~np.isnan(table.values.T))
    values = finite_values(table.values, where, table.columns).T[series, places]
    return PanelRows(
        series=series,
        times=stamps[places],
        values=values[:, None],
        ids=list(table.columns),
        columns=(VALUE,),
        stepped=times is not None or layout.freq == STEPS,
        where=lambda row: f"{where(int(places[row]))}",
        id_column="unique_id",
        time_column=_time_name(layout),
        checksum=checksum_of(text),
        time_format=table.time_format,
    )


def checksum_of(text: CsvText) -> str:
    """The MD5 of the bytes that were read."""
    assert text.content is not None
    return text.content.checksum


def line_of(table: Table) -> Callable[[int], str]:
    """The file and the line of a row, for messages."""
    return lambda row: f"{table.text.path}: line {table.line(row)}"


def _untimed(spec: TableSpec) -> TableSpec:
    """The same without the column of the time, which is left out."""
    layout = spec.layout
    drop = [*layout.drop, *layout.time_columns]
    return replace(spec, layout=replace(layout, drop=drop, time_column=None, freq=STEPS))


def _time_name(layout: Layout) -> str:
    return layout.time_column if isinstance(layout.time_column, str) else "step" if layout.freq == STEPS else "date"


def _refuse_nameless(
    parts: Sequence[tuple[IntArray, Sequence[str]]], ids: Sequence[str], where: Callable[[int], str]
) -> None:
    for name, (codes, words) in zip(ids, parts, strict=True):
        if "" in words and (nameless := codes == words.index("")).any():
            raise UserError(
                f"{where(int(nameless.argmax()))}: the id in the column {label(name)} is missing. Fill it in, or drop "
                f"the line, or name another column: data.id_column={hydra_value('NAME')}"
            )


_ID_NAMES = {"", "id", "ids", "name", "series", "v1", *KNOWN_IDS}  # of the first cell of a header that counts
_FEWEST_DATES = 3  # that make a first line one of times
_LINES = 1_000  # read at a time


def line_rows(path: Path, source: CsvSource) -> PanelRows:
    """The values of all lines, one series after the other.

    They are steps, unless data.freq and data.start, or dates in the first line, say when they were. A first line
    without numbers, or that counts them, is a header. UserError for a cell that is no number, and a file without any.
    """
    layout = _layout(source)
    text, findings, names = opened(path, source)
    style = NumberStyle(layout.decimal, layout.thousands, tuple(layout.missing))
    dates = _dates(names[1:]) if source.freq is None and source.start is None else None
    header = dates is not None or _is_header(names, style)
    read, ids, lines, lengths = RawColumns([VALUE]), [], [], []
    records = islice(text.records(), int(header), None)
    while chunk := list(islice(records, _LINES)):
        for line, cells in chunk:
            while len(cells) > 1 and not cells[-1].strip(BLANKS):
                del cells[-1]
            ids.append(cells[0].strip(BLANKS))
            lines.append(line)
            lengths.append(len(cells) - 1)
        read.add([[cell] for _, cells in chunk for cell in cells[1:]])
    _check_lines(ids, lines, str(path))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    (column,) = read.columns()
    numbers = read_numbers(column, style)
    faults = CellFaults(str(path), [VALUE], [], style)
    for kind, rows in numbers.faults.items():
        for row, cell in zip(rows.tolist(), column.cells(rows), strict=True):
            faults.add(kind, 0, lines[_series_of(offsets, row)], cell)
    _check_numbers(path, column.words, numbers.values, numbers.flags)
    faults.report(len(column), findings)

    def where(row: int) -> str:
        series = _series_of(offsets, row)
        return f"{path}: line {lines[series]}, value {row - int(offsets[series]) + 1}"

    counts = np.diff(offsets)
    steps = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    stepped = layout.freq == STEPS and dates is None
    if dates is not None:
        steps = dates[_checked_steps(steps, len(dates), where)]
    elif not stepped:
        stamps = counted_stamps(layout, int(counts.max(initial=0)))
        steps = nanoseconds(stamps)[steps]
    return PanelRows(
        series=np.repeat(np.arange(len(ids)), counts),
        times=steps,
        values=finite_values(numbers.values[:, None], where, [VALUE]),
        ids=ids,
        columns=(VALUE,),
        stepped=stepped,
        where=where,
        id_column=names[0] if header and names[0] in KNOWN_IDS else KNOWN_IDS[0],
        time_column=STEP if stepped else "date",
        checksum=checksum_of(text),
    )


def _layout(source: CsvSource) -> Layout:
    """How the lines are written; UserError for keys of files that have columns."""
    layout = layout_of(source, time_column=None, freq=source.freq or (None if source.start else STEPS))
    for key in ("columns", "drop", "where", "resample", "time_format", "time_zone"):
        if getattr(source, key):
            raise UserError(
                f"data.{key}={getattr(source, key)} chooses among columns, of which a panel of a line a series has "
                f"none. Leave data.{key} out."
            )
    layout.check()
    return replace(layout, duplicates="error")


def _dates(cells: Sequence[str]) -> IntArray | None:
    """The times that the first line has above the values; None where it has none."""
    if len(cells) < _FEWEST_DATES:
        return None
    try:
        if whole_numbers(cells):
            return None
        read = read_timestamps({"": [cell.strip(BLANKS) for cell in cells]}, missing=MISSING_SPELLINGS)
    except AmbiguousTime:
        return None
    whole = not read.faults and infer_frequency(read.stamps) is not None
    return nanoseconds(read.stamps) if whole else None


def _checked_steps(steps: IntArray, most: int, where: Callable[[int], str]) -> IntArray:
    """The places of values below the first line; UserError for one behind its end."""
    if (steps >= most).any():
        row = int((steps >= most).argmax())
        raise UserError(f"{where(row)} stands behind the {most} times in line 1. Write a time above each value.")
    return steps


def _is_header(names: Sequence[str], style: NumberStyle) -> bool:
    """Whether the first line names what the others hold: no number stands in it, or 1, 2, 3 behind a word for id."""
    cells = [cell.strip(BLANKS) for cell in names[1:]]
    numbers = [number_in(cell, style.decimal, style.thousands) for cell in cells if cell]
    if all(number is None for number in numbers):
        return True
    counts = numbers in (list(range(len(cells))), list(range(1, len(cells) + 1)))
    return counts and names[0].strip(BLANKS).lower() in _ID_NAMES


def _series_of(offsets: IntArray, row: int) -> int:
    return int(np.searchsorted(offsets, row, side="right")) - 1


def _check_lines(ids: list[str], lines: list[int], path: str) -> None:
    """UserError for a file without lines, an id without letters, and one that stands twice."""
    if not ids:
        raise UserError(f"{path} holds no series. Write a line for each: its id, then its values.")
    first: dict[str, int] = {}
    for name, line in zip(ids, lines, strict=True):
        if not name:
            raise UserError(f"{path}: line {line} has no id. Write one in its first cell.")
        if first.setdefault(name, line) != line:
            raise UserError(
                f"{path}: line {line}: the series {quoted(name)} stands already in line {first[name]}. Give each line "
                "an id of its own."
            )
    check_ids(ids, 0, ["first cell"], path)


def _check_numbers(path: Path, words: list[str], values: np.ndarray, flags: bool) -> None:
    """UserError where this is no panel of a line a series."""
    known = np.isfinite(values)
    if flags or known.sum() * 2 <= np.count_nonzero(~np.isnan(values)):
        some = ", ".join(map(quoted, [word for word in words if word][:3])) or "nothing"
        raise UserError(
            f"{path}: the cells behind the id of each line should be numbers, and most are none: {some}. Set "
            "data.panel=long data.id_column=NAME for a row for each series and time, or data.panel=columns for a "
            "column a series."
        )
