"""The cells of a file that may be anything: separator, encoding and quotes are guessed, nothing raises."""

import csv
import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from forecast.data.csv_text import CsvText
from forecast.data.survey.findings import Finding, cell_words, many
from forecast.errors import UserError

SEPARATORS = (",", ";", "\t", "|")
_SAMPLE = 100  # lines that separators are tried on


@dataclass(frozen=True)
class RawTable:
    """The cells of a file as text, stripped: header (columns), rows below it, and the line of each row."""

    separator: str
    header: list[str]
    rows: list[list[str]]
    lines: list[int]

    def column(self, index: int) -> list[str]:
        """The cells of a column; a row that ends before it has an empty one."""
        return [row[index].strip() if index < len(row) else "" for row in self.rows]


def read_raw(path: Path, separator: str | None) -> tuple[RawTable | None, list[Finding]]:
    """The table, None when there is none to see, and what is wrong with the file as a file."""
    try:
        text, findings = _decoded(path)
    except UserError as error:
        return None, [Finding("stop", str(error))]
    if not text.strip():
        return None, [Finding("stop", f"{path} is empty. Its first line must name the columns, as date,a,b")]
    separator = separator or guess_separator(text)
    records, unclosed = _records(text, separator)
    findings += unclosed
    if not records:
        return None, [*findings, Finding("stop", f"{path} has no line with a cell in it.")]
    (_, header), *body = records
    table = RawTable(separator, [name.strip() for name in header], [r for _, r in body], [n for n, _ in body])
    return table, [*findings, *_wrong_header(table, records[0][0]), *_wrong_widths(table)]


def _decoded(path: Path) -> tuple[str, list[Finding]]:
    """The text, and a finding when it is not UTF-8. UserError for what is no text file."""
    if path.exists() and not path.is_dir() and not path.is_file():
        raise UserError(f"{path} is no regular file. Write the data into a CSV file.")
    refused = ""
    try:
        CsvText(path, ",").header("")  # for its words on files that are missing, folders, archives, workbooks
    except UserError as error:
        if not path.is_file():
            raise
        refused = str(error)
    except (OSError, ValueError, RecursionError) as error:
        refused = f"{path} cannot be read ({error})."
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Check its permissions.") from error
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace"), [Finding("stop", refused)]
    if "not a CSV file" in refused:  # an archive, a workbook
        raise UserError(refused)
    if b"\0" in data:
        raise UserError(f"{path} is no text: it holds NUL bytes. Save it as a CSV with encoding UTF-8.")
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        return data.decode("latin-1"), [Finding("stop", str(CsvText(path, ",").not_utf8()))]


def guess_separator(text: str) -> str:
    """The character that cuts the header and the most lines below it into the same number of cells, at least two."""
    sample = [line for line in text[: 1 << 20].splitlines() if line.strip()][:_SAMPLE]

    def score(separator: str) -> tuple[float, int]:
        widths = [len(cells) for cells in csv.reader(sample, delimiter=separator, skipinitialspace=True)]
        if not widths or widths[0] < 2:
            return 0.0, 0
        return Counter(widths)[widths[0]] / len(widths), widths[0]

    try:
        return max(SEPARATORS, key=score)
    except csv.Error:
        return ","


def _records(text: str, separator: str) -> tuple[list[tuple[int, list[str]]], list[Finding]]:
    """(line, cells) of all lines that are not blank. A quote that is never closed is read as a letter, and told."""
    found: list[Finding] = []
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE):
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, quoting=quoting)
        records, at = [], 0
        try:
            for cells in reader:
                if reader.line_num - at > 1 and quoting == csv.QUOTE_MINIMAL:
                    raise csv.Error("a cell goes over the end of its line")
                at = reader.line_num
                if any(cell.strip() for cell in cells):
                    records.append((at, cells))
            return records, found
        except csv.Error as error:
            found.append(Finding("stop", f"Line {at + 1}: {error}: look for a quote that is not closed."))
    return [], found


def _wrong_header(table: RawTable, line: int) -> list[Finding]:
    found = []
    names = table.header
    nameless = [i for i, name in enumerate(names, start=1) if not name]
    if nameless:
        found.append(f"column {nameless[0]} has no name. Name it, or leave it out if it is a row index")
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        found.append(
            f"the name {cell_words(twice[0])} stands {names.count(twice[0])} times. Rename or drop one of them"
        )
    numbers = [name for name in names if name.replace(",", ".").replace(".", "", 1).lstrip("+-").isdigit()]
    if len(numbers) * 2 > len(names):
        found.append(f"names of columns look like numbers ({cell_words(numbers[0])}). Add a line with names above them")
    return [Finding("stop", f"Line {line}: {text}.") for text in found]


def _wrong_widths(table: RawTable) -> list[Finding]:
    width = len(table.header)
    long = [i for i, row in enumerate(table.rows) if len(row) > width]
    short = [i for i, row in enumerate(table.rows) if len(row) < width]
    found = []
    if long:
        first = long[0]
        found.append(
            Finding(
                "stop",
                f"Line {table.lines[first]} has {len(table.rows[first])} cells, the header names {width} columns; "
                f"{many(len(long), 'such line')} in all. Remove the surplus cells; numbers written as 1,5 need "
                "another separator, as ;.",
            )
        )
    if short:
        found.append(
            Finding(
                "note",
                f"Line {table.lines[short[0]]} has {many(len(table.rows[short[0]]), 'cell')} of {width}; so short are "
                f"{many(len(short), 'line')}. What they lack counts as missing.",
            )
        )
    return found
