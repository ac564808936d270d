"""The rows of a panel of one series a line: its id, then its values, shorter lines padded with empty cells."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from forecast.data.assembling.csv_rows import VALUE, checksum_of, opened
from forecast.data.assembling.names import KNOWN_IDS, check_ids, layout_of
from forecast.data.assembling.rows import PanelRows, finite_values, nanoseconds
from forecast.data.reading.cell_faults import CellFaults
from forecast.data.reading.cells import counted_stamps
from forecast.data.reading.layout import STEP, STEPS, Layout
from forecast.data.reading.numbers import MISSING_SPELLINGS, NumberStyle, number_in, read_numbers
from forecast.data.reading.raw_columns import BLANKS, RawColumns
from forecast.data.reading.timestamps import AmbiguousTime, read_timestamps, whole_numbers
from forecast.data.sources import CsvSource
from forecast.data.values.cells import IntArray
from forecast.data.values.findings import quoted
from forecast.data.values.frequency import infer_frequency
from forecast.errors import UserError

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
