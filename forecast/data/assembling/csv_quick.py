"""A long panel that is a plain CSV file, as pandas reads it: some rows at a time, each different time once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from forecast.data.assembling.rows import nanoseconds
from forecast.data.reading.cells import LEFT_OUT
from forecast.data.reading.column_guess import column_kind
from forecast.data.reading.csv_columns import Words, plain_chunks, with_codes
from forecast.data.reading.csv_text import CsvText
from forecast.data.reading.numbers import MISSING_SPELLINGS
from forecast.data.reading.raw_columns import RawColumns
from forecast.data.reading.table import TableSpec
from forecast.data.reading.timestamps import TimeReading, read_timestamps, whole_numbers
from forecast.data.values.cells import IntArray
from forecast.data.values.findings import Findings
from forecast.errors import UserError
from forecast.text.terminal import label

_SAMPLE = 2_000  # rows that tell which columns hold numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class LongColumns:
    """N rows of a long panel.

    ids: of each id column the codes (N,) and their words. times (N,), stepped, time_format, where: as in TargetRows.
    values (N, C): NaN where one is missing.
    """

    ids: list[tuple[IntArray, list[str]]]
    times: IntArray
    stepped: bool
    time_format: str | None
    values: npt.NDArray[np.float64]
    columns: tuple[str, ...]
    where: Callable[[int], str]


def quick_long(text: CsvText, spec: TableSpec, ids: Sequence[int], findings: Findings) -> LongColumns | None:
    """The rows of a plain file; None for any in which pandas might read a cell otherwise than `read_cells` does.

    ids: the places of the id columns in the header.
    """
    if text.table is not None or not spec.is_plain or spec.style.decimal == text.separator or text.quoting:
        return None
    try:
        return _quick_long(text, spec, ids, findings)
    except UserError:
        return None  # said by the slower reader, which knows the line
    except ValueError:
        return None


def _quick_long(text: CsvText, spec: TableSpec, ids: Sequence[int], findings: Findings) -> LongColumns | None:
    (time,) = spec.times
    words = _places_of_words(text, spec)
    coded = {*spec.named(), *(place for place in words if place in spec.perhaps())}
    words = [place for place in words if place not in coded]
    places = [place for place in spec.candidates if place not in words and place not in coded]
    columns = {place: Words(spec.header[place], plain=True) for place in (time, *ids, *coded)}
    others = RawColumns([spec.header[place] for place in words])
    values = []
    # a series may be called NA: spellings of nothing are those of numbers alone
    for chunk in plain_chunks(text, spec, dict.fromkeys(places, np.float64), places):
        for place, column in columns.items():
            column.add(chunk[place])
        if words:
            others.add(chunk[words].to_numpy(dtype=object).tolist())
        numbers = chunk[places].to_numpy(dtype=np.float64)
        if np.isinf(numbers).any():
            return None
        values.append(numbers)
    kinds = [column_kind(column, spec.style) for column in others.columns()]
    whole = np.concatenate(values)
    if coded:
        whole, places = with_codes(whole, places, {place: columns[place] for place in coded}, spec)
        whole = np.ascontiguousarray(whole)
    if not places or set(kinds) - {"text"} or (spec.numbers is None and np.isnan(whole).all(axis=0).any()):
        return None
    written = columns[time].words
    read = None if whole_numbers(written) else _times(written, spec)
    if read is not None and read.faults:
        return None
    _say(spec, words, read, findings)
    steps = (
        np.array([int(float(word)) for word in written], dtype=np.int64) if read is None else nanoseconds(read.stamps)
    )
    return LongColumns(
        ids=[(columns[place].places.astype(np.int64), columns[place].words) for place in ids],
        times=steps[columns[time].places],
        stepped=read is None,
        time_format=None if read is None else read.settings.get("data.time_format"),
        values=whole,
        columns=tuple(spec.header[place] for place in places),
        where=lambda row: f"{text.path}: line {text.records_of([row])[row][0]}",
    )


def _times(written: list[str], spec: TableSpec) -> TimeReading:
    return read_timestamps({spec.layout.time_columns[0]: written}, missing=MISSING_SPELLINGS)


def _places_of_words(text: CsvText, spec: TableSpec) -> list[int]:
    """The columns that are read only to see that they hold words, going by the first rows."""
    candidates = spec.candidates if spec.numbers is None else spec.perhaps()
    if not candidates:
        return []
    sample = RawColumns(spec.header)
    sample.add([cells for _, cells in islice(text.rows(), _SAMPLE)])
    columns = sample.columns()
    return [place for place in candidates if column_kind(columns[place], spec.style) == "text"]


def _say(spec: TableSpec, words: Sequence[int], read: TimeReading | None, findings: Findings) -> None:
    """What `read_cells` says of such a file."""
    if words:
        out = ", ".join(f"{label(spec.header[place])} ({LEFT_OUT['text']})" for place in words)
        findings.say(f"Left out, as they hold no numbers of the series: {out}.")
    if read is not None and read.how:
        findings.say(f"The time is read as {read.how}.")
    for note in read.notes if read is not None else ():
        findings.say(note)
