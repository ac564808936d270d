"""What a conversion has read so far, in files that only grow: one that was killed goes on after the last whole part."""

import json
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from typing_extensions import TypedDict

from forecast.data.panel.frame import IntArray
from forecast.data.panel.rows import Float32
from forecast.documents import Count, parse_json, read_content

_LOG = "parts.log"  # a line for each part, written after its rows
_FILES = {"read.series": "<i8", "read.times": "<i8", "read.values": "<f4"}
FILES = (_LOG, *_FILES)


class PartOf(TypedDict):
    """A line of the log."""

    name: str
    rows: Count
    sums: list[int]


@dataclass(frozen=True, eq=False)
class ReadRows:
    """Rows in the order in which files hold them: of each part the series, the times and the values, with checksums.

    columns: C. parts: the name and the rows of each, in the order of their reading.
    """

    folder: Path
    columns: int
    parts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, columns: int) -> "ReadRows":
        """What lies in a folder, up to the first part that is not as it was written; the rest is cut off."""
        found = cls(folder, columns)
        good = b""
        with suppress(OSError, ValueError):
            for line in (read_content(folder / _LOG, most=500) or b"").splitlines(keepends=True):
                part = parse_json(folder / _LOG, line, PartOf)
                if found._sums(found._read(part["rows"])) != part["sums"]:
                    break
                found.parts[part["name"]] = part["rows"]
                good += line
        (folder / _LOG).write_bytes(good)
        for (name, kind), width in zip(_FILES.items(), found._widths, strict=True):
            with (folder / name).open("ab") as file:
                file.truncate(found.rows * width * np.dtype(kind).itemsize)
        return found

    @property
    def rows(self) -> int:
        """Of all parts."""
        return sum(self.parts.values())

    def add(self, name: str, series: IntArray, times: IntArray, values: Float32) -> None:
        """Appends a part (n,), (n,), (n, C), and then the line that says so."""
        arrays = series, times, values
        for (file_name, kind), array in zip(_FILES.items(), arrays, strict=True):
            with (self.folder / file_name).open("ab") as file:
                np.ascontiguousarray(array, dtype=kind).tofile(file)
        line = json.dumps({"name": name, "rows": len(series), "sums": self._sums(arrays)}) + "\n"
        with (self.folder / _LOG).open("ab") as file:
            file.write(line.encode())
        self.parts[name] = len(series)

    def __iter__(self) -> Iterator[tuple[IntArray, IntArray, Float32]]:
        """Series, times and values of each part."""
        first = 0
        for rows in self.parts.values():
            yield self._read(rows, first)
            first += rows

    @property
    def _widths(self) -> tuple[int, int, int]:
        return 1, 1, self.columns

    def _read(self, rows: int, first: int | None = None) -> tuple[IntArray, IntArray, Float32]:
        """So many rows from row `first` on, None: those after all parts; ValueError where the files end before."""
        first = self.rows if first is None else first
        arrays = []
        for (name, kind), width in zip(_FILES.items(), self._widths, strict=True):
            offset = first * width * np.dtype(kind).itemsize
            if offset + rows * width * np.dtype(kind).itemsize > (self.folder / name).stat().st_size:
                raise ValueError(f"{name} ends within a part")
            array = np.fromfile(self.folder / name, dtype=kind, count=rows * width, offset=offset)
            arrays.append(array)
        series, times, values = arrays
        return series, times, values.reshape(rows, self.columns)

    @staticmethod
    def _sums(arrays: tuple[np.ndarray, np.ndarray, np.ndarray]) -> list[int]:
        return [zlib.crc32(np.ascontiguousarray(array).data) for array in arrays]
