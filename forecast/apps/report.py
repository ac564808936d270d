"""Compares the runs of a sweep.

Runs that differ in their seed alone are one row: mean and spread of the error, its cost, and the difference to a chosen
row with a 95 % interval, on the windows that both have forecast. Writes report.md, report.csv, report.html and
runs.jsonl into the folder. Failed and unfinished runs are listed with the reason.
"""

import argparse
import json
import re
from pathlib import Path

from forecast.apps.common.command import Answer
from forecast.apps.common.outputs import keep_others, writable
from forecast.comparison.page import comparison_page
from forecast.comparison.rows import comparisons, read_folder
from forecast.comparison.tables import csv_rows, csv_text, report
from forecast.files import rounded, together
from forecast.run_folder import PAGE, result_line
from forecast.text.terminal import say

REPORT = "report.md"


def main(arguments: argparse.Namespace) -> Answer:
    """Reads the folder, writes and prints the comparison.

    Raises UserError for a folder without runs, or without such a row, and where a file that no report has written would
    be replaced.
    """
    folder, against, to = arguments.folder, arguments.against, arguments.to or arguments.folder
    runs = read_folder(folder)
    tables = comparisons(runs)
    text = report(folder.name, tables, runs, against)
    lines = [{"row": row.name, **result_line(run)} for table in tables for row in table.rows for run in row.finished]
    texts = {
        REPORT: text,
        "report.csv": csv_text(tables, against, safe=arguments.output_safe),
        PAGE: comparison_page(tables, runs, against),
        "runs.jsonl": "".join(json.dumps(rounded(line), allow_nan=False) + "\n" for line in lines),
    }
    keep_others(
        [to / name for name in texts],
        ours=arguments.overwrite or is_report(to / REPORT),
        key=f"--to {to}",
        like="a file of a report",
        fix="choose another folder, or say --overwrite",
    )
    with writable("--to DIR"):
        to.mkdir(parents=True, exist_ok=True)
        with together(to) as beside:
            for name in reversed(texts):
                beside(name).write_text(texts[name], encoding="utf-8")
    say(text)
    say(f"In {to}: {', '.join(texts)}")
    lost = [{"run": str(run.path), "state": run.state, "reason": run.reason} for run in runs if run.state != "finished"]
    return Answer(
        rounded({"folder": str(to), "files": list(texts), "rows": csv_rows(tables, against), "not_finished": lost})
    )


def is_report(path: Path) -> bool:
    """Whether a file begins as report.md does, so that what lies beside it is a report's too."""
    try:
        with path.open(encoding="utf-8") as file:
            title, blank, counts = (file.readline(1000) for _ in range(3))
    except (OSError, ValueError):
        return False
    return title.startswith("# ") and blank == "\n" and re.match(r"\d+ runs?: ", counts) is not None
