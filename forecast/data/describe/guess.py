"""The layout of a file whose writer is not here to be asked: each choice with its reason.

What several layouts read differently is refused, with the keys that choose.
"""

import calendar
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice, zip_longest

import numpy as np
import pandas as pd

from forecast.data.describe.columns import (
    FEW_WORDS,
    USUAL_NAMES,
    are_counts,
    check_closed,
    check_even,
    counting_keys,
    find_ids,
    find_times,
    likely_calendar,
    planned_columns,
    useless_columns,
)
from forecast.data.grid import MOST_MISSING
from forecast.data.reading.columns import (
    MISSING_SPELLINGS,
    NumberStyle,
    RawColumn,
    as_typed,
    check_text,
    guess_missing,
    guess_style,
    is_number,
    without_units,
)
from forecast.data.reading.content import CsvText, guess_separator
from forecast.data.reading.layout import STEPS, USUAL, Cell, Layout, columns_named, within
from forecast.data.reading.table import Table, TableSpec, read_columns, table_of
from forecast.data.reading.time_formats import ISO, possible_formats
from forecast.data.rows import PanelRows
from forecast.data.seasonality import Suggestion
from forecast.data.values.calendar import grid_frequency, rows_missing
from forecast.data.values.cells import Findings, quoted
from forecast.errors import UserError
from forecast.text.overrides import hydra_value, typed
from forecast.text.terminal import listed, shell_word

_SAMPLE_ROWS, _SAMPLE_CHARACTERS = 2_000, 1 << 20  # that show how separators, times and numbers are written
_HEAD = 8  # rows, of which the first may hold units
_WORDS, _DIGITS = re.compile(r"[^\W\d_]+"), re.compile(r"\d+")
_NOTE = re.compile(r" \[\w+\]$")  # behind a year, as the World Bank writes it
# A cell that another one may equal as a number alone, or beside which NA is a country.
_ID = re.compile(rf"0\d+|\d+[eE]\d+|(?!(?:{'|'.join(map(re.escape, MISSING_SPELLINGS))})$)[A-Za-z]+", re.ASCII)

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
            check.set(
                f"data.separator: {separator!r} cuts the header and the rows alike",
                separator=separator.replace("\t", r"\t"),
            )
    check.header = check.text.header((), check.findings)
    by_column = zip_longest(
        check.header, *(cells for _, cells in islice(check.text.rows(), _SAMPLE_ROWS)), fillvalue=""
    )
    return {name: column for name, (_, *column) in zip(check.header, by_column, strict=False)}


def read_guessed(check: FileCheck, cells: Mapping[str, Sequence[str]]) -> Table:
    """The rows of a file as they stand there; UserError where several readings give different data."""
    if "time_column" not in check.given:
        _decide_time(check, cells)
    check.layout.check()
    check.text.header(check.layout.time_columns, check.findings)
    spec = TableSpec.of(check.header, check.layout, str(check.text.path))
    _check_units(check)
    if check.text.table is None and not {"decimal", "thousands"} & check.given.keys():
        raw = [RawColumn.of_cells(name, pd.Series(column, dtype=object)) for name, column in cells.items()]
        style, cell = guess_style([without_units(raw[place], check.layout.units) for place in spec.candidates])
        if settings := NumberStyle().settings(style):
            check.set(
                f"{as_typed(settings)}: {cell}",
                **{key.removeprefix("data."): value for key, value in settings.items()},
            )
    words = {*check.layout.time_columns, *columns_named({key: check.given.get(key) for key in ("where", "id_column")})}
    spec, places = replace(spec, layout=check.layout), enumerate(check.header)
    columns = read_columns(
        check.text, spec, words=[n for n, name in places if name in words or any(map(_ID.fullmatch, cells[name]))]
    )
    times = [columns[check.header.index(name)] for name in check.layout.time_columns]
    if len(times) == 2 and "25" in times[1].words and "26" not in times[1].words:
        check.set(f"time: no hour, for {quoted(times[1].name)} counts a 25th one", time_column=times[0].name)
    dropped = [*check.layout.drop, *columns_named({"id_column": check.given.get("id_column")})]
    spec = replace(spec, layout=replace(check.layout, drop=dropped))
    if "missing" not in check.given:
        _decide_missing(check, [columns[place] for place in spec.candidates], spec.style)
    spec = replace(spec, layout=replace(spec.layout, missing=check.layout.missing))
    check_text([columns[place] for place in spec.candidates], spec.style, spec.layout.units, check.layout.drop)
    table = table_of(check.text, columns, spec, check.findings)
    chosen = within(table.timestamps, check.layout, check.findings.path)
    table = table if chosen is None else table.take(chosen)
    others = [column for column in columns if column.name not in {*check.layout.time_columns, *check.layout.drop}]
    others = others if table.origin is None else [column.take(table.origin) for column in others]
    if "duplicates" not in check.given and not check.given.get("id_column"):
        _check_series(check, table, others)
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
        choices = (typed("data.time_column", key) for key in keys)
        raise UserError(f"{len(times)} times stand in the columns, and differ. Set {' or '.join(choices)}.")
    months = [name for name in check.header if name[:3].title() in calendar.month_abbr[1:]]
    if len(months) == len(calendar.month_abbr) - 1 and len(times) == 1:
        by_year = f".set_index({times[0][0]!r})[{months}].rename_axis(columns='month').stack().rename('value')"
        raise UserError(
            f"The columns {listed(months)} are the months of a line. Make a line of each month: "
            f"{_pandas_command(check, [], f'{by_year}.reset_index()')}, or read {len(months)} series of a row a line: "
            f"{typed('data.time_column', keys[0])}."
        )
    if not times:
        check.set("data.time_column=null: no column holds timestamps", time_column=None)
    elif keys[0] != USUAL.time_column:
        reason = f"column {quoted(*times[0])}" if len(times[0]) == 1 else f"columns {listed(times[0])}"
        check.set(f"time: {reason}", time_column=keys[0])


