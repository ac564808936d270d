"""Parquet and Feather files of a long panel, of any size, as one array on disk: some rows in memory at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from forecast.data import catalog
from forecast.data.assembling.assembly import frame_of, taken_series, times_are_counted
from forecast.data.assembling.cache import Unfinished
from forecast.data.assembling.csv_rows import id_codes, rows_of
from forecast.data.assembling.grid import panel_grid
from forecast.data.assembling.names import check_ids, joint_ids, known_time, layout_of
from forecast.data.assembling.regular import Regular, regular
from forecast.data.assembling.rows import PanelRows, SortedRows, in_order, joined
from forecast.data.reading.codebook import Codebook
from forecast.data.reading.columnar import KINDS, ColumnarFile, columnar_kind, is_number, is_time
from forecast.data.reading.csv_text import CsvText
from forecast.data.reading.raw_columns import TypedTable
from forecast.data.reading.unpacked import FileContent, damaged
from forecast.data.sources import CsvSource
from forecast.data.values.cells import JOINT, FloatArray, IntArray
from forecast.data.values.findings import Findings
from forecast.errors import UserError

_TIMES, _ROWS = "times.i64", "rows.f32"  # in the order of series, until they are regular
CELLS = 1 << 20  # read at a time, about


@dataclass(frozen=True, eq=False)
class Counted:
    """A file that was looked through once.

    source: that reads it, its columns named. codes: of the ids the numbers of their series; counts (S,): the rows of
    each. bare: the panel without its rows. findings: what was said of it.
    """

    path: Path
    source: CsvSource
    codes: dict[str, int]
    counts: IntArray
    bare: PanelRows
    findings: Findings


def can_be_converted(source: CsvSource, files: Sequence[Path]) -> bool:
    """Whether all files hold typed columns and rows of a long panel with times of one type; the parts of others do not
    tell what they mean alone.
    """
    if source.panel_form != "long" or source.has_facts or source.where or source.time_format is not None:
        return False
    if any(key is not None for key in (source.since, source.until, source.resample)) or source.time_column is None:
        return False
    if any(columnar_kind(path) is None for path in files):
        return False
    for path in files:
        with _opened(path) as file:
            names = known_time(layout_of(source), list(file.kinds)).time_columns
            if len(names) != 1 or not is_time(file.kinds.get(names[0], pa.null())):
                return False
    return True


@contextmanager
def _opened(path: Path) -> Iterator[ColumnarFile]:
    kind = columnar_kind(path)
    assert kind is not None
    with damaged(path, KINDS[kind]), pa.memory_map(str(path)) as file:
        yield ColumnarFile(file, kind)


def convert_columnar(
    source: CsvSource, files: Sequence[Path], freq: str | None, home: Unfinished, book: Codebook
) -> None:
    """Writes the panel of files: rows are counted by series, read, put beside those of theirs, sorted, made regular.

    UserError as `read_panel`.
    """
    name = str(source.path)
    parts = [_counted(path, source, book) for path in files]
    whole = joined([(str(part.path), part.bare) for part in parts])
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([part.counts for part in parts]))]).astype(np.int64)
    rows = _sorted(_placed(_read(parts, book), home.folder, offsets, whole, name), source, whole)
    grid = panel_grid(rows, stepped=whole.stepped, trained_on=freq)
    pieces: list[Regular] = []
    for first, block in rows.blocks():
        piece = regular(block, grid, source.gaps)
        home.add(piece.values, piece.measured)
        left_out = {reason: series + first for reason, series in piece.left_out.items()}
        pieces.append(
            replace(piece, values=piece.values[:0], measured=None, kept=piece.kept + first, left_out=left_out)
        )
    for scratch in (_TIMES, _ROWS):
        (home.folder / scratch).unlink()
    taken = replace(taken_series(pieces), values=home.values(len(whole.columns)))
    frame = frame_of(taken, whole, grid, name, counted=times_are_counted(source))
    home.finish(replace(frame, categories=book.words(frame.columns)))


def _counted(path: Path, source: CsvSource, book: Codebook) -> Counted:
    """The first reading: the columns, by all cells of the first rows, and how many rows each series has."""
    findings = Findings(str(path), strict=True)
    codes: dict[str, int] = {}
    counts, bare = np.zeros(0, dtype=np.int64), None
    for table in _tables(path):
        names = [] if bare is None else bare.id_column.split(JOINT)
        if bare is None or not {*names} <= {*table.names}:  # else of a cell that is no text: the careful way refuses it
            rows = _rows(path, table, source, book, findings)
            series, ids = rows.series, rows.ids
        else:
            series, ids = joint_ids([id_codes(table, name) for name in names])
        if bare is None:
            with _opened(path) as file:
                source = replace(source, columns=_columns(rows, file, source))
            bare = replace(rows.take(np.zeros(0, dtype=np.int64)), checksum=catalog.file_md5(path))
        numbers = _numbers(ids, codes)
        more = np.zeros(len(codes), dtype=np.int64)
        more[: len(counts)] = counts
        more[numbers] += np.bincount(series, minlength=len(numbers))
        counts = more
    if bare is None:
        raise UserError(f"{path} holds no rows. Name a file with rows: data.path=my.parquet")
    check_ids(list(codes), int(counts.sum()), bare.id_column.split(JOINT), str(path))
    bare = replace(bare, ids=list(codes), columns=tuple(source.columns or ()))
    return Counted(path, source, codes, counts, bare, findings)


def _columns(rows: PanelRows, file: ColumnarFile, source: CsvSource) -> list[str]:
    """Those of all rows, of which these are the first: of a column of numbers they may hold none."""
    aside = {*rows.id_column.split(JOINT), *source.drop, rows.time_column, *file.index}
    numbers = {name for name, kind in file.kinds.items() if is_number(kind)}
    return [name for name in file.kinds if name in rows.columns or (name in numbers and name not in aside)]


def _tables(path: Path) -> Iterator[TypedTable]:
    """The cells of a file, some rows at a time."""
    with _opened(path) as file:
        for table in file.tables(max(1, CELLS // len(file.kinds))):
            if len(table.lines):
                yield table


def _rows(path: Path, table: TypedTable, source: CsvSource, book: Codebook, findings: Findings) -> PanelRows:
    """Some rows of a file. UserError as `csv_rows.rows_of`."""
    text = CsvText(path, ",", FileContent("", table=table))
    return rows_of(text, table.names, source, book, findings)


def _numbers(ids: Sequence[str], codes: dict[str, int]) -> IntArray:
    """The numbers (S,) of series by their ids in `codes`, where new ones are added."""
    return np.array([codes.setdefault(name, len(codes)) for name in ids], dtype=np.int64)


def _read(parts: Sequence[Counted], book: Codebook) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """The second reading: series, times and values of all rows in the order of the files, some at a time."""
    before = 0
    for part in parts:
        for table in _tables(part.path):
            rows = _rows(part.path, table, part.source, book, part.findings)
            yield _numbers(rows.ids, part.codes)[rows.series] + before, rows.times, rows.values
        before += len(part.codes)


def _placed(
    read: Iterator[tuple[IntArray, IntArray, FloatArray]], folder: Path, offsets: IntArray, whole: PanelRows, name: str
) -> SortedRows:
    """Each row in its file's order beside those of its series, in arrays on disk. offsets (S + 1,): of the series."""
    size = int(offsets[-1])
    times = np.memmap(folder / _TIMES, dtype=np.int64, mode="w+", shape=(size,))
    values = np.memmap(folder / _ROWS, dtype=np.float64, mode="w+", shape=(size, len(whole.columns)))
    free = offsets[:-1].copy()
    for series, stamps, numbers in read:
        order = np.argsort(series, kind="stable")
        owners = series[order]
        counts = np.bincount(owners, minlength=len(free))
        places = free[owners] + np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        times[places], values[places] = stamps[order], numbers[order]
        free += counts
    return SortedRows(
        offsets=offsets,
        times=times,
        values=values,
        where=lambda _: name,
        ids=whole.ids,
        columns=whole.columns,
        name=name,
    )


def _sorted(rows: SortedRows, source: CsvSource, whole: PanelRows) -> SortedRows:
    """The same in the order of time within each series, repeated rows made one, in the same arrays."""
    lengths, stop, moved = [], 0, rows.moved
    for first, block in rows.blocks():
        series = np.repeat(np.arange(len(block.ids)), block.lengths)
        ordered = in_order(
            replace(whole, series=series, times=block.times, values=block.values, ids=block.ids, where=block.where),
            source.duplicates,
            rows.name,
        )
        begin, stop = stop, stop + int(ordered.offsets[-1])
        if begin < int(rows.offsets[first]) or ordered.times is not block.times:  # else they stand there already
            rows.times[begin:stop], rows.values[begin:stop] = ordered.times, ordered.values
        lengths.append(ordered.lengths)
        if ordered.moved is not None:
            moved = ordered.moved if moved is None else moved._replace(times=moved.times + ordered.moved.times)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    return replace(rows, offsets=offsets, times=rows.times[:stop], values=rows.values[:stop], moved=moved)
