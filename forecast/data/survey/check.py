"""The survey of one file: everything that is wrong with it, and the training that it is fit for."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from forecast.data.frame import SeriesFrame, read_frame
from forecast.data.gaps import Gaps
from forecast.data.split import ShareSplit, split_rows, window_rows
from forecast.data.survey.clock import Clock, looks_like_dates, survey_clock
from forecast.data.survey.columns import Column, guess_decimal, survey_column
from forecast.data.survey.command import train_command
from forecast.data.survey.findings import Finding
from forecast.data.survey.season import Lengths, Season, find_season, suggest_lengths
from forecast.data.survey.text import RawTable, read_raw
from forecast.data.window_gaps import open_windows
from forecast.errors import UserError

TIME_NAMES = ("date", "datetime", "timestamp", "time")
USUAL = {"data.separator": ",", "data.decimal": ".", "data.time_column": "date"}
LONG_GAP = 0.5  # of a season or of pred_len: a line drawn over more of it is no guess any more


@dataclass
class Survey:
    """What is known of a file. command: None as long as something must be mended first."""

    path: str
    findings: list[Finding] = field(default_factory=list)
    table: RawTable | None = None
    time_column: str | None = None
    decimal: str = "."
    clock: Clock | None = None
    columns: list[Column] = field(default_factory=list)
    season: Season | None = None
    lengths: Lengths | None = None
    gaps: Gaps = "refuse"
    windows: dict[str, int] = field(default_factory=dict)
    command: str | None = None


def survey_file(
    path: str, *, separator: str | None = None, decimal: str | None = None, time_column: str | None = None
) -> Survey:
    """Reads a file that may be anything; None is guessed. Raises nothing that the file could cause."""
    survey = Survey(path)
    survey.table, survey.findings = read_raw(Path(path), separator)
    if survey.table is None:
        return survey
    table = survey.table
    survey.time_column = time_column or _guess_time_column(table)
    if survey.time_column not in table.header:
        survey.findings.append(_no_time_column(table, time_column))
        return survey
    at = table.header.index(survey.time_column)
    if not table.rows:
        survey.findings.append(Finding("stop", "There is a header and no row below it."))
        return survey
    survey.clock = survey_clock(table.column(at), table.lines)
    survey.findings += survey.clock.findings
    _survey_columns(survey, table, at, decimal)
    if not any(finding.level == "stop" for finding in survey.findings):
        _advise(survey)
    return survey


def _guess_time_column(table: RawTable) -> str | None:
    """The column of dates; `date` and the like when none is seen."""
    shares = [looks_like_dates(table.column(i)[:1000]) for i in range(len(table.header))]
    best = int(np.argmax(shares))
    if shares[best] > 0.5:
        return table.header[best]
    return next((name for usual in TIME_NAMES for name in table.header if name.lower() == usual), None)


def _no_time_column(table: RawTable, asked: str | None) -> Finding:
    names = ", ".join(table.header[:12]) + (", ..." if len(table.header) > 12 else "")
    if asked is not None:
        return Finding("stop", f"There is no column '{asked}' among {names}. Name one of them with --time_column.")
    return Finding("stop", f"No column of {names} holds timestamps. Add one, the year first, as 2016-07-01 00:00:00.")


def _survey_columns(survey: Survey, table: RawTable, at: int, decimal: str | None) -> None:
    cells = {i: table.column(i) for i in range(len(table.header)) if i != at}
    if not cells:
        survey.findings.append(Finding("stop", f"There is no column beside '{table.header[at]}'. Add one of numbers."))
    survey.decimal = decimal or guess_decimal(list(cells.values()))
    if survey.decimal == table.separator:
        text = (
            f"Cells and decimals are both separated by {table.separator!r}. Write the file with another separator, as ;"
        )
        survey.findings.append(Finding("stop", f"{text}."))
    survey.columns = [survey_column(table.header[i], cells[i], table.lines, survey.decimal) for i in cells]
    survey.findings += [finding for column in survey.columns for finding in column.findings]


def _advise(survey: Survey) -> None:
    """Finds season, lengths and the rule for gaps, by reading the file as a training would."""
    try:
        survey.gaps, frame = _first_that_reads(survey)
        survey.season = find_season(frame.values, frame.freq)
        survey.lengths = suggest_lengths(len(frame), survey.season)
        if survey.lengths is None:
            raise UserError(
                f"{len(frame)} rows are too few to train on: cut into train, val and test they hold no windows."
            )
        survey.windows = _windows(frame, survey.lengths)
    except UserError as error:
        survey.findings.append(Finding("stop", str(error)))
        return
    empty = [name for name, count in survey.windows.items() if not count]
    if empty:
        text = (
            f"With data.gaps={survey.gaps} the gaps leave {', '.join(empty)} no window. Cut the file to a better part."
        )
        survey.findings.append(Finding("stop", text))
        return
    survey.command = _command(survey)


def _layout(survey: Survey) -> dict[str, str]:
    assert survey.table is not None and survey.time_column is not None
    return {"separator": survey.table.separator, "decimal": survey.decimal, "time_column": survey.time_column}


def _first_that_reads(survey: Survey) -> tuple[Gaps, SeriesFrame]:
    """The best rule for the gaps of this file, and the frame that the strict reader makes with it."""
    if not any(finding.level == "gap" for finding in survey.findings):
        return "refuse", read_frame(survey.path, gaps="refuse", **_layout(survey))
    errors = []
    rules: tuple[Gaps, ...] = ("interpolate", "forward_fill", "mask")
    for gaps in rules:
        try:
            frame = read_frame(survey.path, gaps=gaps, **_layout(survey))
        except UserError as error:
            errors.append(error)
            continue
        season = find_season(frame.values, frame.freq)
        lengths = suggest_lengths(len(frame), season)
        if lengths is None or not all(_windows(frame, lengths).values()):
            continue
        if gaps == "interpolate" and frame.repair.longest_run > LONG_GAP * max(lengths.pred_len, 2):
            masked = read_frame(survey.path, gaps="mask", **_layout(survey))
            if all(_windows(masked, lengths).values()):
                return "mask", masked
        return gaps, frame
    if errors:
        raise errors[0]
    return "mask", read_frame(survey.path, gaps="mask", **_layout(survey))


def _windows(frame: SeriesFrame, lengths: Lengths) -> dict[str, int]:
    """How many windows each split has."""
    sizes = {"seq_len": lengths.seq_len, "pred_len": lengths.pred_len}
    found = {}
    for name, rows in split_rows(frame, ShareSplit(), **sizes).items():
        inside = window_rows(rows, seq_len=lengths.seq_len)
        chosen = open_windows(frame, inside, **sizes)
        found[name] = len(inside) - sum(sizes.values()) + 1 if chosen is None else len(chosen)
    return found


def _command(survey: Survey) -> str:
    layout = {f"data.{key}": value for key, value in _layout(survey).items()}
    settings: dict[str, str | int] = {key: value for key, value in layout.items() if value != USUAL[key]}
    settings = {key: r"\t" if value == "\t" else value for key, value in settings.items()}
    if survey.gaps != "refuse":
        settings["data.gaps"] = survey.gaps
    assert survey.lengths is not None
    return train_command(survey.path, {**settings, **survey.lengths._asdict()})
