"""A panel as files of numbers in a folder, mapped into memory: converted once, written whole or not at all."""

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from filelock import FileLock

from forecast.data.grid import Regular, frame_of, panel_grid, regular
from forecast.data.panel import PanelFrame, Repair
from forecast.data.reading.content import KINDS, ColumnarFile, CsvText, columnar_kind, damaged
from forecast.data.reading.layout import Layout
from forecast.data.reading.table import Codebook
from forecast.data.rows import PanelRows, checksum_of, joined, rows_of, sort_rows
from forecast.data.sources import CsvSource, file_md5
from forecast.data.values.cells import JOINT, Findings, IntArray, quoted
from forecast.documents import Document, read_arrays, read_document
from forecast.errors import UserError
from forecast.files import save_arrays, sync, write_text

_log = logging.getLogger(__name__)
_VERSION = 3  # of the files below
_VALUES, _MEASURED, _ARRAYS, _META = "values.f64", "measured.bool", "arrays.npz", "meta.json"
_PLAIN = (
    *("freq", "columns", "numbers", "id_column", "time_column", "left_out", "checksum", "time_format", "time_zone"),
    *("clock", "categories"),
)
CELLS = 1 << 20  # read at a time, about


def cached_panel(source: CsvSource, files: Sequence[Path], freq: str | None, book: Codebook) -> PanelFrame:
    """The panel of a source from its folder `data.cache`, where it is written when it is not there yet.

    Of two processes that convert the same one waits for the other. UserError as `read_panel`.
    """
    folder, name = Path(str(source.cache)), str(source.path)
    home, training_home = (
        folder / _fingerprint(source, files, *keys) for keys in ((freq, source.columns), (None, None))
    )
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f".{home.name}.lock"):
        if not home.exists() and training_home.exists():
            # a forecast names the columns and the frequency that its training has found
            frame = _opened(training_home, name)
            home = training_home if (freq, [*(source.columns or ())]) == (frame.freq, [*frame.columns]) else home
        if home.exists():
            _log.info("%s: read from %s, into which it was converted before.", name, home)
            return _opened(home, name)
        part = folder / f".{home.name}.part"
        shutil.rmtree(part, ignore_errors=True)  # of a conversion that was killed
        part.mkdir()
        try:
            _convert(source, files, freq, book, part)
            part.replace(home)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        sync(folder)
    _log.info("%s: converted into %s, from which it is read from now on.", name, home)
    return _opened(home, name)


def _fingerprint(source: CsvSource, files: Sequence[Path], freq: str | None, columns: Sequence[str] | None) -> str:
    """The name of the folder of a panel, which changes with the files and with the keys that say how they are read."""
    read = {key.name: getattr(source, key.name) for key in fields(Layout) if key.name != "columns"}
    states = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    known = _VERSION, source.id_column, source.named, read, columns and [*columns], freq, states
    return "panel-" + hashlib.md5(repr(known).encode(), usedforsecurity=False).hexdigest()[:20]


def _opened(home: Path, name: str) -> PanelFrame:
    """The panel in a folder, its rows mapped into memory."""
    meta = read_document(home / _META, Document) or {}
    columns, repair = tuple(meta["columns"]), Repair(**meta["repair"])
    filled = repair.longest_run and repair.policy != "zero"
    return PanelFrame(
        values=_mapped(home / _VALUES, "<f8", len(columns)),
        measured=_mapped(home / _MEASURED, "?", len(columns)) if filled else None,
        name=name,
        **read_arrays(home / _ARRAYS),
        **{**meta, "columns": columns, "first": pd.Timestamp(meta["first"]), "repair": repair},
    )


def _mapped(path: Path, kind: str, columns: int) -> np.ndarray:
    """The rows (N, columns) in a file: even zeros that nobody touches would count where memory is limited."""
    return np.memmap(path, dtype=np.dtype(kind), mode="r").reshape(-1, columns)


def can_be_converted(source: CsvSource, files: Sequence[Path]) -> bool:
    """Whether all files hold typed columns, and are read as a long panel, all rows of it."""
    some = (source.where, source.since, source.until, source.resample, source.time_format, source.static)
    if source.panel_form == "long" and not any(some) and all(map(columnar_kind, files)):
        return True
    _log.info(
        "%s: held in memory: data.cache is for long panels in Parquet or Feather files, all their rows.", source.path
    )
    return False


