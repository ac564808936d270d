"""How a file of a series is written, and what is read of it: the keys of the data group that say so."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.tseries.frequencies import to_offset

from forecast.bounds import Text
from forecast.data.values.cells import Gaps
from forecast.errors import UserError
from forecast.text.overrides import hydra_value

Duplicates = Literal["error", "first", "last", "mean", "sum"]
Aggregate = Literal["mean", "sum", "last"]
Cell = str | int | float
STEPS = "steps"  # for data.freq: rows that no calendar counts; each is a millisecond, which has no calendar either
STEP = "step"  # what their numbers are called, the first row of the file being 1


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a file is written, and what is read of it.

    time_column: one name, or several whose cells make one timestamp (year, month, day; date, time); None: the file
    has none, then `freq` and `start` say when its rows were measured. time_format: as strptime takes it, or unix,
    unix_ms; None: found. time_zone: whose clock shows timestamps with an offset; None: UTC. sheet: of a workbook;
    None: the only one with data. decimal: None: a point, refused where it may part thousands. missing: further words
    and numbers that stand for no value. units: text that stands beside numbers and is cut off. columns: those to read,
    None for all numeric ones, less `drop`. where: rows to read, by what their cells say. since, until: the first and
    the last time to read, None: all. sort: whether the rows of a series may stand in any order. duplicates: what
    becomes of rows with one timestamp and different values. resample: the frequency to which rows are brought by
    `aggregate`. gaps: what becomes of missing rows and cells.
    """

    time_column: Text | Sequence[Text] | None = "date"
    time_format: str | None = None
    time_zone: str | None = None
    freq: str | None = None
    start: Text | None = None
    sheet: Text | None = None
    separator: str = ","
    decimal: str | None = None
    thousands: str | None = None
    missing: Sequence[Cell] = ()
    units: Sequence[Text] = ()
    columns: Sequence[Text] | None = None
    drop: Sequence[Text] = ()
    where: Mapping[Text, Cell] | None = None
    since: Text | None = None
    until: Text | None = None
    sort: bool = False
    duplicates: Duplicates = "error"
    resample: str | None = None
    aggregate: Aggregate | None = None
    gaps: Gaps = "refuse"

    @property
    def time_columns(self) -> tuple[str, ...]:
        """The names of the columns that hold the time; none for a file without."""
        if self.time_column is None:
            return ()
        return (self.time_column,) if isinstance(self.time_column, str) else tuple(self.time_column)

    def changed(self, keys: Mapping[str, object]) -> "Layout":
        """With these keys, whose values are of their types."""
        return replace(self, **keys)  # type: ignore[arg-type]

    def check(self) -> None:
        """UserError for what does not go together."""
        counted = self.freq is not None and (self.start is None) == (self.freq == STEPS)
        if not (counted if self.time_column is None else self.freq is None and self.start is None):
            raise UserError(
                f"data.time_column={hydra_value(self.time_column)} data.freq={self.freq or 'null'} "
                f"data.start={self.start or 'null'} do not go together. Name the time column alone, or set "
                f"data.time_column=null data.freq=h data.start=2016-07-01, or data.time_column=null data.freq={STEPS} "
                "for steps that no calendar counts."
            )
        if (self.resample is None) != (self.aggregate is None):
            raise UserError(
                f"data.resample={self.resample or 'null'} data.aggregate={self.aggregate or 'null'}: both are needed, "
                "or none. Set data.resample=h data.aggregate=mean."
            )


_NAMING = (
    "time_column",
    "columns",
    "where",
    "id_column",
    "target",
    "known",
    "past",
    "static",
    "categorical",
)


def columns_named(keys: Mapping[str, object]) -> list[str]:
    """All columns that the keys of a layout, or of a source, name to be read."""
    named = [keys.get(key) for key in _NAMING]
    lists = [[names] if isinstance(names, str) else names for names in named]
    return [str(name) for names in lists if isinstance(names, Iterable) for name in names]


USUAL = Layout()


def within(stamps: pd.DatetimeIndex, layout: Layout, path: str) -> npt.NDArray[np.intp] | None:
    """The rows (N,) from data.since to data.until; None for all. UserError for no time, and where no row is left."""
    if layout.since is None and layout.until is None:
        return None
    since = stamps.min() if layout.since is None else time_of(layout.since, "data.since")
    until = stamps.max() if layout.until is None else time_of(layout.until, "data.until")
    chosen = np.asarray((stamps >= since) & (stamps <= until))
    if not chosen.any():
        raise UserError(
            f"{path}: no row lies from data.since={layout.since or 'null'} to data.until={layout.until or 'null'}; "
            f"they reach from {stamps.min()} to {stamps.max()}. Set other times, or null for all rows."
        )
    return None if chosen.all() else np.flatnonzero(chosen)


def time_of(text: str | None, key: str) -> pd.Timestamp:
    """The time that is typed for a key. UserError for none, and for one with an offset."""
    time = pd.to_datetime(str(text), format="ISO8601", errors="coerce")
    if pd.isna(time) or time.tz is not None:
        raise UserError(f"{key}={text} is no time without a zone. Write it as 2016-07-01 00:00:00.")
    return time


def known_frequency(freq: str, key: str) -> pd.offsets.BaseOffset:
    """The frequency that an alias names. UserError for none, and for one that does not go forward. key: whose it is."""
    try:
        offset = to_offset(freq)
    except ValueError:
        offset = None
    if offset is None or offset.n < 1:
        raise UserError(f"{key}={freq} is no frequency. Write h, 15min, D, B, W-SUN, MS or another alias of pandas.")
    return offset
