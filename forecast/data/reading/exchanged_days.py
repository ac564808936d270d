"""Times whose day and month were exchanged where that gives a date, as a spreadsheet of another country does it."""

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.reading.layout import Layout
from forecast.data.reading.raw_columns import BLANKS
from forecast.data.reading.table import Table
from forecast.data.reading.time_formats import possible_formats, read_cells, spread
from forecast.data.values.findings import Findings
from forecast.errors import UserError
from forecast.text.overrides import typed

_ROWS = 10  # fewer may be in such an order by chance
_LEFT = 0.1  # of the steps that go back: so few may go back in the other reading, too


class ExchangedDays(UserError):
    """time_format: that reads the times as they were meant; None where that cannot be told."""

    def __init__(self, message: str, time_format: str | None) -> None:
        super().__init__(message)
        self.time_format = time_format


def check_days(table: Table, layout: Layout) -> None:
    """ExchangedDays for rows that go forward but for the blocks of days up to 12, unless their format is given."""
    stamps = table.timestamps
    if layout.time_format is not None or stamps.is_monotonic_increasing or len(stamps) < _ROWS or stamps.hasnans:
        return
    months = stamps.to_numpy().astype("datetime64[Y]").astype("datetime64[M]") + (stamps.day.to_numpy() - 1)
    days = pd.DatetimeIndex(months.astype("datetime64[D]") + (stamps.month.to_numpy() - 1))
    meant = stamps.where(np.asarray(stamps.day > 12), days + (stamps - stamps.normalize()))
    back, left = _against(stamps), _against(meant)
    if not back.any() or left.sum() > _LEFT * back.sum():
        return
    row, rows = int(back.argmax()) + 1, spread(len(stamps))
    header = table.text.header((), Findings(str(table.text.path), strict=False))
    places = [header.index(name) for name in layout.time_columns]
    texts = [" ".join(cells[place].strip(BLANKS) for place in places) for _, cells in table.records(rows).values()]
    both = (known for known in possible_formats(texts) if "%d" in known and "%m" in known)
    written = next((known for known in both if (read_cells(texts, known) == stamps[rows]).all()), None)
    known = written and f"{re.sub('%[dm]', lambda part: {'%d': '%m', '%m': '%d'}[part[0]], written)}|{written}"
    fix = "with day and month as they were" if known is None else f"or set {typed('data.time_format', known)}"
    raise ExchangedDays(
        f"{table.text.path}: line {table.line(row)}: day and month are exchanged where the day is at most 12, it "
        f"seems: {stamps[row]} follows {stamps[row - 1]}, and {int(back.sum())} steps turn so; read as {meant[row]} "
        f"the rows go on. Write the file anew {fix}.",
        known,
    )


def _against(stamps: pd.DatetimeIndex) -> npt.NDArray[np.bool_]:
    """(N - 1,): which steps go against the direction of most."""
    steps = np.diff(stamps.to_numpy()).astype(np.int64)
    return steps < 0 if np.count_nonzero(steps < 0) <= np.count_nonzero(steps > 0) else steps > 0