def _convert(source: CsvSource, files: Sequence[Path], freq: str | None, book: Codebook, folder: Path) -> None:
    """Writes the panel of files into a folder, some series after the others. UserError as `read_panel`."""
    name, findings = str(source.path), Findings(str(source.path))
    parts: list[Regular] = []
    starts: list[IntArray] = []
    ids: list[str] = []
    left_out: dict[str, IntArray] = {}
    # little-endian on every machine: another one may read the folder
    with (folder / _VALUES).open("wb") as values_file, (folder / _MEASURED).open("wb") as measured_file:
        for rows in _whole_series(source, files, book):
            ordered = sort_rows(rows, source.duplicates, findings)
            grid, positions = panel_grid(ordered, trained_on=freq)
            freq = grid.freq
            part = regular(ordered, grid, positions, source.gaps, known=source.known)
            part.values.astype("<f8", copy=False).tofile(values_file)
            (np.ones(part.values.shape, bool) if part.measured is None else part.measured).tofile(measured_file)
            starts.append(grid.times(part.steps))
            for reason, numbers in part.left_out.items():
                left_out[reason] = np.append(left_out.get(reason, numbers[:0]), numbers + len(ids))
            parts.append(replace(part, values=np.zeros((0, 0)), measured=None, kept=part.kept + len(ids)))
            ids += rows.ids
    if not sum(map(len, starts)):
        raise UserError(f"{name}: no series has a row with a value in each column. Name others: data.columns=[NAME]")
    # one grid for the first rows of all series, and so for all rows
    times, kept = np.concatenate(starts), np.concatenate([part.kept for part in parts])
    firsts = replace(
        rows,
        series=np.arange(len(times)),
        times=times,
        values=np.zeros((len(times), 0)),
        where=lambda _: name,
        ids=[ids[number] for number in kept.tolist()],
        name=name,
    )
    grid, positions = panel_grid(firsts, trained_on=freq)
    series = Regular(
        values=_mapped(folder / _VALUES, "<f8", len(rows.columns)),
        measured=None,
        kept=kept,
        lengths=np.concatenate([part.lengths for part in parts]),
        steps=positions,
        repair=Repair(
            source.gaps,
            rows_added=sum(part.repair.rows_added for part in parts),
            cells_filled=sum(part.repair.cells_filled for part in parts),
            longest_run=max(part.repair.longest_run for part in parts),
        ),
        left_out=left_out,
    )
    rows = replace(rows, ids=ids, name=name, checksum=checksum_of([file_md5(path) for path in files]))
    frame = frame_of(series, rows, grid, counted=False)
    save_arrays(folder / _ARRAYS, {"offsets": frame.offsets, "steps": frame.steps, "ids": frame.ids})
    meta = {key: getattr(frame, key) for key in _PLAIN} | {"categories": book.words(frame.columns)}
    meta |= {"first": int(frame.first.value), "repair": asdict(frame.repair)}
    write_text(folder / _META, json.dumps(meta))
    for path in folder.iterdir():
        sync(path)


def _whole_series(source: CsvSource, files: Sequence[Path], book: Codebook) -> Iterator[PanelRows]:
    """The rows of files, some series at a time. UserError where the rows of a series do not stand together."""
    ended: set[str] = set()
    for path in files:
        kind, findings, held = columnar_kind(path) or b"", Findings(str(path)), None
        with damaged(path, KINDS[kind]), pa.memory_map(str(path)) as raw:
            file = ColumnarFile(raw, kind)
            for table in file.tables(max(1, CELLS // len(file.kinds))):
                text, names = CsvText(path, ",", table=table), [column.name for column in table.columns]
                rows = rows_of(text, names, source, book, findings)
                if source.columns is None:
                    source = replace(source, columns=_columns(rows, file, source))
                    rows = rows_of(text, names, source, book, findings)
                if file.kinds.get(rows.time_column) != "time":
                    raise UserError(
                        f"{path}: data.cache needs one column of dates or timestamps, data.time_column=NAME. Store the "
                        "times as such, or set data.cache=null to hold the panel in memory."
                    )
                rows = rows if held is None else joined([(str(path), held), (str(path), rows)])
                rows = replace(rows, where=_lines(path, table.lines[-1] - len(rows) + 1))
                _check_together(rows, ended, path)
                last = int(np.argmax(rows.series == rows.series[-1]))  # of the series that may go on
                if last:
                    yield replace(rows.take(np.arange(last)), ids=rows.ids[:-1])
                ended.update(rows.ids[:-1])
                held = replace(rows.take(np.arange(last, len(rows))), ids=rows.ids[-1:])
                held = replace(held, series=np.zeros_like(held.series))
        if held is not None:
            ended.update(held.ids)
            yield held


def _columns(rows: PanelRows, file: ColumnarFile, source: CsvSource) -> list[str]:
    """Those of all rows, of which these are the first: of a column of numbers they may hold none."""
    aside = {*str(rows.id_column).split(JOINT), *source.drop, rows.time_column}
    numbers = {name for name, kind in file.kinds.items() if kind == "number"}
    return [name for name in file.kinds if name in rows.columns or name in numbers - aside]


def _lines(path: Path, first: int) -> Callable[[int], str]:
    """The words for rows that stand one after another; those of pieces would keep all rows before in memory."""
    return lambda row: f"{path}: line {first + row}"


def _check_together(rows: PanelRows, ended: set[str], path: Path) -> None:
    """UserError for a series whose rows other rows part. ended: the series before these rows."""
    parted = [rows.ids[number] for number in rows.series[1:][np.diff(rows.series) < 0].tolist()]
    parted += [name for name in rows.ids if name in ended]
    if parted:
        ids = [(name, "ascending") for name in str(rows.id_column).split(JOINT)]
        raise UserError(
            f"{path}: the rows of the series {quoted(parted[0])} do not stand together, as data.cache needs them. Sort "
            f"the file: pq.write_table(pq.read_table({str(path)!r}).sort_by({ids}), 'sorted.parquet'), where pq is "
            "pyarrow.parquet, or set data.cache=null to hold the panel in memory."
        )
