"""What is wrong with a file of any kind, all at once, and the command to train on it."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pandas as pd

from forecast.bounds import Text
from forecast.data.describe.columns import are_counts
from forecast.data.describe.guess import FileCheck, Given, check_steps, open_file, read_guessed, settings_of
from forecast.data.grid import MissingRows
from forecast.data.panel import PanelFrame
from forecast.data.read import panel_rows, source_rows
from forecast.data.reading.content import CsvText
from forecast.data.reading.layout import Layout, columns_named
from forecast.data.reading.table import Table
from forecast.data.roles import Roles
from forecast.data.rows import prepare_rows
from forecast.data.seasonality import (
    CLEAR,
    FEWEST_WINDOWS,
    Suggestion,
    fitted_model,
    informer_settings,
    mostly_zero,
    share_of_zeros,
    suggest,
)
from forecast.data.sources import CsvSource
from forecast.data.split import ANYWHERE, ShareSplit, WindowOrigins, panel_cuts, usable_windows
from forecast.data.values.cells import Findings, FloatArray, counted, quoted
from forecast.errors import UserError
from forecast.text.overrides import hydra_value, train_words, typed_word
from forecast.text.terminal import listed, quiet_output

_MANY_ABSENT = 0.05  # of the rows: counts without a 0 then lack the rows of nothing
MANY_ZEROS = 0.1  # share of them
DRIFT = 0.5  # standard deviations: around the mean of the train rows a forecast then errs by a quarter of the variance
LONG_GAP = 0.5  # of a season or of pred_len: a line drawn over more of it is no guess any more
PROPOSAL = "Known in advance?"  # in the note on columns that are not used
ROLES = [key.name for key in fields(Roles)]


def known_keys() -> dict[str, object]:
    """The keys of data=csv that a check takes, each with its type; of targets it takes one."""
    types = get_type_hints(CsvSource, include_extras=True)
    names = [*(key.name for key in fields(Layout)), *ROLES, "features", "id_column"]
    return {**{name: types[name] for name in names}, "target": Text | None}


def check_file(path: str, given: Given | None = None, *, pred_len: int | None = None) -> FileCheck:
    """Reads a file that may be anything. Raises nothing that the file could cause.

    given: keys of data=csv that are typed; the others are found. pred_len: None for one that fits the file.
    """
    check = FileCheck(CsvText(Path(path), ","), dict(given or {}), Findings(path))
    # the first, as in the statistics of columns that reach the largest float; the second, as findings say it
    with np.errstate(over="ignore", invalid="ignore"), quiet_output():
        try:
            check.table = read_guessed(check, open_file(check))
            _advise(check, check.table, pred_len)
        except UserError as error:
            for line in str(error).splitlines():
                check.findings.add("error", line)
    return check


def _advise(check: FileCheck, table: Table, pred_len: int | None) -> None:
    """Finds season, lengths, the rule for gaps, drift and the commands for a file without errors."""
    given, path = check.given, check.findings.path
    use = {key: given[key] for key in ("id_column", "features", "target", *ROLES) if given.get(key)}
    if "target" in use and not use.keys() & {"features", *ROLES}:
        use = {"features": "S", **use}
    free = [name for name in table.columns if name not in (*columns_named(use), *check.layout.drop)]
    if "target" not in use and free and use.keys() & {*ROLES}:
        use = {"target": free[-1], **use}
    source = CsvSource(
        **{"path": path, "split": ShareSplit(), "target": None, **settings_of(check.layout), **use}  # type: ignore[arg-type]
    )
    rows = prepare_rows(panel_rows(source, source.codebook()), source, findings=check.findings)
    check_steps(check, rows)
    source, frame = _without_gaps(check, source, are_counts(rows.values))
    targets = source.target_columns(frame)
    fit = suggest(frame, ShareSplit(), targets=targets, pred_len=pred_len, is_free=True)
    windows, is_long = _windows(frame, fit), frame.repair.longest_run > LONG_GAP * max(fit.lengths.pred_len, 2)
    if is_long and source.gaps == "interpolate" and "gaps" not in given:
        masked = _windows(source_rows(replace(source, gaps="mask")), fit)
        source, windows = (replace(source, gaps="mask"), masked) if all(masked.values()) else (source, windows)
    check.layout = replace(check.layout, gaps=source.gaps)
    check.freq, check.suggestion, check.windows = frame.freq, fit, windows
    columns = {frame.columns[place]: frame.values[:, place] for place in targets}
    _say_columns(check, table, columns)
    if len(frame) == 1:
        parts = panel_cuts(fit.cut or ShareSplit(), frame, pred_len=fit.lengths.pred_len)
        train, val = (range(int(parts[name].first[0]), int(parts[name].stop[0])) for name in ("train", "val"))
        check.drift = find_drift(frame.of([*columns]).values, [*columns], train=train, val=val)
    sizes, keys = fit.lengths._asdict(), {**settings_of(check.layout), **use}
    settings = {f"data.{key}": value for key, value in keys.items()} | fit.settings()
    if len(frame) == 1 and windows["train"] >= FEWEST_WINDOWS and windows["val"]:
        of_informer = informer_settings(windows, fit.lengths, drifts=check.drift is not None)
        check.informer_command = train_words("informer", path, {**settings, **sizes, **of_informer})
    sizes.pop("label_len")  # of a decoder
    has_season = any(season.autocorrelation >= CLEAR for season in fit.seasons[:1])
    is_rare = not has_season and any(map(mostly_zero, columns.values()))
    model, fitted = fitted_model(windows, fit.lengths, columns=len(targets), intermittent=is_rare)
    check.command = train_words(model, path, {**settings, **sizes, **fitted})


def _without_gaps(check: FileCheck, source: CsvSource, counts: bool) -> tuple[CsvSource, PanelFrame]:
    """The source with the rule for the gaps of its rows, where none is typed, and these rows.

    counts: whether all values are whole numbers above 0.
    """
    try:
        return source, source_rows(source)
    except MissingRows as error:
        if "gaps" in check.given:
            raise
        message = str(error)
    zero = replace(source, gaps="zero")
    frame = source_rows(zero)
    if counts and frame.repair.rows_added > _MANY_ABSENT * len(frame.values):
        check.set(
            f"data.gaps=zero: all values are whole numbers above 0, and {frame.repair.rows_added} rows are missing, as "
            "if rows of 0 were not written. If nobody counted then, set data.gaps=interpolate",
            gaps="zero",
        )
        return zero, frame
    filled = replace(source, gaps="interpolate")
    frame = source_rows(filled)
    gone = f"{frame.repair.rows_added} rows and {frame.repair.cells_filled} cells are missing"
    check.findings.add("mend", message)
    check.findings.add("mend", f"{gone}, at most {frame.repair.longest_run} in succession.")
    return filled, frame


def _say_columns(check: FileCheck, table: Table, targets: Mapping[str, FloatArray]) -> None:
    """Says which columns are not used, which rows are the future, and which targets (N,) are counts with many zeros."""
    blank = pd.DataFrame(table.values, columns=list(table.columns))[list(targets)].isna().all(axis=1)
    ahead = int(blank[::-1].cumprod().sum())
    if ahead and (check.planned or check.given.get("known")) and not check.given.get("id_column"):
        check.findings.add(
            "note",
            f"{counted(ahead, 'row')} at the end lack{'s' * (ahead == 1)} {listed(targets)}: with data.known they are "
            "the future, and no future=FILE is needed.",
        )
    if check.planned:
        # without blanks, at which a terminal would break a line
        words = [f"data.target={hydra_value(*targets)}"] if len(targets) == 1 else []
        words.append(f"data.known=[{','.join(map(hydra_value, check.planned))}]")
        check.findings.add(
            "note",
            f"Not used: {listed(check.planned)}. {PROPOSAL} {' '.join(map(typed_word, words))} future=FILE, "
            "data.holidays=DE",
        )
    for name, values in targets.items():
        share = share_of_zeros(values)
        if share >= MANY_ZEROS and not (values % 1 > 0).any():
            check.findings.add(
                "note",
                f"Column {quoted(name)}: counts, of which {share:.0%} are 0. With data.floor=0 no forecast and no "
                "interval is below 0.",
            )


def _windows(panel: PanelFrame, suggestion: Suggestion) -> dict[str, int]:
    """How many windows each split has."""
    seq_len, _, pred_len = suggestion.lengths
    context, begin = 1 if suggestion.pad else seq_len, panel.offsets[:-1]
    parts = panel_cuts(suggestion.cut or ShareSplit(), panel, pred_len=pred_len)
    every = {name: WindowOrigins.of(parts[name], begin, context=context, pred_len=pred_len) for name in ANYWHERE}
    some = {name: usable_windows(panel, every[name], seq_len=seq_len, pred_len=pred_len) for name in ANYWHERE}
    return {name: len(origins if (chosen := some[name]) is None else chosen) for name, origins in every.items()}


def find_drift(values: FloatArray, columns: Sequence[str], *, train: range, val: range) -> tuple[str, float] | None:
    """The column whose level moves most from the train to the val rows, and how far: in deviations of the train rows.

    None where none has, by DRIFT at least. values (N, C). The test rows are not read: they judge a model and choose
    nothing.
    """
    before, after = values[train.start : train.stop], values[val.start : val.stop]
    if not len(after):
        return None
    deviation = np.where(before.std(axis=0) > 0, before.std(axis=0), np.inf)
    shift = (after.mean(axis=0) - before.mean(axis=0)) / deviation
    farthest = int(abs(shift).argmax())
    return (columns[farthest], float(shift[farthest])) if abs(shift[farthest]) >= DRIFT else None
