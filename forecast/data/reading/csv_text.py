"""The text of a CSV file as lines and cells: the file itself, its encoding, its quotes, its header."""

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count, islice
from pathlib import Path
from typing import TextIO

from forecast.data.reading.columnar import unread_column
from forecast.data.reading.raw_columns import BLANKS, TypedTable
from forecast.data.reading.unpacked import FileContent, unpacked
from forecast.data.reading.workbook import ABOVE, header_place
from forecast.data.values.findings import MAX_QUOTED, Findings, quoted
from forecast.errors import UserError, closest, closest_file
from forecast.text.overrides import hydra_value
from forecast.text.terminal import listed

SEPARATORS = (",", ";", "\t", "|")
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}", re.ASCII)
_BEGINNING = 1 << 20  # bytes that titles are looked for in
_ENDING = 1 << 16  # bytes of the last rows that are looked at
_SAMPLE = 100  # lines that separators are tried on
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_NUL = "\0"
_NO_TEXT = re.compile("[\0-\x08\x0e-\x1f\x7f]")
_MANY_BYTES = re.compile(rb"[\xc2-\xf4][\x80-\xbf]")  # a letter in UTF-8, hardly two letters in Latin-1


@dataclass(frozen=True)
class CsvText:
    """A CSV file as lines and cells; pandas reads the columns, this class finds the words for its errors.

    A row number counts the data rows from 0, as the arrays do; a line number counts the lines of the file
    from 1, as an editor does. They drift apart where a file has blank lines. content: what the file held when it was
    `verified`, text in UTF-8.
    """

    path: Path
    separator: str
    content: FileContent | None = None

    @property
    def table(self) -> TypedTable | None:
        """What the file is where it is no text, but knows its cells and numbers."""
        return None if self.content is None else self.content.table

    @cached_property
    def above(self) -> int:
        """How many lines stand above the header: titles, and what a program says of itself."""
        return header_line(self.whole().read(_BEGINNING).split("\n")[:_SAMPLE], self.separator)

    def whole(self) -> TextIO:
        """The whole text, without its byte order mark, all line ends as \\n."""
        assert self.content is not None, "only a verified text can be read"
        return io.TextIOWrapper(io.BytesIO(self.content.text), "utf-8-sig")

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """(first line, cells) of the header and of every row, blank ones left out."""
        if self.table is not None:
            yield from self.table.records()
            return
        lines = islice(self.whole(), self.above, None)
        reader = csv.reader(lines, delimiter=self.separator, skipinitialspace=True)
        line = 1 + self.above
        try:
            for cells in reader:
                # One of nothing but separators is no row.
                if any(map(str.strip, cells)):
                    yield line, cells
                line = reader.line_num + 1 + self.above
        except csv.Error as error:
            raise UserError(
                f"{self.path} is not readable as CSV: {error} in line {line}. Look for an unclosed quotation mark."
            ) from error

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of the data rows."""
        return islice(self.records(), 1, None)

    def records_of(self, rows: Collection[int]) -> dict[int, tuple[int, list[str]]]:
        """(line, cells) of some data rows, read in one go."""
        numbers = set(rows)
        if self.table is not None:
            return {row: self.table.record(row) for row in numbers}
        records = islice(self.rows(), max(numbers, default=-1) + 1)
        return {row: record for row, record in enumerate(records) if row in numbers}

    def sample(self, rows: int) -> list[list[str]]:
        """The cells of the first rows, and of as many in the middle and at the end of a text."""
        sample = [cells for _, cells in islice(self.rows(), rows)]
        if self.content is None or self.table is not None or len(sample) < rows:
            return sample
        text = self.content.text
        for place in (len(text) // 2, max(len(text) - _ENDING, 0)):
            lines = text[place : place + _BEGINNING].decode(errors="ignore").splitlines()[1 : rows + 1]
            with suppress(csv.Error):
                some = csv.reader(lines, delimiter=self.separator, skipinitialspace=True)
                sample += [cells for cells in some if len(cells) == len(sample[0])]
        return sample

    def line(self, row: int) -> int:
        """The line of a data row."""
        return self.records_of([row])[row][0]

    def verified(self, findings: Findings, sheet: str | None = None) -> "CsvText":
        """The same with its content, unpacked, in the encoding that it has.

        sheet: which one of a workbook to read; UserError where that must be said.
        """
        try:
            content = unpacked(self.path, sheet, findings)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UserError(f"{self.path} does not exist.{closest_file(self.path)}") from error
        except OSError as error:
            raise UserError(
                f"{self.path} cannot be read: {error.strerror}. Check the path and its permissions."
            ) from error
        if content.table is not None:
            return replace(self, content=content, separator=",")
        stored = content.text
        tabs = ".tsv" in self.path.suffixes and self.separator == "," and b"\t" in stored.partition(b"\n")[0]
        content = replace(content, text=self._in_utf8(stored, findings))
        return replace(self, content=content, separator="\t" if tabs else self.separator)

    def _in_utf8(self, stored: bytes, findings: Findings) -> bytes:
        """A text in UTF-8; what else it is is said. UserError for what is none."""
        utf16, place = stored.startswith(_UTF16), stored.find(b"\0")  # to pandas a cell ends at a NUL
        if not utf16 and place < 0:
            try:
                stored.decode()
                return stored
            except UnicodeDecodeError as error:
                place = error.start
        text = _NUL
        if utf16 or not _MANY_BYTES.search(stored):
            with suppress(UnicodeDecodeError):
                text = stored.decode("utf-16" if utf16 else "cp1252")
        if _NO_TEXT.search(text):
            line = 1 + stored.count(b"\n", 0, place)
            where = "" if utf16 else f": byte 0x{stored[place]:02x} in line {line}"
            raise UserError(
                f"{self.path} is damaged, or no text in UTF-8, UTF-16 or Latin-1{where}. Save it as a CSV in UTF-8."
            )
        findings.say(f"It is read as {'UTF-16' if utf16 else 'Latin-1'} text, for it is not UTF-8.")
        return text.encode("utf-8-sig")

    def header(self, time_columns: Sequence[str], findings: Findings) -> list[str]:
        """The names of all columns, those of the time among them; a name that stands twice is 'a' and 'a.1'.

        A column without a name is called by its place, 'column 3'. UserError for a file without rows,
        or without one of the time columns.
        """
        records = self.records()
        number, header = next(records, (0, []))
        if next(records, None) is None:
            raise UserError(
                f"{self.path} is empty, or holds a header and no rows. Its first line must name the columns, as "
                "date,a,b. Add one line per time step below it."
            )
        if self.table is None and self.above:
            findings.say(ABOVE.format(number))
        where = f"{self.path}: line {number}"
        header = [name if name.strip() else f"column {place}" for place, name in enumerate(header, start=1)]
        for name in time_columns:
            if name not in header:
                raise UserError(f"{where}{self._no_time_column(header, name)}")
            if DATE.match(name):
                findings.error(
                    f"{where}: the time column is named {quoted(name)}, which looks like a row. Add a line with the "
                    "names of the columns above it."
                )
        return _told_apart(header, findings)

    def check_types(self, names: Iterable[str]) -> None:
        """UserError for the first of these columns that the file has, but with nothing in it that can be read."""
        unread = {} if self.table is None else self.table.unread
        for name in names:
            if name in unread:
                raise unread_column(self.path, name, unread[name])

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


def _told_apart(header: list[str], findings: Findings) -> list[str]:
    """The names, each once, as pandas tells them apart."""
    names: dict[str, None] = {}
    for place, name in enumerate(header, start=1):
        new = next(new for new in chain([name], (f"{name}.{n}" for n in count(1))) if new not in names)
        if new != name:
            findings.say(
                f"Column {quoted(name)} stands twice; the one in place {place} is called {quoted(new)} here. "
                f"To leave it out set data.drop={hydra_value([new])}."
            )
        names[new] = None
    return list(names)


def header_line(lines: Sequence[str], separator: str) -> int:
    """The place of the line with the names of the columns, 0 but where titles stand above names of whole rows."""
    try:
        rows = [next(csv.reader([line], delimiter=separator, skipinitialspace=True), []) for line in lines]
    except csv.Error:
        return 0
    place = header_place(rows)
    names = rows[place] if place else [""]
    return (
        0 if any(re.match(r"[-+.\d]*\d", name.strip(BLANKS), re.ASCII) or not name.strip() for name in names) else place
    )


def guess_separator(text: str) -> str:
    """The character that cuts the header and the most lines below it into the same number of cells, at least two."""
    sample = [line for line in text.splitlines() if line.strip()][:_SAMPLE]

    def score(separator: str) -> tuple[float, int]:
        rows = sample[header_line(sample, separator) :]
        widths = [len(cells) for cells in csv.reader(rows, delimiter=separator, skipinitialspace=True)]
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
