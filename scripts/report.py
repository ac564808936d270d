"""Compares the runs of a sweep. Usage: python scripts/report.py multirun/NAME [--against ROW] [--help]

Runs that differ in their seed alone are one row: mean and spread of the error, its cost, and the difference to a chosen
row with a 95 % interval, on the windows that both have forecast. Writes report.md, report.csv, runs.jsonl and
pictures into the folder. Failed and unfinished runs are listed with the reason.
"""

import argparse
import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Reads the folder, writes the comparison, prints report.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0].split(" Usage")[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="multirun/NAME: the folder of a sweep")
    parser.add_argument("--against", metavar="ROW", help="the row to compare with; default: the first of the sweep")
    parser.add_argument("--to", metavar="DIR", type=Path, help="where to write instead of FOLDER")
    arguments = parser.parse_args()

    from forecast.errors import UserError

    try:
        write_report(arguments.folder, arguments.to or arguments.folder, arguments.against)
    except UserError as error:
        sys.exit(str(error))
    except BrokenPipeError:  # `| head` has read enough; the files are written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}. Choose a folder that you can write to: --to DIR")


def write_report(folder: Path, to: Path, against: str | None) -> None:
    """Writes and prints the comparison. Raises UserError for a folder without runs, or without such a row."""
    from forecast.comparison.pictures import comparison_figures
    from forecast.comparison.rows import comparisons, read_folder
    from forecast.comparison.tables import csv_text, report
    from forecast.files import rounded, write_text
    from forecast.report.figures import save
    from forecast.run_folder import result_line

    runs = read_folder(folder)
    tables = comparisons(runs)
    text = report(folder.name, tables, runs, against)
    to.mkdir(parents=True, exist_ok=True)
    pictures = []
    for number, table in enumerate(tables, start=1):
        for name, figure in comparison_figures(table).items():
            pictures.append(name if len(tables) == 1 else f"{number}-{name}")
            save(figure, to / pictures[-1])
    lines = [{"row": row.name, **result_line(run)} for table in tables for row in table.rows for run in row.finished]
    write_text(to / "runs.jsonl", "".join(json.dumps(rounded(line), allow_nan=False) + "\n" for line in lines))
    write_text(to / "report.csv", csv_text(tables, against))
    write_text(to / "report.md", text + "".join(f"\n![]({name})\n" for name in pictures))
    print(text)
    print(f"In {to}: {', '.join(['report.md', 'report.csv', 'runs.jsonl', *pictures])}")


if __name__ == "__main__":
    main()
