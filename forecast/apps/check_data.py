"""What is in a file, what is wrong with it, and the command to train on it; what is left out is guessed."""

import argparse
import textwrap

import numpy as np
import pandas as pd

from forecast.apps.common.command import Answer
from forecast.apps.common.tables import typed_settings
from forecast.data.describe.check import check_file, known_keys
from forecast.data.describe.guess import FileCheck, settings_of
from forecast.data.seasonality import CLEAR, Season
from forecast.data.values.cells import Severity
from forecast.files import rounded
from forecast.text.overrides import typed_word
from forecast.text.terminal import label, say

MAX_COLUMNS = 12
WIDTH = 110
HEADINGS: dict[Severity, str] = {"error": "Mend this first:", "mend": "Gaps:", "note": "Worth a look:"}


def main(arguments: argparse.Namespace) -> Answer:
    """Prints what is in the file. The exit status is 1 when no training reads it as it is."""
    words = [word for word in arguments.settings if not word.startswith("future=")]  # of the forecast
    given = typed_settings(words, "data", known_keys())
    if arguments.target is not None:
        given["target"] = arguments.target
    check = check_file(arguments.file, given)
    with np.errstate(over="ignore", invalid="ignore"):  # of columns that reach the largest float
        say("\n".join([*facts(check), *findings(check), *advice(check)]))
    return Answer(rounded(document(check)), exit_status=0 if check.command else 1)


def document(check: FileCheck) -> dict[str, object]:
    """All that is known of the file, as plain values; null is not known."""
    table, fit = check.table, check.suggestion
    return {
        "file": check.findings.path,
        "usable": check.command is not None,
        "command": check.command,
        "informer_command": check.informer_command,
        "layout": settings_of(check.layout),
        "reasons": check.reasons,
        "columns": [] if table is None else [name for name in table.columns if name not in check.layout.drop],
        "rows": 0 if table is None else len(table.values),
        "first": None if table is None else str(table.timestamps.min()),
        "last": None if table is None else str(table.timestamps.max()),
        "frequency": check.freq,
        "findings": [finding._asdict() for finding in check.findings],
        "seasons": [] if fit is None else [season._asdict() for season in fit.seasons[:2]],
        "lengths": None if fit is None else fit.lengths._asdict(),
        "windows": check.windows,
        "drift": None if check.drift is None else dict(zip(("column", "deviations"), check.drift, strict=True)),
        "gaps": check.layout.gaps,
    }


def facts(check: FileCheck) -> list[str]:
    """What the file is, as far as it can be read, and a line for each of its first columns."""
    table = check.table
    if table is None:
        return []
    cells = f"cells separated by {check.text.separator!r}, decimals by {check.layout.decimal or '.'!r}"
    kind = cells if check.text.table is None else check.text.table.kind
    rows, times = f"{len(table.values)} rows, {len(check.header)} columns", table.timestamps
    shown = pd.DataFrame(table.values[:, :MAX_COLUMNS], columns=list(map(label, table.columns[:MAX_COLUMNS])))
    figures = {"missing": shown.isna().sum(), "least": shown.min(), "median": shown.median(), "largest": shown.max()}
    more = len(table.columns) - MAX_COLUMNS
    return [
        f"file       {check.findings.path}: {rows}, {kind}",
        f"time       {times.min()} to {times.max()}",
        *([f"frequency  {check.freq}"] if check.freq else ()),
        "",
        *pd.DataFrame(figures).to_string(float_format="{:.4g}".format).splitlines(),
        *([f"... and {more} columns more"] if more > 0 else ()),
    ]


def findings(check: FileCheck) -> list[str]:
    """How the file is read and why, and the findings, those first that stop a training."""
    texts = {"How it is read:": check.reasons}
    texts |= {heading: check.findings.texts(severity) for severity, heading in HEADINGS.items()}
    lines = []
    for heading, sentences in texts.items():
        lines += ["", heading] if sentences else []
        lines += [line for sentence in sentences for line in wrapped(f"  {sentence}", indent=4)]
    return lines


def advice(check: FileCheck) -> list[str]:
    """What to run next, or that there is nothing to run yet."""
    fit = check.suggestion
    if check.command is None or fit is None:
        return ["", "No training reads this file as it is. Mend it or set a key named above, then run this again."]
    seasons = "; the next, ".join(map(season_words, fit.seasons[:2])) or "none known, or too few rows to see one"
    lines = [
        "",
        *wrapped(f"season     {seasons}", indent=11),
        "lengths    " + ", ".join(f"{name} {length}" for name, length in fit.lengths._asdict().items()),
        "windows    " + ", ".join(f"{name} {count}" for name, count in check.windows.items()),
    ]
    if check.drift is not None:
        (name, deviations), side = check.drift, "above" if check.drift[1] > 0 else "below"
        text = (
            f"level      of '{label(name)}': it drifts, the rows of val lie "
            f"{abs(deviations):.1f} standard deviations of the train rows {side} those. So the Informer "
            "gets model.instance_norm=true."
        )
        lines += wrapped(text, indent=11)
    trees = "model=boosted_trees" in check.command
    fitted = "a ridge and boosted trees on it, fitted in a minute:" if trees else "fitted in seconds:"
    lines += ["", f"A sound forecast, {fitted}", " ".join(map(typed_word, check.command))]
    if check.informer_command is not None:
        lines.append("An Informer that fits these rows, trained in minutes:")
        lines.append(" ".join(map(typed_word, check.informer_command)))
    return lines


def season_words(season: Season) -> str:
    """Its steps and name, with what the train rows say for it."""
    weak = "" if season.autocorrelation >= CLEAR else ", too weak to count on"
    figures = f"autocorrelation {season.autocorrelation:.2f}{weak}, MSE of repeating it {season.error:.3g}"
    return f"{season.period} ({season.name}), {figures}"


def wrapped(text: str, *, indent: int) -> list[str]:
    """Lines of the page, all but the first indented."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
