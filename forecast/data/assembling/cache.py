"""A panel as files of numbers in a folder, mapped into memory: converted once, written whole or not at all."""

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from filelock import FileLock

from forecast.data import catalog
from forecast.data.assembling.csv_rows import id_codes, rows_of
from forecast.data.assembling.grid import panel_grid
from forecast.data.assembling.ids import check_ids, joint_ids, known_time, layout_of
from forecast.data.assembling.regular import Regular, frame_of, regular, taken_series, times_are_counted
from forecast.data.assembling.rows import PanelRows, SortedRows, in_order, joined
from forecast.data.gaps import Repair
from forecast.data.panel import Facts, PanelFrame
from forecast.data.reading.columnar import KINDS, ColumnarFile, columnar_kind, is_number, is_time
from forecast.data.reading.csv_text import CsvText
from forecast.data.reading.layout import Layout
from forecast.data.reading.raw_columns import TypedTable
from forecast.data.reading.table import Codebook
from forecast.data.reading.unpacked import FileContent, damaged
from forecast.data.sources import CsvSource
from forecast.data.values.cells import JOINT, FloatArray, IntArray
from forecast.data.values.findings import Findings
from forecast.documents import Document, DocumentError, read_arrays, read_document
from forecast.errors import UserError
from forecast.files import sync, write_text

_log = logging.getLogger(__name__)
_VERSION = 1  # of the files below; another one is converted anew
FOUND = "found"  # no frequency of pandas
_ENDS = 1 << 20  # bytes at the beginning and at the end of a source that tell whether it has changed
_VALUES, _MEASURED, _ARRAYS, _META = "values.f32", "measured.bool", "arrays.npz", "meta.json"
_PLAIN = ("freq", "columns", "numbers", "id_column", "time_column", "left_out", "checksum", "time_format", "categories")


@dataclass(frozen=True)
class Unfinished:
    """The folder of a panel that is being written: its rows one after another, then `finish`.

    like: the fingerprint of what it is read from, but for columns and frequency, which may be found in the files.
    """

    folder: Path
    like: str
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
            facts = {} if frame.facts is None else {"facts": frame.facts.values}
            np.savez(file, offsets=frame.offsets, steps=frame.steps, ids=frame.ids, **facts)  # type: ignore[arg-type]
        plain = {name: getattr(frame, name) for name in _PLAIN}
        if frame.facts is not None:
            plain["facts"] = {"names": frame.facts.names, "categories": frame.facts.categories}
            plain["facts"] |= {"columns": frame.facts.columns}
        meta = {
            "version": _VERSION,
            "like": self.like,
            "first": int(frame.first.value),
            "repair": asdict(frame.repair),
            **plain,
        }
        write_text(self.folder / _META, json.dumps(meta))
        for path in self.folder.iterdir():
            sync(path)
        sync(self.folder)


def cached_panel(
    source: CsvSource, files: Sequence[Path], freq: str | None, convert: Callable[[Unfinished], None]
) -> PanelFrame:
    """The panel of a source from its folder `data.cache`, where `convert` writes it when it is not there yet.

    Of two processes that convert the same one waits for the other. UserError for a folder that cannot be written.
    """
    folder = Path(str(source.cache))
    name = f"panel-{_fingerprint(source, files, freq)[:20]}"
    home = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{name}.lock"):
            frame = _opened(home, str(source.path))
            if frame is None and (existing := _found(source, files, freq)) is not None:
                home, frame = existing
            if frame is None:
                _write(home, convert, like=_fingerprint(source, files, FOUND))
                frame = _opened(home, str(source.path))
                assert frame is not None, "it was written whole"
                size = sum(path.stat().st_size for path in home.iterdir()) / 1e9
                _log.info("%s: converted into %s, %.3g GB, from which it is read from now on.", source.path, home, size)
            else:
                _log.info("%s: read from %s, into which it was converted before.", source.path, home)
    except OSError as error:
        raise UserError(
            f"data.cache={folder}: the panel cannot be written there: {error.strerror or error}. Name another folder, "
            "or set data.cache=null to hold it in memory."
        ) from error
    return frame


def _found(source: CsvSource, files: Sequence[Path], freq: str | None) -> tuple[Path, PanelFrame] | None:
    """What a training has converted, which found for itself the columns and the frequency that a forecast names."""
    if freq is None or source.columns is None:
        return None
    like = _fingerprint(source, files, FOUND)
    for home in sorted(Path(str(source.cache)).glob("panel-*")):
        frame = _opened(home, str(source.path), like=like)
        if frame is None or (frame.freq, frame.columns) != (freq, tuple(source.columns)):
            continue
        if not frame.categories and frame.facts is None:  # whose numbers are those of one training
            return home, frame
    return None


