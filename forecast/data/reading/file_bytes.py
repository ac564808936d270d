"""The bytes of a file as they are when it is first looked at, however long it is read and whatever is written to it."""

import codecs
import hashlib
import io
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import Buffer

from forecast.data.reading.raw_columns import TypedTable
from forecast.errors import UserError

_BLOCK = 1 << 20  # bytes of a file held at a time
LONGEST_LINE = 64 * _BLOCK  # of a table; a line is held whole


@dataclass(frozen=True)
class FileBytes:
    """How many bytes a file held, their MD5, their lines (line ends of any kind, and one), whether a line end is last.

    nul_line: the line of the first NUL byte, None without one. utf8: whether they are UTF-8 text. packed: the file out
    of which these bytes were unpacked; table: what they are where they are no text, whose lines are then not counted.
    endless: whether a line is longer than LONGEST_LINE.
    """

    path: Path
    size: int
    md5: str
    lines: int
    ended: bool
    nul_line: int | None
    utf8: bool = True
    packed: "FileBytes | None" = None
    endless: bool = False
    table: TypedTable | None = None

    @classmethod
    def of(cls, path: Path, *, packed: "FileBytes | None" = None) -> "FileBytes":
        """Of the file as it is now; OSError when it cannot be read."""
        md5, size, feeds, returns, nul_line, last = hashlib.md5(usedforsecurity=False), 0, 0, 0, None, b""
        unbroken, endless = 0, False
        decoder, utf8 = codecs.getincrementaldecoder("utf-8")(), True
        with open(path, "rb", opener=without_waiting) as file:
            while block := file.read(_BLOCK):
                md5.update(block)
                utf8 = utf8 and _decodes(decoder, block)
                if nul_line is None and (nul := block.find(b"\0")) >= 0:
                    nul_line = 1 + feeds + block.count(b"\n", 0, nul)
                feeds, returns = feeds + block.count(b"\n"), returns + block.count(b"\r")
                size, last = size + len(block), block[-1:]
                unbroken = 0 if b"\n" in block or b"\r" in block else unbroken + len(block)
                endless = endless or unbroken > LONGEST_LINE
        utf8 = utf8 and _decodes(decoder, b"", final=True)
        lines, ended = 1 + feeds + returns, last in b"\r\n"
        return cls(path, size, md5.hexdigest(), lines, ended, nul_line, utf8, packed, endless)

    @property
    def checksum(self) -> str:
        """The MD5 of the file that a user knows."""
        return (self.packed or self).md5

    def open(self) -> io.BufferedReader:
        """These very bytes; reading them raises UserError when the file does not hold them any more."""
        return io.BufferedReader(_Unchanged(self), _BLOCK)

    def count(self, *letters: bytes) -> list[int]:
        """How often each letter, a byte, stands in them."""
        counts = [0] * len(letters)
        with self.open() as file:
            while block := file.read(_BLOCK):
                counts = [count + block.count(letter) for count, letter in zip(counts, letters, strict=True)]
        return counts

    def changed(self) -> UserError:
        """What to say when the file holds something else by now."""
        return UserError(
            f"{self.path} was changed while it was read. Run this again when nothing writes to it, or on a copy: "
            f"cp {shlex.quote(str(self.path))} {shlex.quote(f'{self.path}.copy.csv')}"
        )


def without_waiting(path: str, flags: int) -> int:
    """Opens a file whose reading never waits: /proc/kmsg and others look like files, and wait for what may come."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _decodes(decoder: codecs.IncrementalDecoder, block: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError:
        return False
    return True


class _Unchanged(io.RawIOBase):
    """Reads the bytes of a FileBytes, and what was appended since not."""

    def __init__(self, expected: FileBytes) -> None:
        self._file = open(expected.path, "rb", buffering=0, opener=without_waiting)  # noqa: SIM115 - closed in close
        self._expected, self._left, self._md5 = expected, expected.size, hashlib.md5(usedforsecurity=False)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        if not self._left:
            return 0
        place = memoryview(buffer)[: self._left]
        count = self._file.readinto(place) or 0
        self._md5.update(place[:count])
        self._left -= count
        if not count or (not self._left and not self._is_whole()):
            raise self._expected.changed()
        return count

    def _is_whole(self) -> bool:
        """Whether these were the bytes, and their last line has not grown since."""
        grown = os.fstat(self._file.fileno()).st_size > self._expected.size
        return self._md5.hexdigest() == self._expected.md5 and (self._expected.ended or not grown)

    def close(self) -> None:
        self._file.close()
        super().close()
