"""Runs published tables and sets ours beside theirs. Usage: python scripts/reproduce.py --table etth1_m [--help]

A row is the experiment TABLE/ROW (conf/published.yaml). Each training is a process of its own; its result becomes a
line of results/runs.jsonl. What is there is not run again; what was stopped or killed goes on from its last checkpoint.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from forecast.reproduction import SEEDS

if TYPE_CHECKING:
    from forecast.reproduction.tables import Job, PublishedTable
    from forecast.run_folder import Run


def main() -> None:
    """Runs what is missing, then prints the tables."""
    arguments = command_line()

    from forecast.errors import UserError

    try:
        complete = run_missing(arguments)
        print_tables(arguments)
    except UserError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}. Choose places that you can write to: --results FILE, --runs DIR")
    except KeyboardInterrupt:
        print("Interrupted: the same command goes on from here.", file=sys.stderr)
        sys.exit(130)
    if not complete:
        print("The time is up: the same command goes on from here.")


def command_line() -> argparse.Namespace:
    """The arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0].split(" Usage")[0])
    parser.add_argument("--table", required=True, help="etth1_m, etth1_s, ..., dlinear, patchtst, or all")
    parser.add_argument("--rows", default="", help="some of its rows, such as 24,48; default: all")
    parser.add_argument("--models", default="", help="some of its models, by semicolons: 'informer2020;informer'")
    parser.add_argument("--seeds", type=positive, default=SEEDS, help=f"seeds 1 to N (default {SEEDS})", metavar="N")
    parser.add_argument("--jobs", type=positive, default=1, help="so many trainings side by side (default 1)")
    parser.add_argument("--minutes", type=minutes, help="stop after so long; the same command goes on next time")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="for every training, as train.py"
    )
    parser.add_argument("--results", type=Path, default=Path("results/runs.jsonl"), help="the file of results")
    parser.add_argument("--runs", type=Path, default=Path("multirun/reproduce"), help="the folder of the runs")
    return parser.parse_args()


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number from 1 on")
    return int(text)


def minutes(text: str) -> float:
    """A number from 0 on."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of minutes from 0 on")
    return number


def run_missing(arguments: argparse.Namespace) -> bool:
    """Runs the trainings that have no line in the results; whether all have been run."""
    from forecast.errors import UserError
    from forecast.reproduction import records
    from forecast.reproduction.running import run_all
    from forecast.run_folder import read_run

    known = {records.key(line): line for line in records.read(arguments.results)}
    trained = {line["identity"] for line in known.values()}
    same: list[Job] = []  # trainings that stand in another table too
    failed: list[str] = []
    folder = arguments.runs.absolute()

    def log(text: str) -> None:
        print(time.strftime("%H:%M:%S"), text, flush=True)

    def done(job: "Job", run: "Run") -> None:
        title = f"{job.table} {job.row}, {job.model}, seed {job.seed}"
        if run.state == "finished":
            records.append(arguments.results, records.record(job, run))
            mse = run.metrics["test"]["scaled"]["mse"]
            log(f"{title}: MSE {mse:.4f}, {run.metrics['cost']['train_seconds']:.0f} s")
            return
        if run.state == "failed":
            failed.append(f"{title}: {run.path / 'output.txt'}")
        log(f"{run.state}: {title}: {run.reason}")

    def missing() -> "Iterator[Job]":
        for job in requested_jobs(arguments):
            if records.key(records.place(job)) in known:
                continue
            if job.identity in trained:
                same.append(job)
            elif (earlier := read_run(folder / job.identity)).state == "finished":
                done(job, earlier)
            else:
                trained.add(job.identity)
                yield job

    seconds = None if arguments.minutes is None else 60 * arguments.minutes
    complete = run_all(missing(), folder=folder, side_by_side=arguments.jobs, seconds=seconds, done=done)
    lines = {line["identity"]: line for line in records.read(arguments.results)} if same else {}
    for job in same:
        if job.identity in lines:
            records.append(arguments.results, {**lines[job.identity], **records.place(job)})
    if failed:
        raise UserError("failed, and to be run again by the same command:\n" + "\n".join(failed))
    return complete


def requested_jobs(arguments: argparse.Namespace) -> "Iterator[Job]":
    """The trainings that the command names. Raises UserError for a table, row, model or setting that is none."""
    from forecast.reproduction.published import read_published
    from forecast.reproduction.tables import cells, jobs

    chosen = cells(
        tables(arguments.table),
        read_published(),
        rows=[row for row in arguments.rows.split(",") if row],
        models=[name.strip() for name in arguments.models.split(";") if name.strip()],
    )
    return jobs(chosen, seeds=range(1, arguments.seeds + 1), extra=arguments.set)


def tables(name: str) -> "list[PublishedTable]":
    """The tables that --table names."""
    from forecast.errors import UserError, closest
    from forecast.reproduction.tables import TABLES

    if name == "all":
        return list(TABLES.values())
    if name not in TABLES:
        raise UserError(f"--table {name}: choose of {', '.join(TABLES)}, all.{closest(name, TABLES)}")
    return [TABLES[name]]


def print_tables(arguments: argparse.Namespace) -> None:
    """Prints the tables as docs/results.md has them."""
    from forecast.reproduction import records
    from forecast.reproduction.document import read_notes, table_lines
    from forecast.reproduction.published import RESULTS, read_published

    lines, printed = records.read(arguments.results), read_published()
    notes = read_notes(RESULTS / "notes.yaml")
    for table in tables(arguments.table):
        print("\n".join(table_lines(table, lines, printed, notes)))


if __name__ == "__main__":
    main()
