"""Parquet and Feather files of a long panel, of any size, as one array on disk: some rows in memory at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from forecast.data import catalog
from forecast.data.cells import FloatArray, IntArray
from forecast.data.findings import Findings
from forecast.data.panel.assembly import frame_of, taken_series, times_are_counted
from forecast.data.panel.cache import Unfinished
from forecast.data.panel.columnar_cells import Joint, Times
from forecast.data.panel.columnar_files import columnar_kind
from forecast.data.panel.columnar_rows import ColumnarFile, joint_names, of_rows, opened, time_name
from forecast.data.panel.grid import panel_grid
from forecast.data.panel.names import check_ids
from forecast.data.panel.regular import Regular, regular
from forecast.data.panel.rows import PanelRows, SortedRows, in_order, joined
from forecast.data.reading.codebook import Codebook
from forecast.data.sources import CsvSource

_TIMES, _ROWS = "times.i64", "rows.f32"  # in the order of series, until they are regular


@dataclass(frozen=True, eq=False)
class Counted:
    """A file that was looked through once.

    ids, timing: what it has shown. counts (S,): the rows of each series. bare: the panel without its rows.
    """

    file: ColumnarFile
    ids: Joint
    timing: Times
    counts: IntArray
    bare: PanelRows


def can_be_converted(source: CsvSource, files: Sequence[Path]) -> bool:
    """Whether all files hold typed columns and rows of a long panel with their times."""
    return (
        source.panel_form == "long"
        and not source.has_facts
        and source.time_column is not None
        and source.since is None
        and source.until is None
        and all(columnar_kind(path) is not None for path in files)
    )


def convert_columnar(
    source: CsvSource, files: Sequence[Path], freq: str | None, home: Unfinished, book: Codebook
) -> None:
    """Writes the panel of files: rows are counted by series, read, put beside those of theirs, sorted, made regular.

    UserError as `read_panel`.
    """
    name = str(source.path)
    parts = [_counted(path, source, book) for path in files]
    whole = joined([(str(part.file.path), part.bare) for part in parts])
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([part.counts for part in parts]))]).astype(np.int64)
    rows = _sorted(_placed(_read(parts), home.folder, offsets, whole, name), source, whole)
    grid = panel_grid(rows, stepped=whole.stepped, trained_on=freq)
    found: list[Regular] = []
    for first, block in rows.blocks():
        one = regular(block, grid, source.gaps)
        home.add(one.values, one.measured)
        left_out = {reason: series + first for reason, series in one.left_out.items()}
        found.append(replace(one, values=one.values[:0], measured=None, kept=one.kept + first, left_out=left_out))
    for scratch in (_TIMES, _ROWS):
        (home.folder / scratch).unlink()
    taken = replace(taken_series(found), values=home.values(len(whole.columns)))
    frame = frame_of(taken, whole, grid, name, counted=times_are_counted(source))
    home.finish(replace(frame, categories=book.words(frame.columns)))


def _counted(path: Path, source: CsvSource, book: Codebook) -> Counted:
    """The first reading, of ids and times alone."""
    kind = columnar_kind(path)
    assert kind is not None
    findings = Findings(str(path), strict=True)
    file = opened(path, kind, source, findings, book)
    ids, timing, counts = Joint(len(file.ids)), file.timing(), np.zeros(0, dtype=np.int64)
    for batch in file.batches([*file.ids, *file.layout.time_columns]):
        codes = file.id_codes(batch, ids)
        file.times(batch, timing)
        more = np.bincount(codes, minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
    file.check_rows(int(counts.sum()))
    timing.decide(findings)
    names = joint_names(ids)
    check_ids(names, int(counts.sum()), file.ids, str(path))
    none = np.zeros(0, dtype=np.int64)
    bare = PanelRows(
        series=none,
        times=none,
        values=np.zeros((0, len(file.values))),
        ids=names,
        columns=file.values,
        stepped=timing.stepped,
        where=lambda _: str(path),
        id_column="/".join(file.ids),
        time_column=time_name(file.layout),
        checksum=catalog.file_md5(path),
        time_format=timing.time_format,
    )
    return Counted(file, ids, timing, counts, bare)


def _read(parts: Sequence[Counted]) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """The second reading: series, times and values of all rows in the order of the files, some at a time."""
    before = 0
    for part in parts:
        file = part.file
        for batch in file.batches([*file.ids, *file.layout.time_columns, *file.values]):
            times = part.timing.times(file.times(batch, part.timing), of_rows(file.where, batch.rows))
            yield file.id_codes(batch, part.ids) + before, times, file.numbers(batch)
        before += len(part.counts)


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
