"""The text of a CSV file as lines and cells: the file itself, its encoding, its quotes, its header."""

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from typing import Literal, TextIO

from forecast.data.reading.columnar import FEATHER, PARQUET, unread_column
from forecast.data.reading.raw_columns import BLANKS, TypedTable
from forecast.data.reading.unpacked import GZIP, ZIP, FileContent, unpacked
from forecast.data.reading.workbook import ABOVE, header_place
from forecast.data.reading.workbook import KIND as WORKBOOK
from forecast.data.values.findings import MAX_QUOTED, Findings, quoted
from forecast.errors import UserError, closest, closest_file
from forecast.text.overrides import hydra_value
from forecast.text.terminal import listed

SEPARATORS = (",", ";", "\t", "|")
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}", re.ASCII)
_BEGINNING = 1 << 20  # bytes that titles are looked for in
_SAMPLE = 100  # lines that separators are tried on
_NOT_CSV = (  # first bytes, what such a file is, what to do
    (GZIP, "is compressed twice", "Unpack it"),
    (ZIP, "holds an archive", "Unpack it"),
    (
        b"\xd0\xcf\x11\xe0",
        "is an Excel workbook of the former format or with a password",
        "Save it as .xlsx or CSV",
    ),
    (PARQUET, "holds a Parquet file", "Unpack it"),
    (FEATHER, "holds a Feather file", "Unpack it"),
)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_NO_TEXT = re.compile("[\0-\x08\x0e-\x1f\x7f]")
_MANY_BYTES = re.compile(rb"[\xc2-\xf4][\x80-\xbf]")  # a letter in UTF-8, hardly two letters in Latin-1


