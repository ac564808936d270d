"""The cells of a file that are not what their column should hold: counted while they are read, then put in words."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from forecast.data.findings import GAPS_FIX, Findings, counted, quoted

BLANKS = " \t\n\v\f\r"  # what pandas takes for blank around a number
MOST_TEXT = 0.5  # share of the cells: beyond it a column holds words, below it some cells are damaged


@dataclass
class Fault:
    """Cells of one column with the same fault: the first of them, how many they are, the different words in them."""

    line: int
    cell: str
    count: int = 0
    words: set[str] = field(default_factory=set)


@dataclass
class CellFaults:
    """The faults in the cells of a file, by their kind and the place of their column in the header."""

    path: str
    header: Sequence[str]
    time: int
    decimal: str
    years: range
    faults: dict[tuple[str, int], Fault] = field(default_factory=dict)

    def add(self, kind: str, place: int, line: int, cell: str, word: str | None = None) -> None:
        """Counts a cell; `word` is what to count as different, the cell itself for None."""
        fault = self.faults.setdefault((kind, place), Fault(line, cell))
        fault.count += 1
        fault.words.add(cell if word is None else word)

    def report(self, rows: int, findings: Findings) -> None:
        """One error for each kind of fault in each column; flags last, for they count only where others are numbers."""

        def order(item: tuple[tuple[str, int], Fault]) -> tuple[bool, int, bool, int]:
            (kind, place), fault = item
            return kind == "flag", fault.line, place == self.time, place

        for (kind, place), fault in sorted(self.faults.items(), key=order):
            where = f"{self.path}: line {fault.line}"
            if kind != "surplus":
                where += f", column {quoted(self.header[place])}:"
            what, fix = self._words(kind, place, fault)
            if not findings.strict:
                row = kind == "surplus" or place == self.time
                what += f"; {counted(fault.count, 'such row' if row else 'such cell')} of {rows}"
                if kind == "zone":
                    what += f": {', '.join(sorted(fault.words)[:4])}"
                if kind in ("text", "flag") and fault.count > MOST_TEXT * rows:
                    what += f", {counted(len(fault.words), 'different word')}"
                    fix = "Drop the column, or train on one other: data.features=S data.target=NAME."
            findings.error(f"{where} {what}. {fix}")

    def _words(self, kind: str, place: int, fault: Fault) -> tuple[str, str]:
        """What is wrong with the cells of a fault, and the fix."""
        cell = quoted(fault.cell if place == self.time else fault.cell.strip(BLANKS))
        other = "," if self.decimal == "." else "."
        return {
            "surplus": (
                f"has {fault.cell} cells, the header names {len(self.header)} columns",
                "Remove the surplus cells, name all columns, or set data.decimal and data.separator if numbers are "
                "written as 1,5.",
            ),
            "missing": (
                f"the value is missing ({cell})",
                f"Fill the gap, or drop the column, before training, or set {GAPS_FIX}.",
            ),
            "padded": (
                f"the value is missing, but written as {fault.cell!r}",
                "Write NaN, or nothing, for a missing value.",
            ),
            "decimal": (
                f"{cell} is no number when decimals are written with {self.decimal!r}",
                f"Write all decimals with {self.decimal!r}, or set data.decimal='{other}'.",
            ),
            "infinite": (f"{cell} is not a finite number", "Replace it by a finite one before training."),
            "no timestamp": ("the timestamp is missing", "Fill it in or drop the line."),
            "zone": (
                f"{cell} carries a time zone",
                "Convert all timestamps to one zone without clock changes (UTC) and write them without the suffix.",
            ),
            "year": (
                f"{cell} is not in the years {self.years[0]} to {self.years[-1]}, which can be read",
                "Correct it, or drop the line if it marks an open end.",
            ),
            # ISO8601 has the year first: pandas would guess whether 01/02/2016 begins with the day or the month.
            "unreadable": (
                f"{cell} is no timestamp that can be read without guessing",
                ("Seconds since 1970? " if fault.cell.isdigit() else "")
                + "Write the year first, as 2016-07-01 00:00:00.",
            ),
        }.get(kind, (f"{cell} is no number", "Correct it, or drop the column, before training."))
