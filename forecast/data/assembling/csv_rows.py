"""The rows of panels that are text: long, and a column a series; a plain long file is read by pandas, part by part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.assembling.names import (
    check_ids,
    counted_times,
    id_columns,
    joint_ids,
    known_time,
    layout_of,
)
from forecast.data.assembling.rows import PanelRows, finite_values, nanoseconds, time_words
from forecast.data.reading.cells import LEFT_OUT, RawFile, read_raw, say_left_out, table_of
from forecast.data.reading.codebook import Codebook
from forecast.data.reading.column_guess import column_kind
from forecast.data.reading.csv_columns import Words, check_signs, plain_chunks, quick_table, with_codes
from forecast.data.reading.csv_text import CsvText, valid_separator
from forecast.data.reading.layout import STEPS, Layout, columns_named
from forecast.data.reading.numbers import MISSING_SPELLINGS
from forecast.data.reading.raw_columns import RawColumns, TypedTable
from forecast.data.reading.table import Table, TableSpec
from forecast.data.reading.timestamps import TimeReading, read_timestamps, whole_numbers
from forecast.data.sources import CsvSource
from forecast.data.values.cells import JOINT, IntArray
from forecast.data.values.findings import Findings, quoted
from forecast.data.values.frequency import stamps_on_grid
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
    values: npt.NDArray[np.float64]
    columns: tuple[str, ...]
    where: Callable[[int], str]


def quick_long(text: CsvText, spec: TableSpec, ids: Sequence[int], findings: Findings) -> LongColumns | None:
    """The rows of a plain file; None for any in which pandas might read a cell otherwise than `read_cells` does.

    ids: the places of the id columns in the header.
    """
    if text.table is not None or not spec.is_plain or spec.style.decimal == text.separator or text.quoting:
        return None
    try:
        return _quick_long(text, spec, ids, findings)
    except UserError:
        return None  # said by the slower reader, which knows the line
    except ValueError:
        return None


def _quick_long(text: CsvText, spec: TableSpec, ids: Sequence[int], findings: Findings) -> LongColumns | None:
    (time,) = spec.times
    words = _places_of_words(text, spec)
    coded = {*spec.named(), *(place for place in words if place in spec.perhaps())}
    words = [place for place in words if place not in coded]
    places = [place for place in spec.candidates if place not in words and place not in coded]
    columns = {place: Words(spec.header[place], plain=True) for place in (time, *ids, *coded)}
    others = RawColumns([spec.header[place] for place in words])
    values = []
    # a series may be called NA: spellings of nothing are those of numbers alone
    for chunk in plain_chunks(text, spec, dict.fromkeys(places, np.float64), places):
        for place, column in columns.items():
            column.add(chunk[place])
        if words:
            others.add(chunk[words].to_numpy(dtype=object).tolist())
        numbers = chunk[places].to_numpy(dtype=np.float64)
        if np.isinf(numbers).any():
            return None
        values.append(numbers)
    kinds = [column_kind(column, spec.style) for column in others.columns()]
    whole = np.concatenate(values)
    if coded:
        whole, places = with_codes(whole, places, {place: columns[place] for place in coded}, spec)
        whole = np.ascontiguousarray(whole)
    if not places or set(kinds) - {"text"} or (spec.numbers is None and np.isnan(whole).all(axis=0).any()):
        return None
    written = columns[time].words
    read = None if whole_numbers(written) else _times(written, spec)
    if read is not None and read.faults:
        return None
    _say(spec, words, read, findings)
    steps = (
        np.array([int(float(word)) for word in written], dtype=np.int64) if read is None else nanoseconds(read.stamps)
    )
    return LongColumns(
        ids=[(columns[place].places.astype(np.int64), columns[place].words) for place in ids],
        times=steps[columns[time].places],
        stepped=read is None,
        time_format=None if read is None else read.settings.get("data.time_format"),
        values=whole,
        columns=tuple(spec.header[place] for place in places),
        where=lambda row: f"{text.path}: line {text.records_of([row])[row][0]}",
    )


def _times(written: list[str], spec: TableSpec) -> TimeReading:
    return read_timestamps({spec.layout.time_columns[0]: written}, missing=MISSING_SPELLINGS)


def _places_of_words(text: CsvText, spec: TableSpec) -> list[int]:
    """The columns that are read only to see that they hold words, going by the first rows."""
    candidates = spec.candidates if spec.numbers is None else spec.perhaps()
    if not candidates:
        return []
    sample = RawColumns(spec.header)
    sample.add([cells for _, cells in islice(text.rows(), _SAMPLE)])
    columns = sample.columns()
    return [place for place in candidates if column_kind(columns[place], spec.style) == "text"]


def _say(spec: TableSpec, words: Sequence[int], read: TimeReading | None, findings: Findings) -> None:
    """What `read_cells` says of such a file."""
    if words:
        out = ", ".join(f"{label(spec.header[place])} ({LEFT_OUT['text']})" for place in words)
        findings.say(f"Left out, as they hold no numbers of the series: {out}.")
    if read is not None and read.how:
        findings.say(f"The time is read as {read.how}.")
    for note in read.notes if read is not None else ():
        findings.say(note)


def opened(path: Path, source: CsvSource) -> tuple[CsvText, Findings, list[str]]:
    """The text of a file and the names in its first line, as they stand there."""
    findings = Findings(str(path), strict=True)
    text = CsvText(path, valid_separator(source.separator)).verified(findings, source.sheet)
    text.check_types(columns_named(vars(source)))
    names = next((cells for _, cells in text.records()), [])
    return text, findings, names


def long_rows(path: Path, source: CsvSource, book: Codebook, *, known: bool = False) -> PanelRows:
    """The rows of a long panel; UserError as `read_frame` for what is wrong in the text.

    known: whether these are series of a training, of which each may have one row.
    """
    text, findings, names = opened(path, source)
    rows = rows_of(text, names, source, book, findings)
    check_ids(rows.ids, 0 if known else len(rows), rows.id_column.split(JOINT), str(path))
    return rows


def rows_of(text: CsvText, names: Sequence[str], source: CsvSource, book: Codebook, findings: Findings) -> PanelRows:
    """The rows of a long panel in a verified text. names: in its header, as they stand there."""
    path = text.path
    ids = id_columns(source, names, str(path)) if names else ()
    layout = known_time(layout_of(source), names)
    layout.check()
    header = text.header(layout.time_columns, findings)
    for name in ids:
        if name in layout.time_columns:
            raise UserError(f"{path}: the column '{name}' is in data.id_column and in data.time_column. Name it once.")
    bare = replace(layout, drop=[*layout.drop, *(name for name in ids if name not in layout.drop)])
    spec = TableSpec.of(header, bare, str(path), gaps="mask", codebook=book)
    check_signs(text, spec, findings)
    places = [header.index(name) for name in ids]
    quick = quick_long(text, spec, places, findings) or _slow_long(text, spec, places, ids, findings)
    series, names_of_series = joint_ids(quick.ids)
    return PanelRows(
        series=series,
        times=quick.times if layout.time_columns else counted_times(layout, series),
        values=finite_values(quick.values, quick.where, quick.columns),
        ids=names_of_series,
        columns=quick.columns,
        stepped=quick.stepped or layout.freq == STEPS,
        where=quick.where,
        id_column=JOINT.join(ids),
        time_column=_time_name(layout),
        checksum=checksum_of(text),
        time_format=quick.time_format,
        id_cells=_cells_of(quick.ids, ids, series) if source.has_facts else {},
    )


def _cells_of(
    parts: Sequence[tuple[IntArray, Sequence[str]]], ids: Sequence[str], series: IntArray
) -> dict[str, list[str]]:
    """What each id column says of each series, which are numbered as they come."""
    firsts = np.unique(series, return_index=True)[1]
    return {
        name: [words[code] for code in codes[firsts].tolist()] for name, (codes, words) in zip(ids, parts, strict=True)
    }


def _slow_long(
    text: CsvText, spec: TableSpec, places: Sequence[int], ids: Sequence[str], findings: Findings
) -> LongColumns:
    """The rows of a file cell by cell."""
    words = [*spec.times, *places, *map(spec.header.index, spec.layout.where or ()), *spec.named()]
    raw = read_raw(text, spec, findings, words=words)
    times = steps_in(raw, spec)
    table = table_of(raw, spec if times is None else _untimed(spec), findings)
    taken = slice(None) if table.origin is None else table.origin
    parts = [(raw.columns[place].codes[taken].astype(np.int64) - 1, raw.columns[place].words) for place in places]
    _refuse_nameless(parts, ids, line_of(table))
    return LongColumns(
        ids=parts,
        times=nanoseconds(table.timestamps) if times is None else times[taken],
        stepped=times is not None,
        time_format=table.time_format,
        values=table.values,
        columns=table.columns,
        where=line_of(table),
    )


def id_codes(table: TypedTable, name: str) -> tuple[IntArray, list[str]]:
    """Of each row (N,) of typed cells which word an id column has, and the words, as `_slow_long` reads them."""
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
    read = quick_table(text, spec)
    table = read.table
    if table is not None:
        say_left_out([(column.name, "text") for column in read.words], findings)
    times = None
    if table is None:
        raw = read_raw(text, spec, findings, words=[*spec.times, *map(header.index, layout.where or ())])
        times = steps_in(raw, spec)
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


def steps_in(raw: RawFile, spec: TableSpec) -> IntArray | None:
    """The times (N,) of a file as whole numbers that no calendar counts, as weeks 40, 41; None where it has dates."""
    if len(spec.times) != 1 or spec.layout.time_format is not None or raw.columns[spec.times[0]].is_time:
        return None
    column = raw.columns[spec.times[0]]
    if not whole_numbers(column.words):
        return None
    return np.array([int(float(word)) for word in column.words], dtype=np.int64)[column.codes - 1]


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
