"""The text of a CSV file as lines and cells: the file itself, its encoding, its quotes, its header."""

import csv
import io
import re
import stat
from collections import Counter, deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal, TextIO

from forecast.data.file_bytes import FileBytes
from forecast.data.findings import MAX_QUOTED, Findings, quoted
from forecast.errors import UserError, closest
from forecast.text.terminal import listed

SEPARATORS = (",", ";", "\t", "|")
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}", re.ASCII)
_BEGINNING = 1 << 20  # bytes that tell what kind of file it is
_SAMPLE = 100  # lines that separators are tried on
_NOT_CSV = (  # first bytes, what such a file is, what to do
    (b"\x1f\x8b", "is compressed with gzip", "Unpack it (gunzip)"),
    (b"PK\x03\x04", "is a zip archive or an Excel workbook", "Unpack it, or save the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "is an Excel workbook", "Save the sheet as CSV"),
    (b"PAR1", "is a Parquet file", "Write it as CSV (pandas: to_csv(index=False))"),
)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class CsvText:
    """A CSV file as lines and cells; pandas reads the numbers, this class finds the words for its errors.

    A row number counts the data rows from 0, as the arrays do; a line number counts the lines of the file
    from 1, as an editor does. They drift apart where a file has blank lines. content: what is read, once it is
    `verified`; what is written to the file later has no part in it. encoding, errors and quoting are other
    than usual only where a check reads on in a damaged file.
    """

    path: Path
    separator: str
    content: FileBytes | None = None
    encoding: str = "utf-8-sig"
    errors: str = "strict"
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL

    @contextmanager
    def open(self) -> Iterator[TextIO]:
        """The text without its byte order mark, all line ends as \\n. UserError when it is no UTF-8 or not readable."""
        assert self.content is not None, "only a verified text can be read"
        try:
            with io.TextIOWrapper(self.content.open(), encoding=self.encoding, errors=self.errors) as file:
                yield file
        except UnicodeDecodeError as error:
            raise self._not_utf8() from error
        except OSError as error:
            raise self._not_readable(error) from error

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """(first line, cells) of the header and of every row, blank lines left out as pandas leaves them out."""
        with self.open() as file:
            last: deque[str] = deque(maxlen=1)
            lines = (last.append(line) or line for line in file)  # type: ignore[func-returns-value]
            reader = csv.reader(lines, delimiter=self.separator, skipinitialspace=True, quoting=self.quoting)
            line = 1
            try:
                for cells in reader:
                    # to pandas blanks in quotes are a row
                    if len(cells) > 1 or (cells and (cells[0].strip(" \t") or '"' in last[0])):
                        yield line, cells if self.quoting == csv.QUOTE_MINIMAL else [cell.strip('" ') for cell in cells]
                    line = reader.line_num + 1
            except csv.Error as error:
                raise UserError(
                    f"{self.path} is not readable as CSV: {error} in line {line}. Look for an unclosed quotation mark."
                ) from error

    def rows(self, start: int = 0) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of the data rows from row `start` on."""
        return islice(self.records(), 1 + start, None)

    def records_of(self, rows: Collection[int]) -> dict[int, tuple[int, list[str]]]:
        """(line, cells) of some data rows, read in one go."""
        numbers = set(rows)
        records = islice(self.rows(), max(numbers, default=-1) + 1)
        return {row: record for row, record in enumerate(records) if row in numbers}

    def lines(self, rows: Collection[int]) -> dict[int, int]:
        """The lines in the file of some data rows, in the order of the file."""
        return {row: line for row, (line, _) in self.records_of(rows).items()}

    def line(self, row: int) -> int:
        """The line in the file of data row `row`."""
        return next(self.rows(row))[0]

    def _beginning(self) -> bytes:
        """The first bytes; UserError unless this is a file that can be read."""
        try:
            mode = self.path.stat().st_mode
            if stat.S_ISDIR(mode):
                raise UserError(f"{self.path} is a folder. Name one CSV file inside it.")
            if not stat.S_ISREG(mode):  # a pipe can be read once only, and may keep its reader waiting for ever
                raise UserError(f"{self.path} is a pipe or a device. Write its text to a file, and name that.")
            with self.path.open("rb") as file:
                return file.read(_BEGINNING)
        except (FileNotFoundError, NotADirectoryError) as error:
            folder = self.path.parent
            names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
            raise UserError(
                f"{self.path} does not exist.{closest(self.path.name, names)} Check the path; "
                f"a relative one starts at {Path.cwd()}."
            ) from error
        except OSError as error:
            raise self._not_readable(error) from error

    def verified(self, findings: Findings) -> "CsvText":
        """The same, once it is known to be a file of text; a check reads on in one of another encoding."""
        beginning, text = self._beginning(), self
        for first_bytes, what, fix in _NOT_CSV:
            if beginning.startswith(first_bytes):
                raise UserError(f"{self.path} {what}, not a CSV file. {fix}, and name the new file.")
        if beginning.startswith(_UTF16):
            findings.error(
                f"{self.path} is UTF-16 text, not a CSV file. Save it as a CSV with encoding UTF-8, and name the "
                "new file."
            )
            text = replace(self, encoding="utf-16", errors="replace")
        try:
            text = replace(text, content=FileBytes.of(self.path))
        except OSError as error:
            raise self._not_readable(error) from error
        if b"\0" in beginning:
            text.check_nul()
        if not findings.strict and text.encoding != "utf-16":  # the strict reader finds out as it reads
            try:
                with text.open() as file:
                    deque(file, maxlen=0)
            except UserError as error:
                findings.error(str(error))
                return replace(text, errors="replace")
        return text

    def header(self, time_column: str, findings: Findings) -> list[str]:
        """The names of all columns, the time column and one more among them.

        UserError for a file without them; an error for names that are missing or ambiguous.
        """
        records = self.records()
        number, header = next(records, (0, []))
        if not header:
            raise UserError(f"{self.path} is empty. Its first line must name the columns, as {time_column},a,b")
        where = f"{self.path}: line {number}"
        first: dict[str, int] = {}
        for place, name in enumerate(header, start=1):
            if not name.strip():
                findings.error(
                    f"{where}: column {place} has no name. Name it, or leave it out if it is a row index (pandas: "
                    "to_csv(index=False))."
                )
            elif first.setdefault(name, place) != place:
                findings.error(
                    f"{where}: column {quoted(name)} stands twice, as columns {first[name]} and {place}. "
                    "Rename or drop one of them."
                )
        if time_column not in header:
            raise UserError(f"{where}{self._no_time_column(header, time_column)}")
        if DATE.match(time_column):
            findings.error(
                f"{where}: the time column is named {quoted(time_column)}, which looks like a row. Add a line with the "
                "names of the columns above it."
            )
        if len(header) == 1:
            raise UserError(
                f"{where}: there is no column beside '{time_column}'. Add a column of numbers, or set data.separator."
            )
        if next(records, None) is None:
            raise UserError(f"{self.path} holds a header and no rows. Add one line per time step below it.")
        return header

    def check_nul(self) -> None:
        """Refuses NUL: to pandas a cell ends there."""
        assert self.content is not None
        if self.content.nul_line is not None and self.encoding != "utf-16":
            raise UserError(
                f"{self.path}: line {self.content.nul_line} holds a NUL byte: the file is damaged, or UTF-16, or no "
                "text. Save it as a CSV with encoding UTF-8."
            )

    def _not_utf8(self) -> UserError:
        """The error for a file in another encoding, with the line of its first foreign byte."""
        place = "a foreign byte"  # should the file have changed meanwhile
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    place = f"byte 0x{line[error.start]:02x} in line {number}"
                    break
        return UserError(f"{self.path} is not UTF-8 text: {place}. Save it as a CSV with encoding UTF-8.")

    def _not_readable(self, error: OSError) -> UserError:
        return UserError(f"{self.path} cannot be read: {error.strerror}. Check the path and its permissions.")

    def _no_time_column(self, header: list[str], time_column: str) -> str:
        other = [s for s in SEPARATORS if s in header[0] and s != self.separator]
        if len(header) == 1 and other:
            return (
                f" is one column, {quoted(header[0])}, when it is split at {self.separator!r}. "
                f"Set data.separator='{other[0]}'."
            )
        names = listed(name[:MAX_QUOTED] for name in header[:12]) + (", ..." if len(header) > 12 else "")
        return (
            f": no time column '{time_column}' among the columns {names}.{closest(time_column, header)} Set "
            "data.time_column=NAME (or data.separator if they are not split)."
        )


def guess_separator(text: str) -> str:
    """The character that cuts the header and the most lines below it into the same number of cells, at least two."""
    sample = [line for line in text.splitlines() if line.strip()][:_SAMPLE]

    def score(separator: str) -> tuple[float, int]:
        widths = [len(cells) for cells in csv.reader(sample, delimiter=separator, skipinitialspace=True)]
        if not widths or widths[0] < 2:
            return 0.0, 0
        return Counter(widths)[widths[0]] / len(widths), widths[0]

    try:
        return max(SEPARATORS, key=score)
    except csv.Error:
        return ","


def valid_separator(value: str) -> str:
    """The character that separates cells; UserError for one that cannot."""
    value = "\t" if value == "\\t" else value  # as a shell hands it over
    if len(value) != 1:
        raise UserError(f"data.separator is {value!r}; it must be one character, as ',' or ';' or '\\t'.")
    if not value.isascii() or value.isalnum() or value in '"\r\n\0':
        raise UserError(f"data.separator is {value!r}. Choose ',', ';', '|', '\\t' or another sign of punctuation.")
    return value
