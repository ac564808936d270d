"""What is in a CSV file, what is wrong with it, and the command to train on it.

Usage: python scripts/check_data.py my.csv [--separator ';'] [--decimal ,] [--time_column when]

What is not given is guessed. The exit status is 0 when the file can be trained on with the printed command, else 1.
"""

import argparse
import sys
import textwrap

import numpy as np

from forecast.data.survey.check import Survey, survey_file
from forecast.data.survey.columns import Column
from forecast.data.survey.season import CLEAR

SHOWN_COLUMNS, SHOWN_FINDINGS = 12, 30
WIDTH = 110
HEADINGS = {"stop": "Mend this first:", "gap": "Gaps:", "note": "Worth a look:"}


def main() -> None:
    """Prints the survey of the file that the command line names."""
    parser = argparse.ArgumentParser(description="What is in a CSV file, and the command to train on it.")
    parser.add_argument("file", metavar="FILE", help="a CSV file: a time column, then numbers")
    parser.add_argument("--separator", metavar="C", help="between cells, as ; or \\t; guessed")
    parser.add_argument("--decimal", metavar="C", help="in numbers, . or , ; guessed")
    parser.add_argument("--time_column", metavar="NAME", help="guessed")
    arguments = parser.parse_args()
    for name in ("separator", "decimal"):
        value = getattr(arguments, name)
        if value is not None and len(value.replace("\\t", "\t")) != 1:
            parser.error(f"--{name} {value}: must be one character")
    separator = None if arguments.separator is None else arguments.separator.replace("\\t", "\t")
    options = {"separator": separator, "decimal": arguments.decimal, "time_column": arguments.time_column}
    survey = survey_file(arguments.file, **options)
    print("\n".join([*facts(survey), *found(survey), *advice(survey)]))
    sys.exit(0 if survey.command else 1)


def facts(survey: Survey) -> list[str]:
    """What the file is, as far as it can be read."""
    table, clock = survey.table, survey.clock
    if table is None:
        return []
    cells = f"cells separated by {table.separator!r}, decimals by {survey.decimal!r}"
    lines = [row("file", f"{survey.path}: {len(table.rows)} rows, {len(table.header)} columns, {cells}")]
    if clock is not None and len(clock.stamps):
        lines.append(row("time", f"column '{survey.time_column}', {clock.stamps.min()} to {clock.stamps.max()}"))
    if clock is not None and clock.freq is not None:
        missing = f"{clock.missing} rows missing" if clock.missing else "no row missing"
        lines.append(row("frequency", f"{clock.freq}, {missing}"))
    return [*lines, *column_table(survey.columns)]


def column_table(columns: list[Column]) -> list[str]:
    """A line for each of the first columns."""
    if not columns:
        return []
    width = max(len(column.name) for column in columns[:SHOWN_COLUMNS])
    width = min(max(width, 6), 30)
    lines = ["", f"{'column':{width}}  {'missing':>8} {'least':>11} {'median':>11} {'largest':>11} {'outliers':>9}"]
    for column in columns[:SHOWN_COLUMNS]:
        known = column.values[~np.isnan(column.values)]
        figures = (
            [f"{x:11.4g}" for x in (known.min(), np.median(known), known.max())] if len(known) else ["-".rjust(11)] * 3
        )
        name = column.name[:width]
        lines.append(f"{name:{width}}  {column.missing:8} {' '.join(figures)} {len(column.outliers):9}")
    if len(columns) > SHOWN_COLUMNS:
        lines.append(f"... and {len(columns) - SHOWN_COLUMNS} columns more")
    return lines


def found(survey: Survey) -> list[str]:
    """The findings, those first that stop a training."""
    lines = []
    paragraph = textwrap.TextWrapper(
        WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    for level, heading in HEADINGS.items():
        texts = [finding.text for finding in survey.findings if finding.level == level]
        if texts:
            lines += ["", heading]
            for text in texts[:SHOWN_FINDINGS]:
                lines += paragraph.wrap(text)
        if len(texts) > SHOWN_FINDINGS:
            lines.append(f"  ... and {len(texts) - SHOWN_FINDINGS} more of this kind")
    return lines


def advice(survey: Survey) -> list[str]:
    """What to run next; as the last line the command, or that there is none yet."""
    if survey.command is None:
        return ["", "No training reads this file as it is. Mend it, then run this again."]
    season, lengths = survey.season, survey.lengths
    assert lengths is not None
    lines = [""]
    if season is not None:
        clear = "" if season.autocorrelation >= CLEAR else ", too weak to count on"
        lines.append(
            row("season", f"{season.period} ({season.name}), autocorrelation {season.autocorrelation:.2f}{clear}")
        )
    else:
        lines.append(row("season", "none known for this frequency, or too few rows to see one"))
    sizes = ", ".join(f"{name} {length}" for name, length in lengths._asdict().items())
    lines.append(row("lengths", sizes))
    lines.append(row("windows", ", ".join(f"{name} {count}" for name, count in survey.windows.items())))
    if survey.gaps != "refuse":
        lines.append(row("gaps", f"data.gaps={survey.gaps}"))
    return [*lines, "", survey.command]


def row(name: str, text: str) -> str:
    """A name and what there is to say of it."""
    return f"{name:10} {text}"


if __name__ == "__main__":
    main()