def _no_time(check: FileCheck, cells: Mapping[str, Sequence[str]]) -> UserError:
    """What to say of a file in which no time is found: what looks like one, and the keys that do without."""
    dates = [name for name in check.header if possible_formats([_NOTE.sub("", name)]) != [ISO]]
    if len(dates) > max(2, len(check.header) / 2):
        ids = [name for name in check.header if name not in dates]
        bare = ".rename(columns=lambda name: name.split(' [')[0])" if _NOTE.search(dates[0]) else ""
        return UserError(
            f"The names of {len(dates)} columns are times, the first {quoted(dates[0])}: a line is a series. Make a "
            f"line of each time: {_pandas_command(check, [], f'{bare}.melt({ids}, var_name={USUAL_NAMES[0]!r})')}"
        )
    return UserError(
        f"No column of {', '.join(map(quoted, check.header[:12]))} holds timestamps. {likely_calendar(cells)}If the "
        f"rows are steps that no calendar counts, set data.time_column=null data.freq={STEPS}; else say when they were "
        "measured, as data.time_column=null data.freq=h data.start=2016-07-01."
    )


def _check_units(check: FileCheck) -> None:
    """UserError for first rows of words alone, in which the time is not written as in those below."""
    rows = [(line, [cell.strip() for cell in cells]) for line, cells in islice(check.text.rows(), _HEAD)]
    times = {check.header.index(name) for name in check.layout.time_columns}
    shapes = [
        [_WORDS.sub("a", _DIGITS.sub("0", cell)) for n, cell in enumerate(cells) if n in times] for _, cells in rows
    ]
    first = next((number for number, shape in enumerate(shapes) if shape == shapes[-1]), 0)
    words = [cell for _, cells in rows[:first] for cell in cells]
    if any(words) and not any(map(is_number, words)):
        lines = [line for line, _ in rows[:first]]
        raise UserError(
            f"Line {listed(map(str, lines))} holds no time and no number, but words, as "
            f"{quoted(max(words, key=len))}: units, it seems. Leave it out: {_pandas_command(check, lines, '')}"
        )


def _pandas_command(check: FileCheck, lines: Sequence[int], change: str) -> str:
    """What to type into a shell to write a file anew, without some lines and those above the header; cells as text."""
    kind = f"csv({str(check.text.path)!r}, sep={check.text.separator!r}"
    if check.text.table is not None:
        kind = f"excel({str(check.text.path)!r}, sheet_name={check.layout.sheet or 0!r}"
    header, _ = next(check.text.records())
    skipped = [*range(header - 1), *(line - 1 for line in lines)]
    read = f"import pandas; pandas.read_{kind}, dtype=str, keep_default_na=False, skiprows={skipped})"
    return f"python -c {shell_word(f'{read}{change}.to_csv({NEW_FILE!r}, index=False)')}"


