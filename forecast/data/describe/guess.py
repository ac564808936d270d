"""The layout of a file whose writer is not here to be asked: each choice with its reason.

What several layouts read differently is refused, with the keys that choose.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest

import numpy as np
import pandas as pd

from forecast.data.describe.columns import (
    FEW_WORDS,
    USUAL_NAMES,
    check_closed,
    check_even,
    find_ids,
    find_times,
    is_between,
    likely_calendar,
    planned_columns,
    useless_columns,
)
from forecast.data.grid import MOST_MISSING
from forecast.data.reading.columns import NumberStyle, RawColumn, as_typed, guess_missing, guess_style, without_units
from forecast.data.reading.content import CsvText, guess_separator
from forecast.data.reading.layout import STEPS, USUAL, Cell, Layout, columns_named, within
from forecast.data.reading.table import Table, TableSpec, read_columns, table_of
from forecast.data.reading.time_formats import ISO, possible_formats
from forecast.data.seasonality import Suggestion
from forecast.data.values.calendar import grid_frequency, on_grid, rows_missing
from forecast.data.values.cells import Findings, quoted
from forecast.errors import UserError
from forecast.text.overrides import hydra_value, typed
from forecast.text.terminal import listed, shell_word

_SAMPLE_ROWS, _SAMPLE_CHARACTERS = 2_000, 1 << 20  # that show how separators, times and numbers are written
_MANY_ABSENT = 0.05  # of the rows: counts without a 0 then lack the rows of nothing
_ID = re.compile(r"0\d+|\d+[eE]\d+", re.ASCII)  # a cell that another one may equal as a number alone

NEW_FILE = "new.csv"  # what the commands write that a check prints for a file that no key reads

Given = Mapping[str, object]


@dataclass
class FileCheck:
    """What is known of a file, its layout with a line for each choice in it, and the command to train on it.

    given: what is typed, by the keys of data=csv. planned: columns that are not used and may be known in advance. ids:
    the columns that tell several series apart, where nobody named them. command: the words of the training that it is
    fit for, None as long as something must be mended or typed first; informer_command: those of an Informer that fits
    the rows. drift: a column, and by how many standard deviations of the train rows the val rows lie above these.
    """

    text: CsvText
    given: Given
    findings: Findings
    header: Sequence[str] = ()
    layout: Layout = USUAL
    reasons: list[str] = field(default_factory=list)
    planned: list[str] = field(default_factory=list)
    table: Table | None = None
    freq: str | None = None
    suggestion: Suggestion | None = None
    windows: dict[str, int] = field(default_factory=dict)
    drift: tuple[str, float] | None = None
    command: list[str] | None = None
    informer_command: list[str] | None = None
    ids: tuple[str, ...] = ()

    def set(self, reason: str, **settings: object) -> None:
        """Takes a choice."""
        self.layout = self.layout.changed(settings)
        self.reasons.append(reason)


def settings_of(layout: Layout) -> dict[str, object]:
    """The keys of a layout that are not as usual."""
    pairs = {key.name: (getattr(layout, key.name), getattr(USUAL, key.name)) for key in fields(Layout)}
    return {key: list(now) if isinstance(now, tuple) else now for key, (now, usual) in pairs.items() if now != usual}


def open_file(check: FileCheck) -> dict[str, list[str]]:
    """The cells of some rows, by column; UserError for a file that is no text, or empty."""
    check.layout = USUAL.changed({key.name: check.given[key.name] for key in fields(Layout) if key.name in check.given})
    check.text = replace(check.text, separator=check.layout.separator).verified(check.findings, check.layout.sheet)
    if "separator" not in check.given and check.text.table is None:
        separator = guess_separator(check.text.whole().read(_SAMPLE_CHARACTERS))
        check.text = replace(check.text, separator=separator)
        if separator != ",":
            value = r"\t" if separator == "\t" else separator
            check.set(f"data.separator: {separator!r} cuts the header and the rows alike", separator=value)
    check.header = check.text.header((), check.findings)
    by_column = zip_longest(check.header, *check.text.sample(_SAMPLE_ROWS), fillvalue="")
    return {name: column for name, (_, *column) in zip(check.header, by_column, strict=False)}


def read_guessed(check: FileCheck, cells: Mapping[str, Sequence[str]]) -> Table:
    """The rows of a file as they stand there; UserError where several readings give different data."""
    if "time_column" not in check.given:
        _decide_time(check, {name: column[:_SAMPLE_ROWS] for name, column in cells.items()})
    check.layout.check()
    check.text.header(check.layout.time_columns, check.findings)
    spec = TableSpec.of(check.header, check.layout, str(check.text.path))
    if check.text.table is None:
        _check_units(check, cells)
        if not {"decimal", "thousands"} & check.given.keys():
            raw = [RawColumn.of_cells(name, pd.Series(column, dtype=object)) for name, column in cells.items()]
            style, cell = guess_style([without_units(raw[place], check.layout.units) for place in spec.candidates])
            settings = NumberStyle().settings(style)
            if settings:
                keys = {key.removeprefix("data."): value for key, value in settings.items()}
                check.set(f"{as_typed(settings)}: {cell}", **keys)
    words = {*check.layout.time_columns, *columns_named({key: check.given.get(key) for key in ("where", "id_column")})}
    words |= {name for name in check.header if any(map(_ID.fullmatch, cells[name]))}
    spec = replace(spec, layout=check.layout)
    columns = read_columns(check.text, spec, words=[place for place, name in enumerate(check.header) if name in words])
    if "missing" not in check.given:
        _decide_missing(check, [columns[place] for place in spec.candidates])
    table = table_of(check.text, columns, replace(spec, layout=check.layout), check.findings)
    chosen = within(table.timestamps, check.layout, check.findings.path)
    table = table if chosen is None else table.take(chosen)
    others = [column for column in columns if column.name not in {*check.layout.time_columns, *check.layout.drop}]
    others = others if table.origin is None else [column.take(table.origin) for column in others]
    _check_rows(check, table, others)
    _drop_columns(check, table, others)
    return table


def _decide_time(check: FileCheck, cells: Mapping[str, Sequence[str]]) -> None:
    """Finds the columns of the time in the first rows."""
    called = {name.strip().lower(): name for name in reversed(check.header)}
    usual = [] if likely_calendar(cells) else [(called[name],) for name in USUAL_NAMES if name in called]
    times = find_times(cells) or usual[:1]
    keys = [names[0] if len(names) == 1 else names for names in times]
    if not times and check.layout.freq is None:
        raise _no_time(check, cells)
    if len(times) > 1:
        choices = " or ".join(typed("data.time_column", key) for key in keys)
        raise UserError(f"{len(times)} times stand in the columns, and differ. Set {choices}.")
    if not times:
        check.set("data.time_column=null: no column holds timestamps", time_column=None)
    elif keys[0] != USUAL.time_column:
        reason = f"column {quoted(*times[0])}" if len(times[0]) == 1 else f"columns {listed(times[0])}"
        check.set(f"time: {reason}", time_column=keys[0])


def _no_time(check: FileCheck, cells: Mapping[str, Sequence[str]]) -> UserError:
    """What to say of a file in which no time is found: what looks like one, and the keys that do without."""
    dates = [name for name in check.header if possible_formats([name]) != [ISO]]
    if len(dates) > max(2, len(check.header) / 2):
        ids = [name for name in check.header if name not in dates]
        return UserError(
            f"The names of {len(dates)} columns are times, the first {quoted(dates[0])}: a line is a series. Make a "
            f"line of each time: {_pandas_command(check, '', f'.melt({ids}, var_name={USUAL_NAMES[0]!r})')}"
        )
    return UserError(
        f"No column of {', '.join(map(quoted, check.header[:12]))} holds timestamps. {likely_calendar(cells)}If the "
        f"rows are steps that no calendar counts, set data.time_column=null data.freq={STEPS}; else say when they were "
        "measured, as data.time_column=null data.freq=h data.start=2016-07-01."
    )


def _check_units(check: FileCheck, cells: Mapping[str, Sequence[str]]) -> None:
    """UserError for a first row of words alone, also where the time should stand."""
    row = {name: column[0].strip() for name, column in cells.items()}
    words = [cell for cell in row.values() if NumberStyle().number(cell) is None]
    times = "".join(row[name] for name in check.layout.time_columns)
    if check.layout.time_columns and len(words) == len(row) and any(words) and not re.search(r"\d", times):
        line, _ = next(check.text.rows())
        raise UserError(
            f"Line {line} holds no time and no number, but words, as {quoted(max(words, key=len))}: units, it seems. "
            f"Leave it out: {_pandas_command(check, f', skiprows=[{line - 1}]', '')}"
        )


def _pandas_command(check: FileCheck, options: str, change: str) -> str:
    """What to type into a shell to write a file anew."""
    read = f"import pandas; pandas.read_csv({str(check.text.path)!r}, sep={check.text.separator!r}{options})"
    return f"python -c {shell_word(f'{read}{change}.to_csv({NEW_FILE!r}, index=False)')}"


def _decide_missing(check: FileCheck, columns: Sequence[RawColumn]) -> None:
    """Takes words and numbers that mark missing values, unless a number lies among those of another column."""
    style, reasons = NumberStyle(check.layout.decimal, check.layout.thousands), dict[Cell, str]()
    for column in columns:
        for mark, reason in guess_missing(column, style).items():
            others = [other.numbers for other in columns if other is not column]
            if isinstance(mark, str) or not any(is_between(mark, n) for n in others):
                reasons.setdefault(mark, f"column {quoted(column.name)}: {reason}")
    if reasons:
        check.set(f"data.missing={list(reasons)}: {'; '.join(reasons.values())}", missing=tuple(reasons))


def _check_rows(check: FileCheck, table: Table, columns: Sequence[RawColumn]) -> None:
    """UserError for rows that are no even series, nor several that are told apart: nobody but the writer can choose.

    columns: of its rows, those beside the time.
    """
    given, layout, names = check.given, check.layout, check.layout.time_columns
    if "duplicates" not in given and not given.get("id_column"):
        _check_series(check, table, columns)
    stamps = table.ordered()
    if not names or len(stamps) < 3 or layout.resample is not None or given.get("id_column"):
        return
    times = stamps.as_unit("ns").asi8
    times, note = on_grid(times, np.diff(times))
    stamps = pd.DatetimeIndex(times.view("datetime64[ns]"))
    if note is not None:
        check.findings.say(note)
    freq, counts = grid_frequency(stamps), bool((table.values > 0).all() and (table.values % 1 == 0).all())
    steps_keys = f"data.time_column=null data.freq={STEPS} {typed('data.drop', [*layout.drop, *names])}"
    absent = len(stamps) + 1 if freq is None else rows_missing(stamps, freq) or 0
    if freq != "B" and "gaps" not in given:
        check_closed(stamps, steps_keys)
    if absent > len(stamps) and not counts:
        check_even(table.take(np.flatnonzero(~np.isnan(table.values).all(axis=1))).ordered(), steps_keys)
    elif counts and _MANY_ABSENT * len(stamps) < absent <= len(stamps) and "gaps" not in given:
        check.set(
            f"data.gaps=zero: all values are whole numbers above 0, and {absent} rows are missing, as if rows of 0 "
            "were not written. If nobody counted then, set data.gaps=interpolate",
            gaps="zero",
        )


def _check_series(check: FileCheck, table: Table, columns: Sequence[RawColumn]) -> None:
    """UserError for rows of several series, and for those of one that repeat a time with other values."""
    rows = pd.DataFrame(table.values).assign(time=table.timestamps)
    repeats, differ = int(rows["time"].duplicated().sum()), rows.drop_duplicates()["time"].duplicated().any()
    some = f"{repeats} of {len(rows)} rows repeat a timestamp"
    below = bool(differ) and rows["time"].duplicated(keep=False).mean() > MOST_MISSING
    names, codes = find_ids(columns, table, below=below)
    if names:
        first = int((codes == np.bincount(codes).argmax()).argmax())
        cells = {column: column.cells([first])[0] for column in columns if column.name in names}
        ids = {column.name: cell if column.words else int(cell) for column, cell in cells.items()}
        check.ids, drop = names if repeats else (), f", or leave the column out with {typed('data.drop', list(names))}"
        raise UserError(
            f"{codes.max() + 1} series stand below one another{'' if repeats else ', it seems'}: "
            f"{f'{some}, and ' if repeats else ''}{' and '.join(map(quoted, names))} tell{'s' * (len(names) == 1)} "
            f"them apart. Read all as a panel with {typed('data.id_column', names[0] if len(names) == 1 else names)}, "
            f"or choose one, as {typed('data.where', {**(check.layout.where or {}), **ids})}"
            f"{'' if repeats else drop}."
        )
    if differ:
        raise UserError(
            f"{some} with other values. Set data.duplicates=last where later rows correct earlier ones, mean or sum; "
            "data.time_format where day and month may be exchanged; or add a column with the name of the series."
        )


def _drop_columns(check: FileCheck, table: Table, columns: Sequence[RawColumn]) -> None:
    """Leaves out columns most of which is missing, that say nothing, or that somebody plans, but what is typed.

    columns: of the table's rows, those beside the time. Where all of one kind would go, none does.
    """
    given, target = check.given, check.given.get("target")
    if {"columns", "where", "features", "resample"} & given.keys():
        return
    kept = {*columns_named(given)} - {target}
    names = [name for name in sorted(table.columns, key=lambda name: name != target) if name not in kept]
    frame = pd.DataFrame(table.values, columns=list(table.columns))[names]
    useless = useless_columns(frame)
    planned = {} if target is not None else planned_columns(frame.drop(columns=[*useless]))
    words = [column.name for column in columns if column.name not in kept and 2 <= len(column.words) <= FEW_WORDS]
    check.planned += [*planned, *(name for name in words if name not in table.columns)]
    bad: dict[str, str] = {}
    for reasons in (useless, planned):
        bad |= reasons if len({*bad, *reasons} - {target}) < len(table.columns) else {}
    bad.pop(f"{target}", None)
    if bad:
        drop, why = (*check.layout.drop, *bad), ", ".join(f"{quoted(name)} {reason}" for name, reason in bad.items())
        check.set(f"data.drop={hydra_value(drop)}: {why}", drop=drop)