def _write(home: Path, convert: Callable[[Unfinished], None], *, like: str) -> None:
    """Writes a panel beside its place, and moves it there once it is whole."""
    if home.exists():
        shutil.rmtree(home)
    part = home.parent / f".{home.name}.part"
    shutil.rmtree(part, ignore_errors=True)  # of a conversion that was killed
    part.mkdir()
    try:
        convert(Unfinished(part, like))
        part.replace(home)
        sync(home.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _opened(home: Path, name: str, *, like: str | None = None) -> PanelFrame | None:
    """The panel in a folder, its rows mapped into memory; None where it is not there, or not as it was written.

    like: that of `Unfinished` which it must have.
    """
    try:
        meta = read_document(home / _META, Document)
        if meta is None or meta["version"] != _VERSION or like not in (None, meta["like"]):
            return None
        arrays, facts = read_arrays(home / _ARRAYS), meta.get("facts")
        if facts is not None:
            facts = Facts(tuple(facts["names"]), arrays["facts"], facts["categories"], tuple(facts["columns"]))
        shape = (int(arrays["offsets"][-1]), len(meta["columns"]))
        measured = home / _MEASURED
        return PanelFrame(
            values=np.memmap(home / _VALUES, dtype=np.dtype("<f8"), mode="r", shape=shape),
            measured=np.memmap(measured, dtype=np.bool_, mode="r", shape=shape) if measured.exists() else None,
            **{key: arrays[key] for key in ("offsets", "steps", "ids")},
            name=name,
            first=pd.Timestamp(meta["first"]),
            repair=Repair(**meta["repair"]),
            columns=tuple(meta["columns"]),
            numbers=(meta["numbers"][0], meta["numbers"][1]),
            facts=facts,
            **{name: meta[name] for name in _PLAIN if name not in ("columns", "numbers")},
        )
    except (DocumentError, OSError, ValueError, LookupError):  # cut off
        return None


def _fingerprint(source: CsvSource, files: Sequence[Path], freq: str | None) -> str:
    """What changes with the files, and with the keys that say how they are read; freq=FOUND: but for what is found."""
    inferred = {"columns", "drop"} if freq == FOUND else set()
    keys = [*(key.name for key in fields(Layout) if key.name not in inferred), "path", "panel", "id_column"]
    read = {key: repr(getattr(source, key)) for key in keys}
    read |= {key: repr(value) for key, value in source.named.items()}
    others = [] if source.static_path is None else [Path(source.static_path)]
    known = [_VERSION, freq, read, [_of_file(path) for path in [*files, *others]]]
    return hashlib.md5(json.dumps(known, sort_keys=True).encode(), usedforsecurity=False).hexdigest()


def _of_file(path: Path) -> list[object]:
    state = path.stat()
    with path.open("rb") as file:
        ends = hashlib.md5(file.read(_ENDS), usedforsecurity=False)
        file.seek(max(0, state.st_size - _ENDS))
        ends.update(file.read(_ENDS))
    return [str(path.resolve()), state.st_size, state.st_mtime_ns, ends.hexdigest()]


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
        with _columnar(path) as file:
            names = known_time(layout_of(source), list(file.kinds)).time_columns
            if len(names) != 1 or not is_time(file.kinds.get(names[0], pa.null())):
                return False
    return True


@contextmanager
def _columnar(path: Path) -> Iterator[ColumnarFile]:
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
        names = [] if bare is None else str(bare.id_column).split(JOINT)
        if bare is None or not {*names} <= {*table.names}:  # else of a cell that is no text: the careful way refuses it
            rows = _rows(path, table, source, book, findings)
            series, ids = rows.series, rows.ids
        else:
            series, ids = joint_ids([id_codes(table, name) for name in names])
        if bare is None:
            with _columnar(path) as file:
                source = replace(source, columns=_columns(rows, file, source))
            bare = replace(rows.take(np.zeros(0, dtype=np.int64)), checksum=catalog.file_md5(path))
        numbers = _numbers(ids, codes)
        more = np.zeros(len(codes), dtype=np.int64)
        more[: len(counts)] = counts
        more[numbers] += np.bincount(series, minlength=len(numbers))
        counts = more
    if bare is None:
        raise UserError(f"{path} holds no rows. Name a file with rows: data.path=my.parquet")
    check_ids(list(codes), int(counts.sum()), str(bare.id_column).split(JOINT), str(path))
    bare = replace(bare, ids=list(codes), columns=tuple(source.columns or ()))
    return Counted(path, source, codes, counts, bare, findings)


def _columns(rows: PanelRows, file: ColumnarFile, source: CsvSource) -> list[str]:
    """Those of all rows, of which these are the first: of a column of numbers they may hold none."""
    aside = {*str(rows.id_column).split(JOINT), *source.drop, rows.time_column, *file.index}
    numbers = {name for name, kind in file.kinds.items() if is_number(kind)}
    return [name for name in file.kinds if name in rows.columns or (name in numbers and name not in aside)]


def _tables(path: Path) -> Iterator[TypedTable]:
    """The cells of a file, some rows at a time."""
    with _columnar(path) as file:
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
