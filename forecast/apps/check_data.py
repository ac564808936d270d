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
from forecast.data.values.findings import Severity
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
    times = None if table is None else table.timestamps.dropna()
    seasons = [season._asdict() for season in fit.seasons[:2]] if fit is not None else []
    return {
        "file": check.findings.path,
        "usable": check.command is not None,
        "command": check.command,
        "informer_command": check.informer_command,
        "layout": settings_of(check.layout),
        "reasons": check.reasons,
        "columns": [] if table is None else [name for name in table.columns if name not in check.layout.drop],
        "rows": 0 if table is None else len(table.values),
        "first": None if times is None or not len(times) else str(times.min()),
        "last": None if times is None or not len(times) else str(times.max()),
        "frequency": check.freq,
        "findings": [finding._asdict() for finding in check.findings],
        "seasons": seasons,
        "lengths": None if fit is None else fit.lengths._asdict(),
        "windows": check.windows,
        "drift": None if check.drift is None else check.drift._asdict(),
        "gaps": check.layout.gaps,
    }


def facts(check: FileCheck) -> list[str]:
    """What the file is, as far as it can be read, and a line for each of its first columns."""
    table = check.table
    if table is None:
        return []
    cells = f"cells separated by {check.text.separator!r}, decimals by {check.layout.decimal!r}"
    kind = cells if check.text.table is None else check.text.table.kind
    lines = [labelled("file", f"{check.findings.path}: {len(table.values)} rows, {len(check.header)} columns, {kind}")]
    times = table.timestamps.dropna()
    if len(times):
        lines.append(labelled("time", f"{times.min()} to {times.max()}"))
    if check.freq is not None:
        lines.append(labelled("frequency", check.freq))
    shown = pd.DataFrame(table.values[:, :MAX_COLUMNS], columns=list(map(label, table.columns[:MAX_COLUMNS])))
    figures = pd.DataFrame({"missing": shown.isna().sum(), "least": shown.min(), "median": shown.median()})
    lines += ["", *figures.assign(largest=shown.max()).to_string(float_format="{:.4g}".format).splitlines()]
    more = len(table.columns) - MAX_COLUMNS
    return [*lines, f"... and {more} columns more"] if more > 0 else lines


def findings(check: FileCheck) -> list[str]:
    """How the file is read and why, and the findings, those first that stop a training."""
    texts = {"How it is read:": check.reasons}
    texts |= {heading: check.findings.texts(severity) for severity, heading in HEADINGS.items()}
    wrapper = textwrap.TextWrapper(
        WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    lines = []
    for heading, sentences in texts.items():
        lines += ["", heading] if sentences else []
        for sentence in sentences:
            lines += wrapper.wrap(sentence)
    return lines


def advice(check: FileCheck) -> list[str]:
    """What to run next, or that there is nothing to run yet."""
    fit = check.suggestion
    if check.command is None or fit is None:
        return [
            "",
            "No training reads this file as it is. Mend it or set a key named above, then run this again.",
        ]
    seasons = "; the next, ".join(map(season_words, fit.seasons[:2]))
    lines = ["", *paragraph("season", seasons or "none known for this frequency, or too few rows to see one")]
    lines.append(labelled("lengths", ", ".join(f"{name} {length}" for name, length in fit.lengths._asdict().items())))
    lines.append(labelled("windows", ", ".join(f"{name} {count}" for name, count in check.windows.items())))
    if check.drift is not None:
        name, deviations = label(check.drift.column), check.drift.deviations
        lines += paragraph(
            "level",
            f"of '{name}': it drifts, the rows of val lie {abs(deviations):.1f} standard deviations of the train rows "
            f"{'above' if deviations > 0 else 'below'} those. So the Informer gets model.instance_norm=true.",
        )
    trees = check.model == "boosted_trees"
    fitted = "a ridge and boosted trees on it, fitted in a minute:" if trees else "fitted in seconds:"
    lines += ["", f"A sound forecast, {fitted}", typed_line(check.command)]
    if check.informer_command is not None:
        lines += ["An Informer that fits these rows, trained in minutes:", typed_line(check.informer_command)]
    return lines


def typed_line(words: list[str]) -> str:
    """The words of a command as one types them."""
    return " ".join(map(typed_word, words))


def season_words(season: Season) -> str:
    """Its steps and name, with what the train rows say for it."""
    weak = "" if season.autocorrelation >= CLEAR else ", too weak to count on"
    figures = f"autocorrelation {season.autocorrelation:.2f}{weak}, MSE of repeating it {season.error:.3g}"
    return f"{season.period} ({season.name}), {figures}"


def paragraph(name: str, text: str) -> list[str]:
    """Lines of the page: a name, and a longer text beside it."""
    return textwrap.wrap(labelled(name, text), WIDTH, subsequent_indent=" " * 11, break_on_hyphens=False)


def labelled(name: str, text: str) -> str:
    """A line of the page: a name and the text beside it."""
    return f"{name:10} {text}"
