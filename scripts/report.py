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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forecast.comparison.rows import Setting


def main() -> None:
    """Reads the folder, writes the comparison, prints report.md."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0].split(" Usage")[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="multirun/NAME: the folder of a sweep")
    parser.add_argument("--against", metavar="ROW", help="the row to compare with; default: the first of the sweep")
    parser.add_argument("--to", metavar="DIR", type=Path, help="where to write instead of FOLDER")
    arguments = parser.parse_args()

    from forecast.errors import UserError

    try:
        compare(arguments.folder, arguments.to or arguments.folder, arguments.against)
    except UserError as error:
        sys.exit(str(error))
    except BrokenPipeError:  # `| head` has read enough; the files are written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}. Choose a folder that you can write to: --to DIR")


def compare(folder: Path, to: Path, against: str | None) -> None:
    """Writes and prints the comparison. Raises UserError for a folder without runs, or without such a row."""
    from forecast.comparison import tables
    from forecast.comparison.rows import read_folder, settings
    from forecast.files import rounded, write_text
    from forecast.run_folder import result_line

    runs = read_folder(folder)
    found = settings(runs)
    text = tables.report(folder.name, found, runs, against)
    to.mkdir(parents=True, exist_ok=True)
    pictures = draw(found, to)
    lines = [{"row": row.name, **result_line(run)} for table in found for row in table.rows for run in row.finished]
    write_text(to / "runs.jsonl", "".join(json.dumps(rounded(line), allow_nan=False) + "\n" for line in lines))
    write_text(to / "report.csv", tables.csv_text(found, against))
    write_text(to / "report.md", text + "".join(f"\n![]({name})\n" for name in pictures))
    print(text)
    print(f"In {to}: {', '.join(['report.md', 'report.csv', 'runs.jsonl', *pictures])}")


def draw(found: "list[Setting]", to: Path) -> list[str]:
    """Writes the pictures; their names, numbered where there are several tables."""
    from forecast.comparison.pictures import figures
    from forecast.report.figures import save

    names = []
    for number, setting in enumerate(found, start=1):
        for name, figure in figures(setting).items():
            names.append(name if len(found) == 1 else f"{number}-{name}")
            save(figure, to / names[-1])
    return names


if __name__ == "__main__":
    main()