@dataclass(frozen=True)
class CsvText:
    """A CSV file as lines and cells; pandas reads the numbers, this class finds the words for its errors.

    A row number counts the data rows from 0, as the arrays do; a line number counts the lines of the file
    from 1, as an editor does. They drift apart where a file has blank lines. content: what the file held when it was
    `verified`, text in UTF-8. quoting is other than usual only where a check reads on in a damaged file.
    """

    path: Path
    separator: str
    content: FileContent | None = None
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL

    @property
    def table(self) -> TypedTable | None:
        """What the file is where it is no text, but knows its cells and numbers."""
        return None if self.content is None else self.content.table

    @property
    def lines(self) -> int:
        """How many it has, line ends of any kind."""
        assert self.content is not None
        text = self.content.text
        returns = text.count(b"\r") - text.count(b"\r\n") if b"\r" in text else 0
        return text.count(b"\n") + returns + (text[-1:] not in b"\r\n")

    @cached_property
    def above(self) -> int:
        """How many lines stand above the header: titles, and what a program says of itself."""
        with self.whole() as file:
            return header_line(file.read(_BEGINNING).split("\n")[:_SAMPLE], self.separator)

    @contextmanager
    def open(self) -> Iterator[TextIO]:
        """The text from its header on, all line ends as \\n."""
        with self.whole() as file:
            for _ in range(self.above):
                file.readline()
            yield file

    @contextmanager
    def whole(self) -> Iterator[TextIO]:
        """The whole text, without its byte order mark."""
        assert self.content is not None, "only a verified text can be read"
        with io.TextIOWrapper(io.BytesIO(self.content.text), "utf-8-sig") as file:
            yield file

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """(first line, cells) of the header and of every row, blank ones left out."""
        if self.table is not None:
            yield from self.table.records()
            return
        with self.open() as file:
            reader = csv.reader(file, delimiter=self.separator, skipinitialspace=True, quoting=self.quoting)
            line = 1 + self.above
            try:
                for cells in reader:
                    # One of nothing but separators is no row.
                    if cells and (cells[0].strip() or any(map(str.strip, cells))):
                        yield line, cells if self.quoting == csv.QUOTE_MINIMAL else [cell.strip('" ') for cell in cells]
                    line = reader.line_num + 1 + self.above
            except csv.Error as error:
                raise UserError(
                    f"{self.path} is not readable as CSV: {error} in line {line}. Look for an unclosed quotation mark."
                ) from error

    def is_closed(self, line: int) -> bool:
        """Whether every quotation mark that opens in the row from a line on is closed in the file."""
        with self.whole() as file:
            lines = islice(file, line - 1, None)
            try:
                next(csv.reader(lines, delimiter=self.separator, skipinitialspace=True, strict=True), None)
            except csv.Error as error:
                return "end of data" not in str(error)
        return True

    def rows(self, start: int = 0) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of the data rows from row `start` on."""
        return islice(self.records(), 1 + start, None)

    def records_of(self, rows: Collection[int]) -> dict[int, tuple[int, list[str]]]:
        """(line, cells) of some data rows, read in one go."""
        numbers = set(rows)
        if self.table is not None:
            return {row: self.table.record(row) for row in numbers}
        records = islice(self.rows(), max(numbers, default=-1) + 1)
        return {row: record for row, record in enumerate(records) if row in numbers}

    def all_full(self, width: int, rows: int) -> bool:
        """Whether the number of separators shows that no row is short of cells, none of `rows` having over `width`."""
        assert self.content is not None
        if self.table is not None:
            return True
        text = self.content.text
        separators = text.count(self.separator.encode())
        return b'"' not in text and separators == (rows + 1) * (width - 1)

    def verified(self, findings: Findings, sheet: str | None = None) -> "CsvText":
        """The same with its content, unpacked, in the encoding that it has; a check reads on in a damaged one.

        sheet: which one of a workbook to read; SeveralSheets where that must be said.
        """
        try:
            content = unpacked(self.path, sheet, findings)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UserError(f"{self.path} does not exist.{closest_file(self.path)}") from error
        except OSError as error:
            raise UserError(
                f"{self.path} cannot be read: {error.strerror}. Check the path and its permissions."
            ) from error
        text = replace(self, content=content)
        if sheet is not None and (text.table is None or text.table.kind != WORKBOOK):
            findings.say(f"data.sheet={hydra_value(sheet)} chooses nothing: this file is no Excel workbook.")
        if text.table is not None:
            return replace(text, separator=",")
        for first_bytes, kind, fix in _NOT_CSV:
            if content.text.startswith(first_bytes):
                raise UserError(f"{self.path} {kind}, not a CSV file. {fix}, and name the new file.")
        if ".tsv" in self.path.suffixes and self.separator == "," and b"\t" in content.text.partition(b"\n")[0]:
            text = replace(text, separator="\t")
        return replace(text, content=replace(content, text=text._in_utf8(findings)))

    def _in_utf8(self, findings: Findings) -> bytes:
        """The text in UTF-8; what else it is is said. A check reads on in what is damaged."""
        assert self.content is not None
        stored = self.content.text
        utf16 = stored.startswith(_UTF16)
        if not utf16:
            self.check_nul()
            if _decodes(stored):
                return stored
        try:
            if not utf16 and _MANY_BYTES.search(stored):
                raise UnicodeError("rather UTF-8 that is damaged")
            text = stored.decode("utf-16" if utf16 else "cp1252")
            if _NO_TEXT.search(text):
                raise UnicodeError("no text")
            written = text.encode("utf-8-sig")
        except UnicodeError:
            damaged = f"{self.path} is damaged UTF-16 text. Save it as a CSV with encoding UTF-8."
            findings.error(damaged if utf16 else self._not_utf8())
            return stored.decode(errors="replace").encode()
        findings.say(f"It is read as {'UTF-16' if utf16 else 'Latin-1'} text, for it is not UTF-8.")
        return written

    def header(self, time_columns: Sequence[str], findings: Findings) -> list[str]:
        """The names of all columns, those of the time among them; a name that stands twice is 'a' and 'a.1'.

        A column without a name is called by its place, 'column 3'. UserError for a file without rows,
        or without one of the time columns.
        """
        records = self.records()
        number, header = next(records, (0, []))
        if not header:
            raise UserError(f"{self.path} is empty. Its first line must name the columns, as date,a,b")
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
        if len(header) <= len(time_columns):
            raise UserError(
                f"{where}: there is no column beside '{', '.join(time_columns)}'. Add a column of numbers, or set "
                "data.separator."
            )
        if next(records, None) is None:
            raise UserError(f"{self.path} holds a header and no rows. Add one line per time step below it.")
        return _told_apart(header, findings)

    def check_types(self, names: Iterable[str]) -> None:
        """UserError for the first of these columns that the file has, but with nothing in it that can be read."""
        unread = {} if self.table is None else self.table.unread
        for name in names:
            if name in unread:
                raise unread_column(self.path, name, unread[name])

    def check_nul(self) -> None:
        """Refuses NUL: to pandas a cell ends there."""
        assert self.content is not None
        place = self.content.text.find(b"\0")
        if place >= 0:
            raise UserError(
                f"{self.path}: line {self._line(place)} holds a NUL byte: the file is damaged, or UTF-16, or no text. "
                "Save it as a CSV with encoding UTF-8."
            )

    def _line(self, place: int) -> int:
        """The line of a byte."""
        assert self.content is not None
        return 1 + self.content.text.count(b"\n", 0, place)

    def _not_utf8(self) -> str:
        """What is to be said of a file in another encoding, with the line of its first foreign byte."""
        assert self.content is not None
        try:
            self.content.text.decode()
            place = "a foreign byte"
        except UnicodeDecodeError as error:
            place = f"byte 0x{self.content.text[error.start]:02x} in line {self._line(error.start)}"
        return f"{self.path} is not UTF-8 text: {place}. Save it as a CSV with encoding UTF-8."

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


def _decodes(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _told_apart(header: list[str], findings: Findings) -> list[str]:
    """The names, each once, as pandas tells them apart."""
    names: dict[str, None] = {}
    numbers: dict[str, Iterator[int]] = {}
    for place, name in enumerate(header, start=1):
        new = name
        while new in names:
            new = f"{name}.{next(numbers.setdefault(name, count(1)))}"
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
