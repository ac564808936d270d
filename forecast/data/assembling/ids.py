"""The ids of series, and the times of rows without any."""

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from forecast.data.assembling.rows import nanoseconds
from forecast.data.reading.cells import counted_stamps
from forecast.data.reading.layout import STEPS, USUAL, Layout
from forecast.data.sources import CsvSource
from forecast.data.values.cells import JOINT, IntArray, runs
from forecast.data.values.findings import counted, quoted
from forecast.errors import UserError, closest
from forecast.text.overrides import hydra_value
from forecast.text.terminal import listed

KNOWN_IDS = ("unique_id", "item_id")  # as other libraries call them
KNOWN_TIMES = ("ds", "timestamp", "date")

Codes = npt.NDArray[np.int32] | IntArray


def layout_of(source: CsvSource, **changes: object) -> Layout:
    """How the files of a source are written."""
    return USUAL.changed({**{field.name: getattr(source, field.name) for field in fields(Layout)}, **changes})


def known_time(layout: Layout, header: Sequence[str]) -> Layout:
    """The same layout with the time column that the header has, where none was named and it is called as usual."""
    if layout.time_column != USUAL.time_column or layout.time_column in header:
        return layout
    name = next((name for name in KNOWN_TIMES if name in header), None)
    return layout if name is None else replace(layout, time_column=name)


def id_columns(source: CsvSource, header: Sequence[str], path: str) -> tuple[str, ...]:
    """The columns that tell the series apart; UserError where the header lacks one."""
    if source.id_column is None:
        known = [name for name in KNOWN_IDS if name in header]
        if not known:
            raise UserError(
                f"{path}: no column is called {' or '.join(KNOWN_IDS)} among {listed(header)}. Name the one that tells "
                "the series apart: data.id_column=NAME"
            )
        return (known[0],)
    names = (source.id_column,) if isinstance(source.id_column, str) else tuple(source.id_column)
    for name in names:
        if name not in header:
            raise UserError(
                f"{path}: there is no column '{name}' (data.id_column) among {listed(header)}.{closest(name, header)} "
                "Set data.id_column=NAME, or several: data.id_column=[NAME, NAME]"
            )
        if name in (source.columns or ()):
            raise UserError(
                f"{path}: the column '{name}' is in data.columns, to be read as numbers, and in data.id_column. Name "
                "it once."
            )
    if not names or len(set(names)) < len(names):
        raise UserError(
            f"data.id_column={hydra_value(list(names))} must name each column once. Set data.id_column=NAME"
        )
    return names


def joint_ids(parts: Sequence[tuple[Codes, Sequence[str]]]) -> tuple[IntArray, list[str]]:
    """(series (N,), ids) of rows, numbered by their first appearance.

    parts: for each id column the code of each row (N,) and the cells that the codes stand for.
    """
    codes, words = parts[0]
    series, firsts = _numbered(codes)
    ids = [words[code] for code in firsts.tolist()]
    for codes, words in parts[1:]:
        series, firsts = _numbered(series.astype(np.int64) * len(words) + codes)
        ids = [f"{ids[pair // len(words)]}{JOINT}{words[pair % len(words)]}" for pair in firsts.tolist()]
    return series.astype(np.int64), ids


def _numbered(codes: Codes) -> tuple[IntArray, IntArray]:
    """`pd.factorize` of codes (N,), which mostly stand equal below one another."""
    first, counts = runs(codes)
    numbers, firsts = pd.factorize(codes[first])
    return np.repeat(numbers, counts), firsts.astype(np.int64)


def check_ids(ids: Sequence[str], rows: int, names: Sequence[str], path: str) -> None:
    """UserError where each row is a series of its own, and where two are called alike.

    rows: 0 where each may be one, as the next row of series that are known.
    """
    id_column = hydra_value(list(names) if len(names) > 1 else names[0])
    if len(ids) == rows > 1:
        raise UserError(
            f"{path}: each of the {counted(rows, 'row')} has another id in data.id_column={id_column}, so none is a "
            "series. Name the column that is the same in all rows of a series: data.id_column=NAME"
        )
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if list(ids).count(name) > 1)
        raise UserError(
            f"{path}: two series are called {quoted(twice)}, as '{JOINT}' stands in an id of "
            f"data.id_column={id_column}. Write another sign there."
        )


def counted_times(layout: Layout, series: IntArray) -> IntArray:
    """The times (N,) of rows without a time column: of each series its first, second, third row."""
    order = np.argsort(series, kind="stable")
    counts = np.bincount(series)
    numbers = np.empty(len(series), dtype=np.int64)
    numbers[order] = np.arange(len(series)) - np.repeat(np.cumsum(counts) - counts, counts)
    if layout.freq == STEPS:
        return numbers
    stamps = counted_stamps(layout, int(counts.max()))
    return nanoseconds(stamps)[numbers]
