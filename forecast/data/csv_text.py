"""The text of a CSV file, read for its header and, when something is wrong, for the line to name."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from forecast.errors import UserError, closest


@dataclass(frozen=True)
class CsvText:
    """A CSV file as lines and cells; pandas reads the numbers, this class finds the words for its errors.

    A row number counts the data rows from 0, as the arrays do; a line number counts the lines of the file
    from 1, as an editor does. They drift apart where a file has blank lines.
    """

    path: Path
    separator: str

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of the header and of every row, blank lines left out as pandas leaves them out."""
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.reader(file, delimiter=self.separator, skipinitialspace=True)
                for cells in reader:
                    if cells and cells != [""]:
                        yield reader.line_num, cells
        except UnicodeDecodeError as error:
            raise self.not_utf8() from error
        except csv.Error as error:
            raise UserError(f"{self.path} is not readable as CSV: {error}. Export it as plain text.") from error
        except OSError as error:
            raise UserError(f"{self.path} cannot be read: {error.strerror}. Check its permissions.") from error

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of every data row."""
        records = self.records()
        next(records)
        return records

    def line(self, row: int) -> int:
        """The line in the file of data row `row`."""
        return next(line for i, (line, _) in enumerate(self.rows()) if i == row)

    def header(self, time_column: str) -> tuple[str, ...]:
        """The column names, the time column among them. Refuses a file without them, or ambiguous ones."""
        self._refuse_no_file()
        records = self.records()
        _, header = next(records, (0, []))
        if not header:
            raise UserError(f"{self.path} is empty. Its first line must name the columns, as {time_column},a,b")
        self._refuse_names(header, time_column)
        line, cells = next(records, (0, []))
        if not cells:
            raise UserError(f"{self.path} holds a header and no rows. Add one line per time step below it.")
        if len(cells) > len(header):  # pandas would take the first column for an index, in silence
            raise UserError(
                f"{self.path}: line {line} has {len(cells)} cells, the header names {len(header)} columns. "
                "Name all columns in line 1, or set data.decimal and data.separator if numbers are written "
                "as 1,5."
            )
        return tuple(header)

    def not_utf8(self) -> UserError:
        """The error for a file in another encoding, with the line of its first foreign byte."""
        data = self.path.read_bytes()
        try:
            data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            found = f"byte 0x{data[error.start]:02x} in line {line}"
        else:  # only when the file changed meanwhile
            found = "a foreign byte"
        return UserError(f"{self.path} is not UTF-8 text: {found}. Save it as a CSV with encoding UTF-8.")

    def _refuse_no_file(self) -> None:
        if self.path.is_dir():
            raise UserError(f"{self.path} is a folder. Name one CSV file inside it.")
        if not self.path.exists():
            folder = self.path.parent
            names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
            raise UserError(
                f"{self.path} does not exist.{closest(self.path.name, names)} Check the path; "
                f"a relative one starts at {Path.cwd()}."
            )

    def _refuse_names(self, header: list[str], time_column: str) -> None:
        for number, name in enumerate(header, start=1):
            if not name.strip():
                raise UserError(
                    f"{self.path}: line 1: column {number} has no name. Name it, or leave it out if it is a "
                    "row index (pandas: to_csv(index=False))."
                )
            if name in header[: number - 1]:
                first = header.index(name) + 1
                raise UserError(
                    f"{self.path}: line 1: column '{name}' stands twice, as columns {first} and {number}. "
                    "Rename or drop one of them."
                )
        if time_column not in header:
            raise UserError(self._no_time_column(header, time_column))

    def _no_time_column(self, header: list[str], time_column: str) -> str:
        other = [s for s in (",", ";", "\t", "|") if s in header[0] and s != self.separator]
        if len(header) == 1 and other:
            return (
                f"{self.path}: line 1 is one column, {header[0]!r}, when it is split at {self.separator!r}. "
                f"Set data.separator='{other[0]}'."
            )
        shown = ", ".join(header[:12]) + (", ..." if len(header) > 12 else "")
        return (
            f"{self.path}: line 1: no time column '{time_column}' among the columns {shown}."
            f"{closest(time_column, header)} Set data.time_column=NAME (or data.separator if they are not "
            "split)."
        )
