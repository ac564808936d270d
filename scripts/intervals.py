"""Judges intervals and writes docs/intervals.md. Usage: python scripts/intervals.py [--root FOLDER | --check] [--help]

With --root the rows of intervals.yaml are trained and evaluated, and recorded in results/intervals.json; with
--simulated the coverage on made-up series, in results/intervals_simulated.json; with --peer neuralforecast on M4.
From these records, and from nothing else, the page.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # scripts/ is no part of the installed package

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "results" / "intervals.json"
SIMULATED = ROOT / "results" / "intervals_simulated.json"
PEER = ROOT / "results" / "intervals_peer.json"
DOCUMENT = ROOT / "docs" / "intervals.md"


def main() -> None:
    """Records and writes; with --check says only whether the page is up to date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0].split(" Usage")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 when the page is stale")
    parser.add_argument("--root", metavar="FOLDER", type=Path, help="train and judge: with ETT-small, panels and wild")
    parser.add_argument("--rows", default="", help="of intervals.yaml, by name, with commas; default: all")
    parser.add_argument("--models", default="", help="of these rows, by name, with semicolons; default: all")
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "outputs" / "intervals", help="where trainings leave their runs"
    )
    parser.add_argument("--simulated", action="store_true", help="judge on made-up series of which the noise is known")
    parser.add_argument("--peer", metavar="PYTHON", help="judge neuralforecast by this interpreter, which has it")
    arguments = parser.parse_args()

    from forecast.errors import UserError

    try:
        if not arguments.check:
            judge(arguments)
        from studies.intervals import page

        page.write(DOCUMENT, RECORD, SIMULATED, PEER, check=arguments.check)
    except UserError as error:
        sys.exit(str(error))


def judge(arguments: argparse.Namespace) -> None:
    """Records what was asked for. Raises UserError for what is not there."""
    from forecast.errors import UserError

    if arguments.simulated:
        from studies.intervals import simulated

        simulated.record(SIMULATED)
    if arguments.peer and not arguments.root:
        raise UserError("--peer needs the data: add --root FOLDER")
    if arguments.peer:
        from studies.intervals import peer

        peer.record(arguments.peer, arguments.root, PEER)
    elif arguments.root:
        from studies.intervals import runs

        rows = [row.strip() for row in arguments.rows.split(",") if row.strip()]
        models = [name.strip() for name in arguments.models.split(";") if name.strip()]
        chosen = list(runs.jobs(arguments.root, arguments.runs, rows=rows, models=models))
        runs.record(chosen, arguments.runs, RECORD)


if __name__ == "__main__":
    main()
