"""What is in a CSV file, what is wrong with it, and the command to train on it; what is left out is guessed."""

import argparse
import shlex
import textwrap
from dataclasses import fields

import numpy as np

from forecast.apps.common.command import Answer
from forecast.bounds import Text
from forecast.config.build import parameters
from forecast.config.settings import typed_settings
from forecast.data.guessing.check import FileCheck, check_file
from forecast.data.guessing.guess_rows import settings_of
from forecast.data.reading.layout import Layout
from forecast.data.seasonality import CLEAR, Season
from forecast.data.sources import CsvSource
from forecast.data.values.findings import Severity
from forecast.files import rounded
from forecast.text.terminal import label, listed, say

MAX_COLUMNS, MAX_FINDINGS = 12, 30
WIDTH = 110
LAYOUT = [key.name for key in fields(Layout)]
HEADINGS: dict[Severity, str] = {"error": "Mend this first:", "mend": "Gaps:", "note": "Worth a look:"}


def main(arguments: argparse.Namespace) -> Answer:
    """Prints what is in the file. The exit status is 1 when no training reads it as it is."""
    known = {name: parameters(CsvSource)[name].annotation for name in (*LAYOUT, "features")}
    known["target"] = Text | None  # one: what it advises is for one
    known["id_column"] = parameters(CsvSource)["id_column"].annotation
    given = typed_settings(arguments.settings, "data", known)
    use = {"target": arguments.target} | {key: given.pop(key) for key in ("features", "target") if key in given}
    ids = given.pop("id_column", None)
    names = (ids,) if isinstance(ids, str) else tuple(ids) if isinstance(ids, list) else ()
    check = check_file(arguments.file, given, **use, ids=names)
    with np.errstate(over="ignore", invalid="ignore"):  # of columns that reach the largest float
        say("\n".join([*facts(check), *findings(check), *advice(check)]))
    return Answer(rounded(document(check)), exit_status=0 if check.command else 1)


def document(check: FileCheck) -> dict[str, object]:
    """All that is known of the file, as plain values; null is not known."""
    times = None if check.table is None else check.table.timestamps.dropna()
    return {
        "file": str(check.path),
        "usable": check.command is not None,
        "command": None if check.command is None else shlex.split(check.command),
        "informer_command": None if check.informer_command is None else shlex.split(check.informer_command),
        "commands": [{"reading": choice.reading, "command": shlex.split(choice.command)} for choice in check.choices],
        "layout": settings_of(check.layout),
        "reasons": list(check.reasons),
        "separator": check.layout.separator,
        "decimal": check.layout.decimal,
        "time_column": check.layout.time_column,
        "columns": [] if check.table is None else list(check.table.columns),
        "rows": check.rows,
        "first": None if times is None or not len(times) else str(times.min()),
        "last": None if times is None or not len(times) else str(times.max()),
        "frequency": check.freq,
        "rows_missing": check.rows_missing,
        "findings": [finding._asdict() for finding in check.findings],
        "season": None if check.season is None else check.season._asdict(),
        "runner_up": None if check.runner_up is None else check.runner_up._asdict(),
        "lengths": None if check.lengths is None else check.lengths._asdict(),
        "windows": dict(check.windows),
        "drift": None if check.drift is None else check.drift._asdict(),
        "gaps": check.gaps,
    }


def facts(check: FileCheck) -> list[str]:
    """What the file is, as far as it can be read, and a line for each of its first columns."""
    if not check.header:
        return []
    cells = check.kind or f"cells separated by {check.layout.separator!r}, decimals by {check.layout.decimal!r}"
    lines = [labelled("file", f"{check.path}: {check.rows} rows, {len(check.header)} columns, {cells}")]
    if check.table is None:
        return lines
    times = check.table.timestamps.dropna()
    if len(times):
        parts = check.layout.time_columns
        several = f"columns {listed(parts)}" if parts else "no column"
        where = f"column '{label(parts[0])}'" if len(parts) == 1 else several
        lines.append(labelled("time", f"{where}, {times.min()} to {times.max()}"))
    if check.freq is not None:
        missing = f"{check.rows_missing} rows missing" if check.rows_missing else "no row missing"
        lines.append(labelled("frequency", f"{check.freq}, {missing}"))
    names = [label(name) for name in check.table.columns]
    width = min(max(6, *(len(name) for name in names[:MAX_COLUMNS])), 30)
    lines += ["", f"{'column':{width}}  {'missing':>8} {'least':>11} {'median':>11} {'largest':>11} {'outliers':>9}"]
    for name, column, outliers in list(zip(names, check.table.values.T, check.outliers, strict=True))[:MAX_COLUMNS]:
        known = column[np.isfinite(column)]
        figures = [f"{f(known):11.4g}" if len(known) else "-".rjust(11) for f in (np.min, np.median, np.max)]
        lines.append(f"{name[:width]:{width}}  {np.isnan(column).sum():8} {' '.join(figures)} {outliers:9}")
    if len(names) > MAX_COLUMNS:
        lines.append(f"... and {len(names) - MAX_COLUMNS} columns more")
    return lines


