"""A panel as files of numbers in a folder, mapped into memory: converted once, written whole or not at all."""

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from filelock import FileLock

from forecast.data import catalog
from forecast.data.assembling.csv_rows import rows_of
from forecast.data.assembling.grid import panel_grid
from forecast.data.assembling.ids import check_ids, known_time, layout_of
from forecast.data.assembling.regular import Regular, frame_of, regular, taken_series, times_are_counted
from forecast.data.assembling.rows import PanelRows, SortedRows, joined, sort_rows
from forecast.data.gaps import Repair
from forecast.data.panel import PanelFrame
from forecast.data.reading.columnar import KINDS, ColumnarFile, columnar_kind
from forecast.data.reading.csv_text import CsvText
from forecast.data.reading.layout import Layout
from forecast.data.reading.table import Codebook
from forecast.data.reading.unpacked import FileContent, damaged
from forecast.data.sources import CsvSource
from forecast.data.values.cells import JOINT, FloatArray, IntArray
from forecast.data.values.findings import Findings
from forecast.documents import Document, read_arrays, read_document
from forecast.errors import UserError
from forecast.files import sync, write_text

_log = logging.getLogger(__name__)
_VERSION = 2  # of the files below
_VALUES, _MEASURED, _ARRAYS, _META = "values.f64", "measured.bool", "arrays.npz", "meta.json"
_PLAIN = ("freq", "columns", "numbers", "id_column", "time_column", "left_out", "checksum", "time_format", "categories")


@dataclass(frozen=True)
class Unfinished:
    """The folder of a panel that is being written: its rows one after another, then `finish`."""

    folder: Path
    _all_measured: list[bool] = field(default_factory=list)

    def add(self, values: FloatArray, measured: np.ndarray | None) -> None:
        """Appends rows; measured: None for all."""
        with (self.folder / _VALUES).open("ab") as file:
            # little-endian on every machine: another one may read the folder
            np.ascontiguousarray(values, dtype="<f8").tofile(file)
        with (self.folder / _MEASURED).open("ab") as file:
            (np.ones(values.shape, dtype=bool) if measured is None else np.ascontiguousarray(measured)).tofile(file)
        self._all_measured.append(measured is None)

    def values(self, columns: int) -> FloatArray:
        """The rows so far (N, columns), mapped: even zeros that nobody touches count where memory is limited."""
        path = self.folder / _VALUES
        if not path.is_file() or not path.stat().st_size:
            return np.zeros((0, columns))
        return np.memmap(path, dtype=np.dtype("<f8"), mode="r").reshape(-1, columns)

    def finish(self, frame: PanelFrame) -> None:
        """Writes all but the rows, which were added."""
        if all(self._all_measured):
            (self.folder / _MEASURED).unlink()
        with (self.folder / _ARRAYS).open("wb") as file:
            np.savez(file, offsets=frame.offsets, steps=frame.steps, ids=frame.ids)
        plain = {name: getattr(frame, name) for name in _PLAIN}
        meta = {"first": int(frame.first.value), "repair": asdict(frame.repair), **plain}
        write_text(self.folder / _META, json.dumps(meta))
        for path in self.folder.iterdir():
            sync(path)
        sync(self.folder)


def cached_panel(source: CsvSource, files: Sequence[Path], freq: str | None, book: Codebook) -> PanelFrame:
    """The panel of a source from its folder `data.cache`, where it is written when it is not there yet.

    Of two processes that convert the same one waits for the other. UserError for a folder that cannot be written.
    """
    folder = Path(str(source.cache))
    name = _name(source, files, freq, source.columns)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{name}.lock"):
            same = folder / f".{name}.same"
            home = folder / (same.read_text() if same.is_file() else name)
            if home.exists():
                _log.info("%s: read from %s, into which it was converted before.", source.path, home)
                return _opened(home, str(source.path))
            _write(home, partial(convert_columnar, source, files, freq, book))
            frame = _opened(home, str(source.path))
            size = sum(path.stat().st_size for path in home.iterdir()) / 1e9
            _log.info("%s: converted into %s, %.3g GB, from which it is read from now on.", source.path, home, size)
            if freq is None and not frame.categories:  # whose numbers are those of one training
                # a forecast names the columns and the frequency that its training has found
                write_text(folder / f".{_name(source, files, frame.freq, frame.columns)}.same", home.name)
            return frame
    except OSError as error:
        raise UserError(
            f"data.cache={folder}: the panel cannot be written there: {error.strerror or error}. Name another folder, "
            "or set data.cache=null to hold it in memory."
        ) from error


