"""A forecast written as the file that it continues: its separator, decimal sign, digits and way to write the time."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.findings import Findings
from forecast.data.reading.csv_text import CsvText, valid_separator
from forecast.data.reading.layout import USUAL, Layout
from forecast.data.reading.raw_columns import BLANKS
from forecast.data.written_times import TimeWriter

SAMPLE = 200  # rows whose cells show how a file is written
MORE_DIGITS = 2  # behind the decimal sign than the file has
LEAST_DIGITS = 3  # of a column's standard deviation, however few the file has
MOST_DIGITS = 7  # of it: float32 keeps no more


@dataclass(frozen=True)
class Writing:
    """How a file is written, as far as what continues it must be written so too.

    times: its columns of time, none for a file without. decimals: of each column, the most digits behind the decimal
    sign. where: cells that tell its rows from those of other series.
    """

    separator: str = ","
    decimal: str = "."
    times: TimeWriter | None = None
    decimals: Mapping[str, int] = field(default_factory=dict)
    where: Mapping[str, str | float] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, layout: Layout, time_format: str | None) -> "Writing":
        """Of a file that a layout reads. time_format: that its reader found, see `Table`; None for ISO 8601."""
        findings = Findings(str(path), strict=False)  # what there is to say of the file its reader has said
        text = CsvText(path, valid_separator(layout.separator)).verified(findings)
        header = text.header(layout.time_columns, findings)
        rows = [cells for _, cells in islice(text.rows(), SAMPLE)]
        columns = {
            name: [cells[place].strip(BLANKS) for cells in rows if place < len(cells)]
            for place, name in enumerate(header)
        }
        times = {name: columns[name] for name in layout.time_columns}
        others = columns.keys() - times.keys() if text.table is None else ()  # of typed numbers nobody wrote the digits
        decimals = {name: _decimals(columns[name], layout) for name in others}
        writer = TimeWriter.of(times, time_format, layout.time_zone) if times else None
        return cls(text.separator, layout.decimal, writer, decimals, dict(layout.where or {}))

    def header(self, time_name: str, names: Sequence[str]) -> list[str]:
        """The names of the columns of `cells`. time_name: of the time where the file has no column of it."""
        times = [time_name] if self.times is None else list(self.times.names)
        return [*times, *self.where, *names]

    def cells(self, forecast: pd.DataFrame, std: npt.NDArray[np.float64]) -> list[list[str]]:
        """The cells of each row of a forecast: a column of time, then T of numbers; std (T,) of the train rows."""
        time, names = forecast.iloc[:, 0], list(forecast.columns[1:])
        if self.times is None or not pd.api.types.is_datetime64_any_dtype(time):
            times = [[cell] for cell in time.astype(str)]
        else:
            times = self.times.cells(pd.DatetimeIndex(time))
        digits = [digits_of(one, self.decimals.get(name)) for name, one in zip(names, std, strict=True)]
        where = [self._number(value, 15) if isinstance(value, float) else str(value) for value in self.where.values()]
        rows = forecast.iloc[:, 1:].to_numpy(dtype=np.float64)
        return [
            [*time_cells, *where, *(self._number(value, d) for value, d in zip(row, digits, strict=True))]
            for time_cells, row in zip(times, rows, strict=True)
        ]

    def text(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """A header and rows of cells as lines."""
        lines = io.StringIO()
        csv.writer(lines, delimiter=self.separator, lineterminator="\n").writerows([header, *rows])
        return lines.getvalue()

    def _number(self, value: float, digits: int) -> str:
        """A number with so many digits behind the decimal sign, without trailing zeros but one."""
        value = round(float(value), digits) + 0.0  # no -0.0
        text = repr(value)
        if "e" in text and abs(value) < 1:
            text = f"{value:.{digits}f}".rstrip("0")
        return text.replace(".", self.decimal)


PLAIN = Writing()


def digits_of(std: float, decimals: int | None) -> int:
    """How many digits behind the decimal sign a forecast of a column has; negative where tens are rounded off.

    std: its standard deviation in the train rows. decimals: that its file writes, None where there is no file.
    """
    size = math.ceil(math.log10(std))
    most = MOST_DIGITS - size
    return most if decimals is None else min(most, max(decimals + MORE_DIGITS, LEAST_DIGITS - size))


def _decimals(cells: Sequence[str], layout: Layout = USUAL) -> int:
    """The most digits that a cell has behind the decimal sign; an exponent moves it."""
    most = 0
    for cell in cells:
        mantissa, _, exponent = cell.lower().partition("e")
        digits = mantissa.partition(layout.decimal)[2]
        if digits.isdigit():
            most = max(most, len(digits) - (int(exponent) if exponent.lstrip("+-").isdigit() else 0))
    return most
