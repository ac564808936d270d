"""The ids of series, and the times of rows without any."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np
import pandas as pd

from forecast.data.assembling.rows import nanoseconds
from forecast.data.reading.layout import STEPS, USUAL, Layout
from forecast.data.reading.table import counted_stamps
from forecast.data.sources import CsvSource
from forecast.data.values.cells import IntArray, runs
from forecast.errors import UserError, closest
from forecast.text.terminal import listed

KNOWN_IDS = ("unique_id", "item_id")  # as other libraries call them
KNOWN_TIMES = ("ds", "timestamp", "date")


def layout_of(source: CsvSource, header: Sequence[str], changes: Mapping[str, object]) -> Layout:
    """How the files of a source are written; where none was named, the time column is one of a usual name."""
    layout = USUAL.changed({**{field.name: getattr(source, field.name) for field in fields(Layout)}, **changes})
    usual = [name for name in (USUAL.time_column, *KNOWN_TIMES) if name in header]
    return replace(layout, time_column=usual[0]) if usual and layout.time_column == USUAL.time_column else layout


def id_columns(source: CsvSource, header: Sequence[str], path: str) -> tuple[str, ...]:
    """The columns that tell the series apart; UserError where the header lacks one."""
    usual = next((name for name in KNOWN_IDS if name in header), KNOWN_IDS[0])
    names = source.id_column or usual
    names = (names,) if isinstance(names, str) else tuple(names)
    absent = next((name for name in names if name not in header), None)
    if absent is not None:
        raise UserError(
            f"{path}: there is no column '{absent}' (data.id_column) among {listed(header)}.{closest(absent, header)} "
            "Name those that tell the series apart: data.id_column=NAME, or several: data.id_column=[NAME, NAME]"
        )
    return names


def joint_ids(
    parts: Sequence[tuple[IntArray, Sequence[str]]], where: Callable[[int], str]
) -> tuple[IntArray, list[list[str]]]:
    """(series (N,), of each id column the cells (S,)) of rows, numbered by their first appearance.

    parts: for each id column the code of each row (N,) and the cells that the codes stand for. UserError for an empty
    one; where: a row in words.
    """
    series = np.zeros(len(parts[0][0]), dtype=np.int64)
    for codes, words in parts:
        if "" in words and (codes == words.index("")).any():
            row = int((codes == words.index("")).argmax())
            raise UserError(f"{where(row)}: the id (data.id_column) is missing. Fill it in, or drop the line.")
        pairs = series * len(words) + codes
        first, counts = runs(pairs)  # the rows of a series mostly stand together
        numbers, _ = pd.factorize(pairs[first])
        series = np.repeat(numbers, counts)
    firsts = np.flatnonzero(np.diff(np.maximum.accumulate(series), prepend=-1))
    return series, [[words[code] for code in codes[firsts].tolist()] for codes, words in parts]


def counted_times(layout: Layout, series: IntArray) -> IntArray:
    """The times (N,) of rows without a time column: of each series its first, second, third row."""
    numbers: IntArray = pd.Series(series).groupby(series).cumcount().to_numpy()
    if layout.freq == STEPS:
        return numbers
    return nanoseconds(counted_stamps(layout, int(numbers.max()) + 1))[numbers]
