"""A panel as files of numbers in a folder, mapped into memory: converted once, written whole or not at all."""

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import numpy as np
import pandas as pd
from filelock import FileLock

from forecast.data.gaps import Repair
from forecast.data.panel import Facts, PanelFrame
from forecast.data.reading.layout import Layout
from forecast.data.sources import CsvSource
from forecast.data.values.cells import FloatArray
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
