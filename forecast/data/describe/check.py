"""What is wrong with a file of any kind, all at once, and the command to train on it."""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import get_type_hints

import numpy as np

from forecast.bounds import Text
from forecast.data.assembling.read import source_rows
from forecast.data.assembling.regular import MissingRows
from forecast.data.describe.advice import (
    FEWEST_WINDOWS,
    Drift,
    find_drift,
    fitted_model,
    informer_settings,
    mostly_zero,
    zero_notes,
)
from forecast.data.describe.columns import SeveralSeries
from forecast.data.describe.guess import Given, Guess, open_file, read_guessed, settings_of
from forecast.data.panel import PanelFrame
from forecast.data.reading.csv_text import CsvText
from forecast.data.reading.layout import Layout, columns_named
from forecast.data.reading.table import Table
from forecast.data.roles import Roles
from forecast.data.seasonality import CLEAR, Suggestion, suggest
from forecast.data.sources import CsvSource
from forecast.data.split import ANYWHERE, ShareSplit, WindowOrigins, panel_cuts, usable_windows
from forecast.data.values.findings import Findings
from forecast.errors import UserError
from forecast.text.overrides import hydra_value, train_words, typed_word
from forecast.text.terminal import listed, quiet_output

LONG_GAP = 0.5  # of a season or of pred_len: a line drawn over more of it is no guess any more
PROPOSAL = "Known in advance?"  # in the note on columns that are not used
ROLES = [key.name for key in fields(Roles)]


def known_keys() -> dict[str, object]:
    """The keys of data=csv that a check takes, each with its type; of targets it takes one."""
    types = get_type_hints(CsvSource, include_extras=True)
    names = [*(key.name for key in fields(Layout)), *ROLES, "features", "id_column"]
    return {**{name: types[name] for name in names}, "target": Text | None}


@dataclass
class FileCheck(Guess):
    """What is known of a file.

    command: the words of the training that it is fit for, None as long as something must be mended or typed first, and
    model what that trains; informer_command: those of an Informer that fits the rows. ids: the columns that tell
    several series apart, where nobody named them.
    """

    table: Table | None = None
    freq: str | None = None
    suggestion: Suggestion | None = None
    windows: dict[str, int] = field(default_factory=dict)
    drift: Drift | None = None
    model: str = "ridge"
    command: list[str] | None = None
    informer_command: list[str] | None = None
    ids: tuple[str, ...] = ()


def check_file(path: str, given: Given | None = None, *, pred_len: int | None = None) -> FileCheck:
    """Reads a file that may be anything. Raises nothing that the file could cause.

    given: keys of data=csv that are typed; the others are found. pred_len: None for one that fits the file.
    """
    check = FileCheck(CsvText(Path(path), ","), dict(given or {}), Findings(path))
    # the first, as in the statistics of columns that reach the largest float; the second, as findings say it
    with np.errstate(over="ignore", invalid="ignore"), quiet_output():
        try:
            open_file(check)
            check.table = read_guessed(check)
            _advise(check, check.table, pred_len)
        except UserError as error:
            for line in str(error).splitlines():
                check.findings.add("error", line)
            check.ids = error.ids if isinstance(error, SeveralSeries) else ()
    return check


def _advise(check: FileCheck, table: Table, pred_len: int | None) -> None:
    """Finds season, lengths, the rule for gaps, drift and the commands for a file without errors."""
    use = {key: check.given[key] for key in ("features", "target", *ROLES) if check.given.get(key)}
    free = [name for name in table.columns if name not in columns_named(use)]
    if "target" in use and not use.keys() & {"features", *ROLES}:
        use = {"features": "S", **use}
    elif "target" not in use and free and use.keys() & {*ROLES}:
        use = {"target": free[-1], **use}
    several = {"id_column": check.given["id_column"]} if check.has_ids else {}
    keys = {**settings_of(check.layout), **several, **use}
    source = CsvSource(path=check.findings.path, split=ShareSplit(), **{"target": None, **keys})  # type: ignore[arg-type]
    try:
        frame = source_rows(source)
    except MissingRows as error:
        if "gaps" in check.given:
            raise
        check.findings.add("mend", str(error))
        check.layout, keys["gaps"] = replace(check.layout, gaps="interpolate"), "interpolate"
        source = replace(source, gaps="interpolate")
        frame = source_rows(source)
        filled = frame.repair
        check.findings.add(
            "mend",
            f"{filled.rows_added} rows and {filled.cells_filled} cells are missing, at most {filled.longest_run} in "
            "succession.",
        )
    targets = source.target_columns(frame)
    fit = suggest(frame, ShareSplit(), targets=targets, pred_len=pred_len, is_free=True)
    check.freq, check.suggestion, check.windows = frame.freq, fit, _windows(frame, fit)
    long = frame.repair.longest_run > LONG_GAP * max(fit.lengths.pred_len, 2)
    if long and "gaps" not in check.given and check.layout.gaps == "interpolate":
        masked = _windows(source_rows(replace(source, gaps="mask")), fit)
        if all(masked.values()):
            check.layout, check.windows, keys["gaps"] = replace(check.layout, gaps="mask"), masked, "mask"
    empty = [name for name, count in check.windows.items() if not count]
    if empty and (fit.cut is None or fit.cut.val):
        raise UserError(
            f"With data.gaps={check.layout.gaps} the gaps leave {', '.join(empty)} no window. Cut the file to a better "
            "part."
        )
    names = [frame.columns[place] for place in targets]
    steady = bool(fit.seasons) and fit.seasons[0].autocorrelation >= CLEAR
    _note(check, fit, frame, names)
    settings = {**{f"data.{key}": value for key, value in keys.items()}, **fit.settings()}
    sizes = fit.lengths._asdict()
    if len(frame) == 1 and check.windows["train"] >= FEWEST_WINDOWS and check.windows["val"]:
        of_informer = informer_settings(check.windows, fit.lengths, drifts=check.drift is not None)
        check.informer_command = train_words("informer", check.findings.path, {**settings, **sizes, **of_informer})
    sizes.pop("label_len")  # of a decoder
    rare = not steady and any(mostly_zero(frame.values[:, place]) for place in targets)
    check.model, model_keys = fitted_model(check.windows, fit.lengths, columns=len(targets), intermittent=rare)
    check.command = train_words(check.model, check.findings.path, {**settings, **sizes, **model_keys})


def _note(check: FileCheck, fit: Suggestion, frame: PanelFrame, targets: list[str]) -> None:
    """Says which columns are not used and which are counts, and finds the drift of a series."""
    if check.planned:
        # without blanks, at which a terminal would break a line
        words = [f"data.target={hydra_value(targets[0])}"] if len(targets) == 1 else []
        words.append(f"data.known=[{','.join(map(hydra_value, check.planned))}]")
        text = f"Not used: {listed(check.planned)}. {PROPOSAL} {' '.join(map(typed_word, words))} future=FILE, "
        check.findings.add("note", f"{text}data.holidays=DE")
    columns = frame.of(targets)
    for note in zero_notes(dict(zip(targets, columns.values.T, strict=True))):
        check.findings.add("note", note)
    parts = panel_cuts(fit.cut or ShareSplit(), frame, pred_len=fit.lengths.pred_len)
    train, val = (range(int(parts[name].first[0]), int(parts[name].stop[0])) for name in ("train", "val"))
    check.drift = find_drift(columns.values, targets, train=train, val=val) if len(frame) == 1 else None


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