def _write(home: Path, convert: Callable[[Unfinished], None]) -> None:
    """Writes a panel beside its place, and moves it there once it is whole."""
    part = home.parent / f".{home.name}.part"
    shutil.rmtree(part, ignore_errors=True)  # of a conversion that was killed
    part.mkdir()
    try:
        convert(Unfinished(part))
        part.replace(home)
        sync(home.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _opened(home: Path, name: str) -> PanelFrame:
    """The panel in a folder, its rows mapped into memory."""
    meta = read_document(home / _META, Document) or {}
    arrays = read_arrays(home / _ARRAYS)
    shape, measured = (int(arrays["offsets"][-1]), len(meta["columns"])), home / _MEASURED
    return PanelFrame(
        values=np.memmap(home / _VALUES, dtype=np.dtype("<f8"), mode="r", shape=shape),
        measured=np.memmap(measured, dtype=np.bool_, mode="r", shape=shape) if measured.exists() else None,
        **{key: arrays[key] for key in ("offsets", "steps", "ids")},
        name=name,
        first=pd.Timestamp(meta["first"]),
        repair=Repair(**meta["repair"]),
        columns=tuple(meta["columns"]),
        numbers=(meta["numbers"][0], meta["numbers"][1]),
        **{name: meta[name] for name in _PLAIN if name not in ("columns", "numbers")},
    )


def _name(source: CsvSource, files: Sequence[Path], freq: str | None, columns: Sequence[str] | None) -> str:
    """The folder of a panel, which changes with the files, and with the keys that say how they are read."""
    keys = [*(key.name for key in fields(Layout)), "path", "panel", "id_column"]
    read = {key: repr(getattr(source, key)) for key in keys if key != "drop" or columns is None}
    read |= {"columns": repr(columns and [*columns]), **{key: repr(value) for key, value in source.named.items()}}
    known = [_VERSION, freq, read, [_of_file(path) for path in files]]
    return "panel-" + hashlib.md5(json.dumps(known, sort_keys=True).encode(), usedforsecurity=False).hexdigest()[:20]


def _of_file(path: Path) -> list[object]:
    state = path.stat()
    return [str(path.resolve()), state.st_size, state.st_mtime_ns]


_SERIES, _TIMES, _ROWS = "series.i32", "times.i64", "rows.f64"  # of all rows, until they are regular
CELLS = 1 << 20  # read at a time, about


@dataclass(frozen=True, eq=False)
class RowsOnDisk:
    """The rows of all files on disk, in their order.

    whole: the panel without its rows. counts (S,): the rows of each series. is_grouped: whether those of a series
    stand together, in the order of their numbers.
    """

    whole: PanelRows
    counts: IntArray
    is_grouped: bool


def can_be_converted(source: CsvSource, files: Sequence[Path]) -> bool:
    """Whether all files hold typed columns and rows of a long panel with times of one type; the parts of others do not
    tell what they mean alone.
    """
    keys = (source.where, source.since, source.until, source.resample, source.time_format)
    convertible = source.panel_form == "long" and source.time_column is not None and not source.has_facts
    if not convertible or any(keys) or any(columnar_kind(path) is None for path in files):
        _log.info(
            "%s: held in memory: data.cache is for long panels in Parquet or Feather files, all their rows.",
            source.path,
        )
        return False
    for path in files:
        with _columnar(path) as file:
            names = known_time(layout_of(source), list(file.kinds)).time_columns
            if len(names) != 1 or file.kinds.get(names[0]) != "time":
                _log.info("%s: held in memory: data.cache needs one column of times that are no text.", path)
                return False
    return True


@contextmanager
def _columnar(path: Path) -> Iterator[ColumnarFile]:
    kind = columnar_kind(path)
    assert kind is not None
    with damaged(path, KINDS[kind]), pa.memory_map(str(path)) as file:
        yield ColumnarFile(file, kind)


def convert_columnar(
    source: CsvSource, files: Sequence[Path], freq: str | None, book: Codebook, home: Unfinished
) -> None:
    """Writes the panel of files: rows are read once, put beside those of their series, sorted, made regular.

    UserError as `read_panel`.
    """
    name = str(source.path)
    read = _gathered(source, files, book, home.folder)
    whole = read.whole
    rows = _sorted(_placed(read, home.folder, name), source, whole)
    grid = panel_grid(rows, stepped=whole.stepped, trained_on=freq)
    pieces: list[Regular] = []
    for first, block in rows.blocks():
        piece = regular(block, grid, source.gaps)
        home.add(piece.values, piece.measured)
        left_out = {reason: series + first for reason, series in piece.left_out.items()}
        pieces.append(
            replace(piece, values=piece.values[:0], measured=None, kept=piece.kept + first, left_out=left_out)
        )
    for scratch in (_SERIES, _TIMES, _ROWS):
        for path in home.folder.glob(f"*{scratch}"):
            path.unlink()
    taken = replace(taken_series(pieces), values=home.values(len(whole.columns)))
    frame = frame_of(taken, whole, grid, name, counted=times_are_counted(source))
    home.finish(replace(frame, categories=book.words(frame.columns)))


def _gathered(source: CsvSource, files: Sequence[Path], book: Codebook, folder: Path) -> RowsOnDisk:
    """All rows, some at a time; the columns are told by all cells of the first."""
    parts: list[tuple[str, PanelRows]] = []
    counts, last, is_grouped = np.zeros(0, dtype=np.int64), 0, True
    with ExitStack() as stack:
        series_file, times_file, rows_file = (
            stack.enter_context((folder / name).open("wb")) for name in (_SERIES, _TIMES, _ROWS)
        )
        for path in files:
            findings, before, own = Findings(str(path)), len(counts), source
            codes: dict[str, int] = {}
            bare = None
            with _columnar(path) as file:
                for table in file.tables(max(1, CELLS // len(file.kinds))):
                    if not len(table.lines):
                        continue
                    text = CsvText(path, ",", FileContent("", table=table))
                    rows = rows_of(text, table.names, own, book, findings)
                    if bare is None:
                        own = replace(source, columns=_columns(rows, file, source))
                        rows = rows_of(text, table.names, own, book, findings)
                        bare = replace(rows.take(np.zeros(0, dtype=np.int64)), checksum=catalog.file_md5(path))
                    numbers = np.array([codes.setdefault(name, len(codes)) for name in rows.ids], dtype=np.int64)
                    series = numbers[rows.series] + before
                    counts = np.pad(counts, (0, before + len(codes) - len(counts)))
                    counts += np.bincount(series, minlength=len(counts))
                    is_grouped = is_grouped and int(series[0]) >= last and bool((np.diff(series) >= 0).all())
                    last = int(series[-1])
                    series.astype(np.int32).tofile(series_file)
                    rows.times.tofile(times_file)
                    np.ascontiguousarray(rows.values).tofile(rows_file)
            if bare is None:
                raise UserError(f"{path} holds no rows. Name a file with rows: data.path=my.parquet")
            check_ids(list(codes), int(counts[before:].sum()), str(bare.id_column).split(JOINT), str(path))
            parts.append((str(path), replace(bare, ids=list(codes))))
    return RowsOnDisk(joined(parts), counts, is_grouped)


def _columns(rows: PanelRows, file: ColumnarFile, source: CsvSource) -> list[str]:
    """Those of all rows, of which these are the first: of a column of numbers they may hold none."""
    aside = {*str(rows.id_column).split(JOINT), *source.drop, rows.time_column, *file.index}
    numbers = {name for name, kind in file.kinds.items() if kind == "number"}
    return [name for name in file.kinds if name in rows.columns or (name in numbers and name not in aside)]


def _placed(read: RowsOnDisk, folder: Path, name: str) -> SortedRows:
    """Each row in its file's order beside those of its series, in arrays on disk."""
    offsets = np.concatenate([[0], np.cumsum(read.counts)]).astype(np.int64)
    shape = (int(offsets[-1]), len(read.whole.columns))
    times = np.memmap(folder / _TIMES, dtype=np.int64, mode="r+", shape=shape[:1])
    values = np.memmap(folder / _ROWS, dtype=np.float64, mode="r+", shape=shape)
    if not read.is_grouped:
        all_series = np.memmap(folder / _SERIES, dtype=np.int32, mode="r", shape=shape[:1])
        as_read = times, values
        times = np.memmap(folder / f"sorted-{_TIMES}", dtype=np.int64, mode="w+", shape=shape[:1])
        values = np.memmap(folder / f"sorted-{_ROWS}", dtype=np.float64, mode="w+", shape=shape)
        free, size = offsets[:-1].copy(), max(1, CELLS // shape[1])
        for first in range(0, shape[0], size):
            some = slice(first, first + size)
            order = np.argsort(all_series[some], kind="stable")
            owners = all_series[some][order]
            counts = np.bincount(owners, minlength=len(free))
            places = free[owners] + np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
            times[places], values[places] = as_read[0][some][order], as_read[1][some][order]
            free += counts
    whole = read.whole
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
        ordered = sort_rows(
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
