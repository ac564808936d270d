"""Runs published tables and sets ours beside theirs.

A row is the experiment TABLE/ROW (forecast/config/published.yaml). The trainings run one after another in this process;
the result of each becomes a line of results/runs.jsonl. What is there is not run again; what was stopped or killed goes
on from its last checkpoint.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from forecast.apps.options import minutes, positive
from forecast.errors import Terminated, UserError, closest
from forecast.run_folder import OUTPUT, Run, read_run
from forecast.text.terminal import say
from studies.published import SEEDS, records
from studies.published.document import CODE, read_notes, table_lines
from studies.published.outcome import RULE
from studies.published.panels import TABLE, panel_jobs, panel_lines
from studies.published.published import RESULTS, read_published
from studies.published.running import expected, run_all
from studies.published.tables import TABLES, Job, PublishedTable, cells, jobs


def options(parser: argparse.ArgumentParser) -> None:
    """Which trainings of which tables, and where they go."""
    parser.epilog = (
        "Trainings run one after another. What has a result is not run again; what was stopped or killed goes on from "
        "its last checkpoint."
    )
    parser.add_argument("--table", required=True, help="etth1_m, etth1_s, ..., dlinear, patchtst, all, or panels")
    parser.add_argument("--root", type=Path, default=Path("data/panels"), help="where the files of panels lie")
    parser.add_argument("--rows", default="", help="some of its rows, such as 24,48; default: all")
    parser.add_argument("--models", default="", help="some of its models, by semicolons: 'informer2020;informer'")
    parser.add_argument("--seeds", type=positive, default=SEEDS, help=f"seeds 1 to N (default {SEEDS})", metavar="N")
    parser.add_argument("--minutes", type=minutes, help="stop after so long; the same command goes on next time")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for every training, as train")
    parser.add_argument("--results", type=Path, default=Path("results/runs.jsonl"), help="the file of results")
    parser.add_argument("--runs", type=Path, default=Path("multirun/reproduce"), help="the folder of the runs")


def main(arguments: argparse.Namespace) -> None:
    """Runs what is missing, then prints the tables."""
    try:
        complete = run_missing(arguments)
        print_tables(arguments)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: {error.strerror}."
        raise UserError(f"{where} Choose places that you can write to: --results FILE, --runs DIR") from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted: the same command goes on from here.") from None
    except Terminated as stop:
        raise Terminated("A signal ended it: the same command goes on from here.", stop.number) from None
    if not complete:
        say("The time is up: the same command goes on from here.")


def run_missing(arguments: argparse.Namespace) -> bool:
    """Runs the trainings that have no line in the results; whether all have been run."""
    known = {records.key(line): line for line in records.read(arguments.results)}
    trained = {line["identity"] for line in known.values()}
    left: list[Job] = []
    same: list[Job] = []  # trainings that stand in another table too
    failed: list[str] = []
    folder = arguments.runs.absolute()

    def log(text: str) -> None:
        say(time.strftime("%H:%M:%S"), text)

    def done(job: Job, run: Run) -> None:
        title = f"{job.table} {job.row}, {job.model}, seed {job.seed}"
        if run.state == "finished":
            records.append(arguments.results, records.record(job, run))
            mse = run.metrics["test"]["scaled"]["mse"]
            log(f"{title}: MSE {mse:.4f}, {run.metrics['cost']['train_seconds']:.0f} s")
            return
        if run.state == "failed":
            failed.append(f"{title}: {run.path / OUTPUT}")
        log(f"{run.state}: {title}: {run.reason}")

    for job in requested_jobs(arguments):
        if records.key(records.place(job)) in known:
            continue
        if job.identity in trained:
            same.append(job)
        elif (earlier := read_run(folder / job.identity)).state == "finished":
            done(job, earlier)
        else:
            trained.add(job.identity)
            left.append(job)
    seconds = None if arguments.minutes is None else 60 * arguments.minutes
    if left and seconds != 0:
        for sentence in expected(left, [*known.values()], folder):
            log(sentence)
    complete = run_all(left, folder=folder, seconds=seconds, done=done)
    lines = {line["identity"]: line for line in records.read(arguments.results)} if same else {}
    for job in same:
        if job.identity in lines:
            records.append(arguments.results, {**lines[job.identity], **records.place(job)})
    if failed:
        raise UserError("failed, and to be run again by the same command:\n" + "\n".join(failed))
    return complete


def requested_jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    """The trainings that the command names. Raises UserError for a table, row, model or setting that is none."""
    rows = [row for row in arguments.rows.split(",") if row]
    models = [name.strip() for name in arguments.models.split(";") if name.strip()]
    seeds = range(1, arguments.seeds + 1)
    if arguments.table == TABLE:
        named: Any = {"rows": rows, "models": models, "seeds": seeds, "extra": arguments.set}
        return panel_jobs(arguments.root, arguments.runs, **named)
    chosen = cells(tables(arguments.table), read_published(), rows=rows, models=models)
    return jobs(chosen, seeds=seeds, extra=arguments.set)


def tables(name: str) -> list[PublishedTable]:
    """The tables that --table names."""
    if name == "all":
        return list(TABLES.values())
    if name not in TABLES:
        known = [*TABLES, TABLE, "all"]
        raise UserError(f"--table {name}: choose of {', '.join(known)}.{closest(name, known)}")
    return [TABLES[name]]


def print_tables(arguments: argparse.Namespace) -> None:
    """Prints the tables as docs/results.md has them, and what their words mean."""
    lines, printed = records.read(arguments.results), read_published()
    if arguments.table == TABLE:
        say("\n".join(panel_lines(lines)))
        return
    notes = read_notes(RESULTS / "notes.yaml")
    for table in tables(arguments.table):
        say("\n".join(table_lines(table, lines, printed, notes)))
    if lines:
        say(f"{RULE}\n\n{CODE}")