def findings(check: FileCheck) -> list[str]:
    """How the file is read and why, and the findings, those first that stop a training."""
    lines = []
    wrapper = textwrap.TextWrapper(
        WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    if check.reasons:
        lines += ["", "How it is read:"]
        for reason in check.reasons:
            lines += wrapper.wrap(reason)
    for severity, heading in HEADINGS.items():
        texts = check.findings.texts(severity)
        if texts:
            lines += ["", heading]
            for text in texts[:MAX_FINDINGS]:
                sentence, _, command = text.partition("\n")  # which is typed as it stands
                lines += [*wrapper.wrap(sentence), *([command] if command else [])]
        if len(texts) > MAX_FINDINGS:
            lines.append(f"  ... and {len(texts) - MAX_FINDINGS} more of this kind")
    return lines


def advice(check: FileCheck) -> list[str]:
    """What to run next, or that there is nothing to run yet."""
    if check.choices:
        several = "There are several readings of this file. Run the command of the right one:"
        lines = ["", several if len(check.choices) > 1 else "One reading of this file trains. If it is right, run:"]
        for choice in check.choices:
            lines += [f"  {choice.reading}:", f"    {choice.command}"]
        return lines
    if check.command is None:
        return ["", "No training reads this file as it is. Mend it, then run this again."]
    assert check.lengths is not None
    lengths = check.lengths
    lines = ["", *season_lines(check)]
    lines.append(labelled("lengths", ", ".join(f"{name} {length}" for name, length in lengths._asdict().items())))
    lines.append(labelled("windows", ", ".join(f"{name} {count}" for name, count in check.windows.items())))
    if check.gaps != "refuse":
        lines.append(labelled("gaps", f"data.gaps={check.gaps}"))
    if check.drift is not None:
        name, deviations = label(check.drift.column), check.drift.deviations
        lines += paragraph(
            "level",
            f"of '{name}': it drifts, the rows of val lie {abs(deviations):.1f} standard deviations of the train rows "
            f"{'above' if deviations > 0 else 'below'} those. So the Informer gets model.instance_norm=true.",
        )
    trees = check.model == "boosted_trees"
    fitted = "a ridge and boosted trees on it, fitted in a minute:" if trees else "fitted in seconds:"
    lines += ["", f"A sound forecast, {fitted}", check.command]
    if check.informer_command is not None:
        lines += ["An Informer that fits these rows, trained in minutes:", check.informer_command]
    return lines


def season_lines(check: FileCheck) -> list[str]:
    """The season and the next best, with what the train rows say for each."""
    if check.season is None:
        return [labelled("season", "none known for this frequency, or too few rows to see one")]
    words = [_season_words(season) for season in (check.season, check.runner_up) if season is not None]
    return paragraph("season", "; the next, ".join(words))


def _season_words(season: Season) -> str:
    weak = "" if season.autocorrelation >= CLEAR else ", too weak to count on"
    figures = f"autocorrelation {season.autocorrelation:.2f}{weak}, MSE of repeating it {season.error:.3g}"
    return f"{season.period} ({season.name}), {figures}"


def paragraph(name: str, text: str) -> list[str]:
    """Lines of the page: a name, and a longer text beside it."""
    return textwrap.wrap(labelled(name, text), WIDTH, subsequent_indent=" " * 11, break_on_hyphens=False)


def labelled(name: str, text: str) -> str:
    """A line of the page: a name and the text beside it."""
    return f"{name:10} {text}"
