"""Everything that is wrong with a CSV file, all at once, and the command to train on it."""

from collections.abc import Sequence
from csv import QUOTE_NONE
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from forecast.data.column_notes import note_columns
from forecast.data.csv_columns import Table, TableSpec, guess_decimal
from forecast.data.csv_text import DATE, CsvText, guess_separator, valid_separator
from forecast.data.findings import Findings, Gaps, counted, quoted
from forecast.data.frame import SeriesFrame, read_series, table_to_frame
from forecast.data.frequency import rows_missing
from forecast.data.seasonality import Lengths, Season, find_season, suggest_lengths
from forecast.data.split import ShareSplit, split_rows, window_rows
from forecast.data.train_command import train_command
from forecast.data.window_gaps import usable_windows
from forecast.errors import UserError
from forecast.text.terminal import listed

LONG_GAP = 0.5  # of a season or of pred_len: a line drawn over more of it is no guess any more
_TIME_NAMES = ("date", "datetime", "timestamp", "time")
_USUAL = {"data.separator": ",", "data.decimal": ".", "data.time_column": "date"}
_SAMPLE_ROWS, _SAMPLE_CHARACTERS = 1_000, 1 << 20  # that layouts are guessed from


@dataclass
class FileCheck:
    """What is known of a file.

    readable: whether the strict reader reads it, with data.gaps where something is to mend. command: the training
    that it is fit for, None as long as something must be mended first.
    """

    path: str
    findings: Findings
    separator: str = ","
    decimal: str = "."
    time_column: str | None = None
    header: Sequence[str] = ()
    rows: int = 0
    table: Table | None = None
    freq: str | None = None
    rows_missing: int = 0
    outliers: list[int] = field(default_factory=list)
    season: Season | None = None
    lengths: Lengths | None = None
    readable: bool = False
    gaps: Gaps = "refuse"
    windows: dict[str, int] = field(default_factory=dict)
    command: str | None = None


def check_file(
    path: str, *, separator: str | None = None, decimal: str | None = None, time_column: str | None = None
) -> FileCheck:
    """Reads a file that may be anything; None is guessed. Raises nothing that the file could cause."""
    check = FileCheck(path, Findings(path, strict=False))
    with np.errstate(over="ignore", invalid="ignore"):  # in the statistics of columns that reach the largest float
        try:
            _read(check, _guess_layout(check, separator, decimal, time_column))
            check.readable = not check.findings.texts("error")
            if check.readable:
                _advise(check)
        except UserError as error:
            check.findings.error(str(error))
    return check


def _guess_layout(check: FileCheck, separator: str | None, decimal: str | None, time_column: str | None) -> CsvText:
    """The text of the file; the check learns its separator, header, time column and decimal, guessed where None."""
    text = CsvText(Path(check.path), valid_separator(separator or ",")).verified(check.findings)
    if separator is None:
        with text.open() as file:
            text = replace(text, separator=guess_separator(file.read(_SAMPLE_CHARACTERS)))
    try:
        sample = [cells for _, cells in islice(text.records(), 1 + _SAMPLE_ROWS)]
    except UserError:  # after an open quote, which is found as the cells are read
        sample = [cells for _, cells in islice(replace(text, quoting=QUOTE_NONE).records(), 1 + _SAMPLE_ROWS)]
    check.separator, check.header = text.separator, sample[0] if sample else ()
    columns = [[row[place] for row in sample[1:] if place < len(row)] for place in range(len(check.header))]
    shares = [np.mean([bool(DATE.match(cell)) for cell in cells if cell.strip()] or [False]) for cells in columns]
    if shares and max(shares) > 0.5:
        dates: str | None = check.header[int(np.argmax(shares))]
    else:
        dates = next((name for usual in _TIME_NAMES for name in check.header if name.lower() == usual), None)
    check.time_column = time_column or dates
    time = next((place for place, name in enumerate(check.header) if name == check.time_column), None)
    check.decimal = decimal or guess_decimal([cells for place, cells in enumerate(columns) if place != time])
    if check.header and time is None:
        check.rows = sum(1 for _ in text.rows())
        names = listed(check.header[:12]) + (", ..." if len(check.header) > 12 else "")
        if time_column is not None:
            raise UserError(f"There is no column {quoted(time_column)} among {names}. Name one with --time_column.")
        raise UserError(f"No column of {names} holds timestamps. Add one, the year first, as 2016-07-01 00:00:00.")
    return text


