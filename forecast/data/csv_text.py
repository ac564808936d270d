"""The text of a CSV file, read for its header and, when something is wrong, for the line to name."""

import csv
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TextIO

from forecast.errors import UserError, closest

SHOWN = 60  # characters of a cell: one behind an unclosed quote holds half of the file
_BLOCK = 1 << 20  # bytes of a file held at a time
_NOT_CSV = (  # first bytes, what such a file is, what to do
    (b"\x1f\x8b", "is compressed with gzip", "Unpack it (gunzip)"),
    (b"PK\x03\x04", "is a zip archive or an Excel workbook", "Unpack it, or save the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "is an Excel workbook", "Save the sheet as CSV"),
    (b"PAR1", "is a Parquet file", "Write it as CSV (pandas: to_csv(index=False))"),
    (b"\xff\xfe", "is UTF-16 text", "Save it as a CSV with encoding UTF-8"),
    (b"\xfe\xff", "is UTF-16 text", "Save it as a CSV with encoding UTF-8"),
)


def shown(cell: str) -> str:
    """A cell in quotes, as messages show it: a long one is cut."""
    return repr(cell) if len(cell) <= SHOWN else f"{cell[:SHOWN]!r}..."


def _noted(lines: Iterable[str], last: deque[str]) -> Iterator[str]:
    for line in lines:
        last.append(line)
        yield line


@dataclass(frozen=True)
class CsvText:
    """A CSV file as lines and cells; pandas reads the numbers, this class finds the words for its errors.

    A row number counts the data rows from 0, as the arrays do; a line number counts the lines of the file
    from 1, as an editor does. They drift apart where a file has blank lines.
    """

    path: Path
    separator: str

    @contextmanager
    def open(self) -> Iterator[TextIO]:
        """The text without its byte order mark, all line ends as \\n. UserError when it is no UTF-8 or not readable."""
        try:
            with self.path.open(encoding="utf-8-sig") as file:
                yield file
        except UnicodeDecodeError as error:
            raise self.not_utf8() from error
        except OSError as error:
            raise self._not_readable(error) from error

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of the header and of every row, blank lines left out as pandas leaves them out."""
        with self.open() as file:
            last: deque[str] = deque(maxlen=1)
            reader = csv.reader(_noted(file, last), delimiter=self.separator, skipinitialspace=True)
            try:
                for cells in reader:
                    # to pandas blanks in quotes are a row
                    if len(cells) > 1 or (cells and (cells[0].strip(" \t") or '"' in last[0])):
                        yield reader.line_num, cells
            except csv.Error as error:
                raise self.not_csv(f"{error} in line {reader.line_num}") from error

    def rows(self, start: int = 0) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of the data rows from row `start` on."""
        return islice(self.records(), 1 + start, None)

    def line(self, row: int) -> int:
        """The line in the file of data row `row`."""
        return next(line for line, _ in self.rows(row))

    def header(self, time_column: str) -> tuple[str, ...]:
        """The column names, the time column among them. Refuses a file without them, or ambiguous ones."""
        self._refuse_no_file()
        records = self.records()
        number, header = next(records, (0, []))
        if not header:
            raise UserError(f"{self.path} is empty. Its first line must name the columns, as {time_column},a,b")
        self._refuse_names(header, time_column, f"{self.path}: line {number}")
        line, cells = next(records, (0, []))
        if not cells:
            raise UserError(f"{self.path} holds a header and no rows. Add one line per time step below it.")
        if len(cells) > len(header):  # pandas would take the first column for an index, in silence
            raise UserError(
                f"{self.path}: line {line} has {len(cells)} cells, the header names {len(header)} columns. "
                f"Name all columns in line {number}, or set data.decimal and data.separator if numbers are written "
                "as 1,5."
            )
        return tuple(header)

    def most_rows(self) -> int:
        """At least as many as the file has rows, from its line ends. Refuses NUL: to pandas a cell ends there."""
        lines, returns = 1, 0
        with self.path.open("rb") as file:
            while block := file.read(_BLOCK):
                nul = block.find(b"\0")
                lines += block.count(b"\n", 0, nul if nul >= 0 else len(block))
                if nul >= 0:
                    raise UserError(
                        f"{self.path}: line {lines} holds a NUL byte: the file is damaged, or UTF-16, or no text. "
                        "Save it as a CSV with encoding UTF-8."
                    )
                returns += block.count(b"\r")
        return lines + returns

    def not_csv(self, reason: str) -> UserError:
        """The error for a text that cannot be cut into cells."""
        return UserError(f"{self.path} is not readable as CSV: {reason}. Look for an unclosed quotation mark.")

    def unclosed_quote(self) -> UserError:
        """The error for a last cell that is never closed, with the line where it opens."""
        before = last = 0
        for line, _ in self.records():
            before, last = last, line
        return UserError(
            f"{self.path}: line {before + 1}: a quotation mark opens a cell that is never closed. Close or remove it."
        )

    def not_utf8(self) -> UserError:
        """The error for a file in another encoding, with the line of its first foreign byte."""
        found = "a foreign byte"  # shown only when the file has changed meanwhile
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    found = f"byte 0x{line[error.start]:02x} in line {number}"
                    break
        return UserError(f"{self.path} is not UTF-8 text: {found}. Save it as a CSV with encoding UTF-8.")

    def _refuse_no_file(self) -> None:
        try:
            mode = self.path.stat().st_mode
            if stat.S_ISDIR(mode):
                raise UserError(f"{self.path} is a folder. Name one CSV file inside it.")
            if not stat.S_ISREG(mode):  # a pipe can be read once only, and may keep its reader waiting for ever
                raise UserError(f"{self.path} is a pipe or a device. Write its text to a file, and name that.")
            with self.path.open("rb") as file:
                beginning = file.read(_BLOCK)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._no_such_file() from error
        except OSError as error:
            raise self._not_readable(error) from error
        for signature, what, fix in _NOT_CSV:
            if beginning.startswith(signature):
                raise UserError(f"{self.path} {what}, not a CSV file. {fix}, and name the new file.")
        if b"\0" in beginning:
            self.most_rows()

    def _no_such_file(self) -> UserError:
        folder = self.path.parent
        names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        return UserError(
            f"{self.path} does not exist.{closest(self.path.name, names)} Check the path; "
            f"a relative one starts at {Path.cwd()}."
        )

    def _not_readable(self, error: OSError) -> UserError:
        return UserError(f"{self.path} cannot be read: {error.strerror}. Check the path and its permissions.")

    def _refuse_names(self, header: list[str], time_column: str, where: str) -> None:
        for number, name in enumerate(header, start=1):
            if not name.strip():
                raise UserError(
                    f"{where}: column {number} has no name. Name it, or leave it out if it is a "
                    "row index (pandas: to_csv(index=False))."
                )
            if name in header[: number - 1]:
                first = header.index(name) + 1
                raise UserError(
                    f"{where}: column {shown(name)} stands twice, as columns {first} and {number}. "
                    "Rename or drop one of them."
                )
        if time_column not in header:
            raise UserError(f"{where}{self._no_time_column(header, time_column)}")

    def _no_time_column(self, header: list[str], time_column: str) -> str:
        other = [s for s in (",", ";", "\t", "|") if s in header[0] and s != self.separator]
        if len(header) == 1 and other:
            return (
                f" is one column, {shown(header[0])}, when it is split at {self.separator!r}. "
                f"Set data.separator='{other[0]}'."
            )
        names = ", ".join(name[:SHOWN] for name in header[:12]) + (", ..." if len(header) > 12 else "")
        return (
            f": no time column '{time_column}' among the columns {names}.{closest(time_column, header)} Set "
            "data.time_column=NAME (or data.separator if they are not split)."
        )
