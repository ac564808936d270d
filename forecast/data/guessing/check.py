"""Everything that is wrong with a CSV file, all at once, and the command to train on it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from forecast.data.frame import series_of, table_to_frame
from forecast.data.gaps import large_hole, longest_part
from forecast.data.guessing.advice import (
    FEWEST_WINDOWS,
    Drift,
    find_drift,
    fitted_model,
    floor_setting,
    informer_settings,
    mostly_zero,
    note_columns,
)
from forecast.data.guessing.guess import Opened, open_file, read_guessed
from forecast.data.guessing.guess_rows import Given, Guess, Reading, Undecided, counts_above_zero, settings_of
from forecast.data.panel import PanelFrame
from forecast.data.reading.layout import USUAL, Cell, Layout
from forecast.data.reading.table import Table
from forecast.data.reading.workbook import SeveralSheets
from forecast.data.seasonality import CLEAR, Lengths, Season, Suggestion, suggest
from forecast.data.split import ANYWHERE, ShareSplit, WindowOrigins, panel_cuts, usable_windows
from forecast.data.values.findings import Findings, Gaps, quoted
from forecast.data.values.frequency import rows_missing
from forecast.errors import UserError, closest
from forecast.text.overrides import train_command
from forecast.text.terminal import listed

MANY_ABSENT = 0.05  # of the rows: counts without a 0 then lack the rows of nothing
LONG_GAP = 0.5  # of a season or of pred_len: a line drawn over more of it is no guess any more
_MOST_COMMANDS = 12
_PANEL = "all series, as a panel"


class Choice(NamedTuple):
    """A reading of a file of which there are several, and the whole command that takes it."""

    reading: str
    command: str


@dataclass
class FileCheck:
    """What is known of a file.

    readable: whether the strict reader reads it by `layout`, with data.gaps where something is to mend. reasons: of the
    choices in the layout that nobody else has made. command: the training that it is fit for, None as long as something
    must be mended or chosen first, and model what it trains; informer_command: another, of an Informer that fits the
    rows. kind: of a file that is no text. choices: where several readings give different data, one for each. season: of
    the target where one is named; runner_up: the next best. kept: columns with a role, which are not dropped.
    ids: the columns that tell several series apart, where they are named; all else is then of the longest of them.
    """

    path: str
    findings: Findings
    target: str | None = None
    features: str | None = None
    pred_len: int | None = None
    layout: Layout = field(default_factory=Layout)
    reasons: list[str] = field(default_factory=list)
    header: Sequence[str] = ()
    kind: str = ""
    rows: int = 0
    table: Table | None = None
    freq: str | None = None
    rows_missing: int = 0
    outliers: list[int] = field(default_factory=list)
    season: Season | None = None
    runner_up: Season | None = None
    lengths: Lengths | None = None
    suggestion: Suggestion | None = None
    drift: Drift | None = None
    readable: bool = False
    windows: dict[str, int] = field(default_factory=dict)
    model: str | None = None
    command: str | None = None
    informer_command: str | None = None
    kept: Collection[str] = ()
    ids: Sequence[str] = ()
    choices: list[Choice] = field(default_factory=list)

    @property
    def gaps(self) -> Gaps:
        """The rule for gaps, refuse where there are none."""
        return self.layout.gaps


def check_file(
    path: str,
    given: Given | None = None,
    *,
    target: str | None = None,
    features: str | None = None,
    pred_len: int | None = None,
    kept: Collection[str] = (),
    ids: Sequence[str] = (),
) -> FileCheck:
    """Reads a file that may be anything. Raises nothing that the file could cause.

    given: keys of the layout that are kept; the others are found. target: the column to forecast, whose season counts.
    features: as a `Source` has it; None forecasts a target from itself, without one all columns. pred_len: None for one
    that fits the file. kept: columns with a role, which stay although they say nothing. ids: those that tell several
    series apart.
    """
    chosen = dict(given or {})
    layout = USUAL.changed(chosen)
    check = FileCheck(path, Findings(path, strict=False), target, features, pred_len, layout, kept=kept, ids=ids)
    with np.errstate(over="ignore", invalid="ignore"):  # in the statistics of columns that reach the largest float
        try:
            opened = open_file(path, chosen, check.findings)
        except SeveralSheets as error:
            check.findings.error(str(error))
            for sheet in error.sheets:
                sheet_check = check_file(
                    path, {**chosen, "sheet": sheet}, target=target, pred_len=pred_len, kept=kept, ids=ids
                )
                check.choices += (
                    [Choice(f"sheet {sheet}", sheet_check.command)]
                    if sheet_check.command is not None
                    else sheet_check.choices
                )
            return check
        except UserError as error:
            check.findings.error(str(error))
            return check
        return _checked(check, opened, chosen)


def _checked(check: FileCheck, opened: Opened, given: Given) -> FileCheck:
    """The check of a file that is open; where it is undecided, with the command for each reading."""
    by_place = check.target is None and check.features in ("S", "MS")  # the target is the last column
    every = by_place or {"columns", "where"} & set(given)
    layout = USUAL.changed({**given, "separator": opened.text.separator})
    guess = Guess(layout, kept=None if every else check.kept, target=check.target, ids=check.ids)
    check.header, check.rows, check.kind = opened.header, opened.rows, opened.kind
    try:
        try:
            _read(check, opened, guess, given)
        finally:
            check.layout, check.reasons = guess.layout, guess.reasons
        check.readable = not check.findings.texts("error")
        if check.readable:
            _advise(check, given)
    except Undecided as error:
        if check.ids and tuple(check.ids) == error.ids:
            return _checked_panel(check, opened, given, error)
        check.findings.error(str(error))
        check.choices, check.rows = _choices(check, opened, given, error), opened.rows
    except UserError as error:
        check.findings.error(str(error))
    return check


def _checked_panel(check: FileCheck, opened: Opened, given: Given, undecided: Undecided) -> FileCheck:
    """The check of the longest series, with the commands for all of them."""
    name, settings = undecided.readings[0]
    alone = replace(check, ids=(), findings=Findings(check.path, strict=False), choices=[])
    alone = _checked(alone, opened, {**given, **settings})
    several = str(undecided).split(":")[0]
    alone.findings.add("note", f"{several}. All that is said is of the longest of them, {name}.")
    if alone.command is not None and alone.layout.resample is not None:
        alone.findings.error(
            "The rows of a series are at uneven times, and the series of a panel are not resampled. Resample the file."
        )
        alone.command = None
    elif alone.command is not None:
        alone.command = _panel_command(alone, undecided, where=USUAL.changed(given).where)
    return replace(alone, ids=check.ids, informer_command=None)


def _choices(check: FileCheck, opened: Opened, given: Given, undecided: Undecided) -> list[Choice]:
    """A command for each reading, and for each of what is undecided then."""
    choices: list[Choice] = []
    refused = []
    for description, settings in undecided.readings:
        again = Findings(check.path, strict=False)
        attempt = FileCheck(check.path, again, check.target, check.features, check.pred_len, kept=check.kept)
        attempt = _checked(attempt, opened, {**given, **settings})
        refused.append(attempt.findings.texts("error"))
        choices += [Choice(description, attempt.command)] if attempt.command is not None else []
        choices += [Choice(f"{description}, {reading}", command) for reading, command in attempt.choices]
        # The series of a panel are not resampled: at uneven times each is read alone.
        even = attempt.command is not None and attempt.layout is not None and attempt.layout.resample is None
        if undecided.ids and even and choices[0].reading != _PANEL:
            choices.insert(0, Choice(_PANEL, _panel_command(attempt, undecided, where=USUAL.changed(given).where)))
    if not choices and refused:  # what stands in the way of every reading, as a target that is no column
        for text in refused[0]:
            if all(text in texts for texts in refused):
                check.findings.error(text)
    return choices[:_MOST_COMMANDS]


def _panel_command(check: FileCheck, undecided: Undecided, *, where: Mapping[str, Cell] | None) -> str:
    """The training on all series, read as the one that was looked at; in others there may be gaps.

    where: what chose the rows before the series were told apart.
    """
    ids = undecided.ids
    kept = {
        key: tuple(name for name in getattr(check.layout, key) or () if name not in ids) for key in ("columns", "drop")
    }
    layout = replace(check.layout, where=where, columns=kept["columns"] or None, drop=kept["drop"])
    gaps = "interpolate" if layout.gaps == "refuse" else layout.gaps
    assert check.lengths is not None and check.suggestion is not None
    suggestion = check.suggestion._replace(pad=undecided.shortest < sum(check.lengths) - check.lengths.label_len)
    lengths = {key: value for key, value in check.lengths._asdict().items() if key != "label_len"}
    settings = {
        **_settings(check, replace(layout, gaps=gaps)),
        "data.id_column": ids[0] if len(ids) == 1 else list(ids),
        **suggestion.settings(),
    }
    return train_command("ridge", check.path, {**settings, **lengths})


def _read(check: FileCheck, opened: Opened, guess: Guess, given: Given) -> None:
    """Reads the file as the strict reader does, which would stop at the first error."""
    findings = check.findings
    like_numbers = [n for n in opened.header if n.replace(",", ".").replace(".", "", 1).lstrip("+-").isdigit()]
    if len(like_numbers) * 2 > len(opened.header):
        findings.add(
            "note",
            f"Names of columns look like numbers ({quoted(like_numbers[0])}). If they are a row, add names above it.",
        )
    table, spec = read_guessed(opened, guess, given, findings)
    check.table, check.freq = series_of(table, spec, findings)
    check.rows = len(check.table.values)
    check.rows_missing = 0 if check.freq is None else rows_missing(check.table.ordered(), check.freq) or 0
    check.outliers = note_columns(check.table, guess.layout, findings)
    if check.freq is None or spec.gaps == "zero" or check.table.timestamps.hasnans:
        return
    if hole := large_hole(check.table.ordered(), check.freq):
        readings = []
        if part := longest_part(check.table.ordered(), check.freq):
            readings.append(Reading("the longest part without a large hole", dict(part)))
        if counts_above_zero(check.table.values):
            readings.append(Reading("a row that is not there is a 0", {"gaps": "zero"}))
        if readings:
            findings[:] = [finding for finding in findings if not finding.text.endswith(hole[1:])]
            raise Undecided(f"{hole[:1].upper()}{hole[1:]}", readings)


def _advise(check: FileCheck, given: Given) -> None:
    """Finds season, lengths, the rule for gaps, drift and the commands for a file without errors."""
    assert check.table is not None and check.freq is not None
    frame = _without_gaps(check, given)
    assert check.suggestion is not None and check.lengths is not None
    parts = panel_cuts(check.suggestion.cut or ShareSplit(), frame, pred_len=check.lengths.pred_len)
    train, val = (range(int(parts[name].first[0]), int(parts[name].stop[0])) for name in ("train", "val"))
    check.drift = find_drift(frame.values, frame.columns, train=train, val=val)
    settings = {
        **_settings(check, check.layout),
        **floor_setting(dict(zip(frame.columns, frame.values.T, strict=True))),
        **check.suggestion.settings(),
    }
    lengths = check.lengths._asdict()
    if check.windows["train"] >= FEWEST_WINDOWS and check.windows["val"]:
        sizes = informer_settings(check.windows, check.lengths, drifts=check.drift is not None)
        check.informer_command = train_command("informer", check.path, {**settings, **lengths, **sizes})
    lengths.pop("label_len")  # of a decoder
    rare = _note_counts(check, frame)
    check.model, keys = fitted_model(check.windows, check.lengths, columns=len(frame.columns), intermittent=rare)
    check.command = train_command(check.model, check.path, {**settings, **lengths, **keys})


def _note_counts(check: FileCheck, frame: PanelFrame) -> bool:
    """Says which targets are counts, and which are intermittent; whether any is so."""
    columns = dict(zip(frame.columns, frame.values.T, strict=True))
    never_below = [name for name, column in columns.items() if (column >= 0).all() and len(np.unique(column)) > 2]
    steady = check.season is not None and check.season.autocorrelation >= CLEAR
    rare = {name: float((columns[name] == 0).mean()) for name in never_below if mostly_zero(columns[name])}
    rare = {} if steady else rare
    counts = [name for name in never_below if name not in rare and (columns[name] % 1 == 0).all()]
    if counts:
        check.findings.add(
            "note",
            f"Counts: the values of {listed(counts)} are whole numbers, none below 0. Forecasts may be fractions; with "
            "data.floor=0 neither they nor intervals are below 0.",
        )
    for name, share in rare.items():
        check.findings.add(
            "note",
            f"Column {quoted(name)}: {share:.0%} of the values are 0, none is below it, at no clear times: it is "
            "intermittent. A forecast is a mean of both, with data.floor=0 none is below 0; by the absolute error one "
            "of nothing but 0 would be best, so judge by the MSE.",
        )
    return bool(rare)


def _settings(check: FileCheck, layout: Layout) -> dict[str, object]:
    """The keys that choose a layout, and what is forecast."""
    settings = {f"data.{key}": value for key, value in settings_of(layout).items()}
    if settings.get("data.separator") == "\t":
        settings["data.separator"] = r"\t"
    if (features := check.features or ("S" if check.target is not None else None)) is not None:
        settings["data.features"] = features
    if check.target is not None:
        settings["data.target"] = check.target
    return settings


def _without_gaps(check: FileCheck, given: Given) -> PanelFrame:
    """The target, or all columns; sets season, lengths, windows and, unless given, the first rule for gaps that serves.

    UserError where no rule leaves every split a window.
    """
    assert check.table is not None and check.freq is not None
    target = _target(check)
    rules: tuple[Gaps, ...] = ("interpolate", "forward_fill", "mask") if check.findings.texts("mend") else ("refuse",)
    values = check.table.values[:, [check.table.columns.index(name) for name in target]]
    absent = rows_missing(check.table.timestamps, check.freq) or 0
    if counts_above_zero(values) and absent > MANY_ABSENT * (absent + len(values)):
        rules = ("zero", *rules)
        if "gaps" not in given:
            check.findings.add(
                "note",
                f"All values are whole numbers above 0, and {absent} rows are missing: a row of nothing was not "
                "written, it seems. The commands below read it as 0 (data.gaps=zero). If nobody counted then, write "
                "data.gaps=interpolate instead.",
            )
    gaps_given = "gaps" in given and check.gaps != "refuse"
    if gaps_given:
        rules = (check.gaps,)
    for gaps in rules:
        try:
            frame = table_to_frame(check.table, check.freq, gaps)
        except UserError:  # nothing before a gap, or after it: the last rule needs neither
            continue
        targets = [frame.columns.index(name) for name in target]
        suggestion = suggest(frame, ShareSplit(), targets=targets, pred_len=check.pred_len, is_free=True)
        check.season, check.runner_up = (*suggestion.seasons, None, None)[:2]
        check.suggestion, check.lengths = suggestion, suggestion.lengths
        gaps_used, check.windows = gaps, _windows(frame, suggestion)
        if (
            not gaps_given
            and gaps == "interpolate"
            and frame.repair.longest_run > LONG_GAP * max(check.lengths.pred_len, 2)
        ):
            masked = _windows(table_to_frame(check.table, check.freq, "mask"), suggestion)
            if all(masked.values()):
                gaps_used, check.windows = "mask", masked
        check.layout = replace(check.layout, gaps=gaps_used)
        if all(check.windows.values()):
            break
    assert check.suggestion is not None
    cut, empty = check.suggestion.cut, [name for name, count in check.windows.items() if not count]
    if empty and (cut is None or cut.val):
        raise UserError(
            f"With data.gaps={check.gaps} the gaps leave {', '.join(empty)} no window. Cut the file to a better part."
        )
    return frame.of(target)


def _target(check: FileCheck) -> tuple[str, ...]:
    """The columns whose season counts: the target, or all. UserError for a target that is not read."""
    assert check.table is not None
    names = check.table.columns
    if check.target is None:
        return names if check.features in (None, "M") else names[-1:]
    if check.target not in names:
        raise UserError(
            f"There is no column {quoted(check.target)} (data.target) among {', '.join(names)}."
            f"{closest(check.target, names)} Name one of them with --target."
        )
    return (check.target,)


def _windows(panel: PanelFrame, suggestion: Suggestion) -> dict[str, int]:
    """How many windows each split has."""
    lengths, counts = suggestion.lengths, {}
    sizes = {"seq_len": lengths.seq_len, "pred_len": lengths.pred_len}
    parts = panel_cuts(suggestion.cut or ShareSplit(), panel, pred_len=lengths.pred_len)
    context = 1 if suggestion.pad else lengths.seq_len
    for name in ANYWHERE:
        origins = WindowOrigins.of(parts[name], panel.offsets[:-1], context=context, pred_len=lengths.pred_len)
        chosen = usable_windows(panel, origins, **sizes)
        counts[name] = len(origins) if chosen is None else len(chosen)
    return counts