def _decide_missing(check: FileCheck, columns: Sequence[RawColumn], style: NumberStyle) -> None:
    """Takes words and numbers that mark missing values, unless a number lies among those of another column."""
    reasons = dict[Cell, str]()
    for column in columns:
        for mark, reason in guess_missing(column, style).items():
            others = [other.numbers for other in columns if other is not column and (other.numbers == mark).any()]
            if isinstance(mark, str) or not any((n < mark).any() and (n > mark).any() for n in others):
                reasons.setdefault(mark, f"column {quoted(column.name)}: {reason}")
    if reasons:
        check.set(f"data.missing={list(reasons)}: {'; '.join(reasons.values())}", missing=tuple(reasons))


def check_steps(check: FileCheck, rows: PanelRows) -> None:
    """UserError for sorted rows that are no even series, and for days or hours without any: their writer can choose."""
    given, drop = check.given, [*check.layout.drop, *check.layout.time_columns]
    begin, end = rows.offsets[rows.lengths.argmax() :][:2]
    if rows.stepped or not check.layout.time_columns or check.layout.resample is not None or end - begin < 3:
        return
    stamps = pd.DatetimeIndex(rows.times.view("datetime64[ns]"))
    longest, held = stamps[begin:end], ~np.isnan(rows.values[begin:end]).all(axis=1)
    freq, steps_keys = grid_frequency(longest), f"data.time_column=null data.freq={STEPS} {typed('data.drop', drop)}"
    if "gaps" not in given:
        check_closed(rows.series, stamps, freq, steps_keys)
    if freq is None or ((rows_missing(longest, freq) or 0) > len(longest) and not are_counts(rows.values)):
        check_even(longest[held], steps_keys)


def _check_series(check: FileCheck, table: Table, columns: Sequence[RawColumn]) -> None:
    """UserError for rows of several series, and for those of one that repeat a time with other values."""
    rows = pd.DataFrame(table.values).assign(time=table.timestamps)
    texts = {column.name: column.codes for column in columns if column.name not in table.columns}  # orders, say, differ
    rows = pd.concat([rows, pd.DataFrame(texts)], axis=1)
    repeats, differ = int(rows["time"].duplicated().sum()), rows.drop_duplicates()["time"].duplicated().any()
    some = f"{repeats} of {len(rows)} rows repeat a timestamp"
    below = bool(differ) and rows["time"].duplicated(keep=False).mean() > MOST_MISSING
    names, codes = find_ids(columns, table, below=below)
    if names:
        first = int((codes == np.bincount(codes).argmax()).argmax())
        cells = {column: column.cells([first])[0] for column in columns if column.name in names}
        ids = {column.name: cell if column.words else int(cell) for column, cell in cells.items()}
        aside = [*check.layout.drop, *check.layout.time_columns, *names]
        counting = counting_keys(next(iter(cells)), table.timestamps, aside) if repeats else ""
        check.ids, drop = names if repeats else (), f", or leave the column out with {typed('data.drop', list(names))}"
        raise UserError(
            f"{codes.max() + 1} series stand below one another{'' if repeats else ', it seems'}: "
            f"{f'{some}, and ' if repeats else ''}{' and '.join(map(quoted, names))} tell{'s' * (len(names) == 1)} "
            f"them apart. Read all as a panel with {typed('data.id_column', names[0] if len(names) == 1 else names)}, "
            f"or choose one, as {typed('data.where', {**(check.layout.where or {}), **ids})}"
            f"{drop if not repeats else f', or, if it counts the parts of a day, {counting}' if counting else ''}."
        )
    if differ:
        raise UserError(
            f"{some} with other values. Set data.duplicates=last where later rows correct earlier ones, mean or sum; "
            "data.time_format where day and month may be exchanged; or add a column with the name of the series."
        )
    if repeats:
        check.findings.say(f"{some} with equal values, and count once; data.duplicates=sum adds them.")


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
    useless = useless_columns(frame, table.timestamps)
    planned = {} if target is not None else planned_columns(frame.drop(columns=[*useless]))
    words = (column.name for column in columns if column.name not in kept and 2 <= len(column.words) <= FEW_WORDS)
    bad: dict[str, str] = {}
    for reasons in (useless, planned):
        bad |= reasons if len({*bad, *reasons} - {target}) < len(table.columns) else {}
    check.planned += dict.fromkeys(n for n in (*planned, *words) if n in bad or n not in table.columns)
    bad.pop(f"{target}", None)
    if bad:
        drop, why = (*check.layout.drop, *bad), ", ".join(f"{quoted(name)} {reason}" for name, reason in bad.items())
        check.set(f"data.drop={hydra_value(drop)}: {why}", drop=drop)
