"""The text of a CSV file as lines and cells: the file itself, its encoding, its quotes, its header."""

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from typing import TextIO

from forecast.data.reading.columns import TypedTable
from forecast.data.reading.content import header_place, unpacked
from forecast.data.values.findings import Findings, quoted
from forecast.errors import UserError, closest
from forecast.text.overrides import hydra_value
from forecast.text.terminal import listed

SEPARATORS = (",", ";", "\t", "|")
_NO_NAME = re.compile(r"\s*([-+.\d]*\d|$)", re.ASCII)
_PART = 1 << 16  # bytes in the middle and at the end of which rows are looked at
_SAMPLE = 100  # lines that titles are looked for in, and separators tried on
csv.field_size_limit(1 << 30)  # after a quotation mark that is never closed one cell holds half of the file


@dataclass(frozen=True)
class CsvText:
    """A CSV file as lines and cells; pandas reads the columns, this class finds the words for its errors.

    A row number counts the data rows from 0, as the arrays do; a line number counts the lines of the file
    from 1, as an editor does. They drift apart where a file has blank lines. A text that is `verified` has the MD5 of
    its file as it is stored, and its content in UTF-8, or a table where the file is no text but knows its cells.
    """

    path: Path
    separator: str
    checksum: str = ""
    content: bytes = b""
    table: TypedTable | None = None

    @cached_property
    def above(self) -> int:
        """How many lines stand above the header: titles, and what a program says of itself."""
        return header_line(list(islice(self.whole(), _SAMPLE)), self.separator)

    def whole(self) -> TextIO:
        """The whole text, without its byte order mark, all line ends as \\n."""
        return io.TextIOWrapper(io.BytesIO(self.content), "utf-8-sig")

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """(first line, cells) of the header and of every row, blank ones left out."""
        if self.table is not None:
            yield from self.table.records()
            return
        reader = csv.reader(islice(self.whole(), self.above, None), delimiter=self.separator, skipinitialspace=True)
        line = 1 + self.above
        for cells in reader:
            # One of nothing but separators is no row.
            if any(map(str.strip, cells)):
                yield line, cells
            line = reader.line_num + 1 + self.above

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
        size = len(self.content)
        if len(sample) == rows:
            for place in (size // 2, max(size - _PART, 0)):
                lines = self.content[place : place + _PART].decode(errors="ignore").splitlines()[1 : rows + 1]
                some = csv.reader(lines, delimiter=self.separator, skipinitialspace=True)
                sample += [cells for cells in some if len(cells) == len(sample[0])]
        return sample

    def verified(self, findings: Findings, sheet: str | None = None) -> "CsvText":
        """The same with its content, unpacked, in the encoding that it has.

        sheet: which one of a workbook to read; UserError where that must be said, and for a separator that is none.
        """
        mark = "\t" if self.separator == "\\t" else self.separator  # as a shell hands it over
        if len(mark) != 1 or not mark.isascii() or mark.isalnum() or mark in '"\r\n\0':
            raise UserError(f"data.separator is {mark!r}. Choose ',', ';', '|', '\\t' or another sign of punctuation.")
        checksum, content, table = unpacked(self.path, sheet, findings)
        content = _in_utf8(content, findings)
        return replace(self, separator=mark, checksum=checksum, content=content, table=table)

    def header(self, time_columns: Sequence[str], findings: Findings) -> list[str]:
        """The names of all columns, those of the time among them; a name that stands twice is 'a' and 'a.1'.

        A column without a name is called by its place, 'column 3'. UserError for a file without rows,
        or without one of the time columns.
        """
        records = self.records()
        line, header = next(records, (0, []))
        if next(records, None) is None:
            raise UserError(
                f"{self.path} is empty, or holds a header and no rows. Its first line must name the columns, as "
                "date,a,b. Add one line per time step below it."
            )
        if line > 1:
            findings.say(f"The names of the columns stand in line {line}; what stands above them is left out.")
        header = [name if name.strip() else f"column {place}" for place, name in enumerate(header, start=1)]
        names: dict[str, str] = {}  # to what each is in the file
        for name in header:
            numbered = (f"{name}.{copy}" if copy else name for copy in count())
            names[next(new for new in numbered if new not in names)] = name
        doubles = [new for new, name in names.items() if new != name]
        if doubles:
            findings.say(
                f"Columns of one name are told apart as {listed(doubles)}. To leave them out set "
                f"data.drop={hydra_value(doubles)}."
            )
        for name in time_columns:
            if name not in names:
                raise UserError(
                    f"{self.path}: line {line}: no time column '{name}' among the {len(names)} columns "
                    f"{listed(header[:12])}.{closest(name, names)} Set data.time_column=NAME, or where they are "
                    f"not split data.separator={max(SEPARATORS, key=header[0].count)!r}."
                )
            if re.match(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}", name):
                raise UserError(
                    f"{self.path}: line {line}: the time column is named {quoted(name)}, which looks like a row. Add "
                    "a line with the names of the columns above it."
                )
        return list(names)


def _in_utf8(stored: bytes, findings: Findings) -> bytes:
    """A text in UTF-8; what else it is is said. UserError for what is none."""
    for encoding in ("UTF-16",) if stored.startswith((b"\xff\xfe", b"\xfe\xff")) else ("UTF-8", "Windows-1252"):
        with suppress(UnicodeDecodeError):
            text = stored.decode(encoding)
            if "\0" not in text:  # to pandas a cell ends there
                if encoding == "UTF-8":
                    return stored
                findings.say(f"It is read as {encoding} text, for it is not UTF-8.")
                return text.encode("utf-8-sig")
    raise UserError(
        f"{findings.path} is damaged, or no text in UTF-8, UTF-16 or Windows-1252. Save it as a CSV in UTF-8."
    )


def header_line(lines: Sequence[str], separator: str) -> int:
    """The place of the line with the names of the columns, 0 but where titles stand above names of whole rows."""
    rows = [next(csv.reader([line], delimiter=separator, skipinitialspace=True), []) for line in lines] or [[]]
    place = header_place(rows)
    return 0 if any(map(_NO_NAME.match, rows[place])) else place


def guess_separator(text: str) -> str:
    """The character that cuts the header and the most lines below it into the same number of cells, at least two."""
    sample = [line for line in text.splitlines() if line.strip()][:_SAMPLE] or [""]

    def score(separator: str) -> tuple[float, int]:
        rows = sample[header_line(sample, separator) :]
        widths = [len(cells) for cells in csv.reader(rows, delimiter=separator, skipinitialspace=True)] or [0]
        return (widths.count(widths[0]) / len(widths), widths[0]) if widths[0] > 1 else (0.0, 0)

    return max(SEPARATORS, key=score)
