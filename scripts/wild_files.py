"""Tries the program on files as people have them. Usage: python scripts/wild_files.py [--run FOLDER | --check]

With --run every CSV file of it gets `forecast check-data` and the command that this prints; with --informer the
Informer that it advises, too. What came of it is recorded in results/wild.json. From there, and from the reasons in
results/wild_notes.yaml, the table in docs/wild.md.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # scripts/ is no part of the installed package

from forecast.errors import UserError
from studies.wild import page, runs

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "results" / "wild.json"
NOTES = ROOT / "results" / "wild_notes.yaml"
DOCUMENT = ROOT / "docs" / "wild.md"


def main() -> None:
    """Records and writes; with --check says only whether the page is up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0].split(" Usage")[0])
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--run", metavar="FOLDER", type=Path, help="run the CSV files of this folder, record and write")
    action.add_argument("--check", action="store_true", help="write nothing; exit status 1 when the page is stale")
    parser.add_argument("--informer", action="store_true", help="add the Informer's command to what is recorded")
    parser.add_argument("--only", nargs="+", metavar="FILE", help="of the folder, by name; the others stay as recorded")
    arguments = parser.parse_args()
    try:
        if arguments.run:
            record = runs.record_informers if arguments.informer else runs.record
            record(arguments.run, RECORD, only=arguments.only)
        page.write(DOCUMENT, runs.read(RECORD), page.read_notes(NOTES), check=arguments.check)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