def _read(check: FileCheck, text: CsvText) -> None:
    """Reads the file as the strict reader does, which would stop at the first error."""
    findings, time_column = check.findings, check.time_column or "date"
    header = text.header(time_column, findings)
    time = header.index(time_column)
    like_numbers = [name for name in header if name.replace(",", ".").replace(".", "", 1).lstrip("+-").isdigit()]
    if len(like_numbers) * 2 > len(header):
        findings.add(
            "note",
            f"Names of columns look like numbers ({quoted(like_numbers[0])}). If they are a row, add names above it.",
        )
    numbers = [place for place in range(len(header)) if place != time]
    spec = TableSpec(header=header, time=time, numbers=numbers, decimal=check.decimal, gaps="mask")
    check.table, check.freq = read_series(text, spec, findings)
    check.rows = len(check.table.values)
    check.rows_missing = 0 if check.freq is None else rows_missing(check.table.ordered(), check.freq) or 0
    check.outliers = note_columns(check.table, findings)
    short = [(line, cells) for line, cells in check.table.text.rows() if len(cells) < len(header)]
    if short:
        line, cells = short[0]
        findings.add(
            "note",
            f"Line {line} has {counted(len(cells), 'cell')} of {len(header)}; so short are "
            f"{counted(len(short), 'line')}. What they lack counts as missing.",
        )


def _advise(check: FileCheck) -> None:
    """Finds season, lengths, the rule for gaps and the command for a file without errors."""
    assert check.table is not None and check.freq is not None and check.time_column is not None
    rules: tuple[Gaps, ...] = ("interpolate", "forward_fill", "mask") if check.findings.texts("mend") else ("refuse",)
    for gaps in rules:
        try:
            frame = table_to_frame(check.table, check.freq, gaps)
        except UserError:  # nothing before a gap, or after it: the last rule needs neither
            continue
        check.season = find_season(frame.values, frame.freq)
        check.lengths = suggest_lengths(len(frame), check.season)
        if check.lengths is None:
            continue
        check.gaps, check.windows = gaps, _windows(frame, check.lengths)
        if gaps == "interpolate" and frame.repair.longest_run > LONG_GAP * max(check.lengths.pred_len, 2):
            masked = _windows(table_to_frame(check.table, check.freq, "mask"), check.lengths)
            if all(masked.values()):
                check.gaps, check.windows = "mask", masked
        if all(check.windows.values()):
            break
    if check.lengths is None:
        rows = len(frame)
        raise UserError(f"{rows} rows are too few to train on: cut into train, val and test they hold no windows.")
    empty = [name for name, count in check.windows.items() if not count]
    if empty:
        raise UserError(
            f"With data.gaps={check.gaps} the gaps leave {', '.join(empty)} no window. Cut the file to a better part."
        )
    layout = {"separator": check.separator, "decimal": check.decimal, "time_column": check.time_column}
    settings = {f"data.{key}": r"\t" if value == "\t" else value for key, value in layout.items()}
    settings = {key: value for key, value in settings.items() if value != _USUAL[key]}
    if check.gaps != "refuse":
        settings["data.gaps"] = check.gaps
    check.command = train_command(check.path, {**settings, **check.lengths._asdict()})


def _windows(frame: SeriesFrame, lengths: Lengths) -> dict[str, int]:
    """How many windows each split has."""
    sizes = {"seq_len": lengths.seq_len, "pred_len": lengths.pred_len}
    counts = {}
    for name, rows in split_rows(frame, ShareSplit(), **sizes).items():
        inside = window_rows(rows, seq_len=lengths.seq_len)
        chosen = usable_windows(frame, inside, **sizes)
        counts[name] = len(inside) - sum(sizes.values()) + 1 if chosen is None else len(chosen)
    return counts
