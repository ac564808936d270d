"""The cells of a file that are not what their column should hold: counted while they are read, then put in words."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from forecast.data.reading.numbers import STYLE_FAULTS, NumberStyle, fault_words
from forecast.data.reading.time_formats import YEARS, format_with_zone_name
from forecast.data.values.findings import GAPS_FIX, Findings, counted, quoted
from forecast.text.overrides import typed

_DIGITS = "Write all offsets from UTC in digits, as in 2016-07-01 00:00+01:00"
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
    times: Sequence[int]
    style: NumberStyle
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
            return kind == "flag", fault.line, place in self.times, place

        for (kind, place), fault in sorted(self.faults.items(), key=order):
            where = f"{self.path}: line {fault.line}"
            if kind != "surplus":
                where += f", column {quoted(self.header[place])}:"
            message, fix = self._words(kind, place, fault, rows)
            if not findings.strict:
                row = kind == "surplus" or place in self.times
                message += f"; {counted(fault.count, 'such row' if row else 'such cell')} of {rows}"
                if kind in ("text", "flag") and fault.count > MOST_TEXT * rows:
                    message += f", {counted(len(fault.words), 'different word')}"
                    fix = "Drop the column, or train on one other: data.features=S data.target=NAME."
            findings.error(f"{where} {message}. {fix}")

    def _words(self, kind: str, place: int, fault: Fault, rows: int) -> tuple[str, str]:
        """What is wrong with the cells of a fault in a file of so many rows, and the fix."""
        cell = quoted(fault.cell)
        if kind in STYLE_FAULTS or kind == "sign":
            return fault_words(kind, fault.cell, self.style)
        if kind == "letters":
            time_format = format_with_zone_name(fault.words) if fault.count == rows else None
            other = "leave all of them out"
            if time_format is not None:
                other = f"set {typed('data.time_format', time_format)}, which reads the clock alone"
            return f"{cell} names its time zone by letters", f"{_DIGITS}, or {other}."
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
            "infinite": (f"{cell} is not a finite number", "Replace it by a finite one before training."),
            "no timestamp": ("the timestamp is missing", "Fill it in or drop the line."),
            "zone": (
                f"{cell} has an offset from UTC, other timestamps have none",
                "Write all with their offset, or none.",
            ),
            "no zone": (
                f"{cell} has no offset from UTC, other timestamps have one",
                "Write all with their offset, or none.",
            ),
            "year": (
                f"{cell} is not in the years {YEARS[0]} to {YEARS[-1]}, which can be read",
                "Correct it, or drop the line if it marks an open end.",
            ),
            "unreadable": (
                f"{cell} is no timestamp, or not written as the others are",
                "Correct it, or set data.time_format, as '%d/%m/%Y %H:%M'.",
            ),
        }.get(kind, (f"{cell} is no number", "Correct it, or drop the column, before training."))
