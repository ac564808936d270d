"""Results of trainings, a line of JSON each: what was asked for, and what metrics.json and run.json say."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from forecast.errors import UserError
from forecast.report import rounded
from forecast.reproduction.tables import Job
from forecast.runs import Run, result_line


def record(job: Job, run: Run) -> dict[str, Any]:
    """The line of a finished run."""
    asked = {"identity": job.identity, "table": job.table, "row": job.row, "contender": job.contender}
    return {**asked, "overrides": list(job.overrides), **result_line(run)}


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Adds a line, on the disk when this returns. What a crash has left of a line is removed: its run comes again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(rounded(line), allow_nan=False) + "\n"
    with path.open("ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Identity -> line, the last one where there are several; empty without a file.

    A cut-off last line is left out: its run is done again. Raises UserError for any other line that is none of ours.
    """
    if not path.is_file():
        return {}
    found = {}
    lines = path.read_bytes().splitlines(keepends=True)
    for number, raw in enumerate(lines, start=1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
            found[line["identity"]] = line
        except (ValueError, KeyError, TypeError) as error:
            if number < len(lines) or raw.endswith(b"\n"):
                raise UserError(f"{path}, line {number} is no result: {error}. Remove the line.") from error
    return found


def of_table(lines: Iterable[Mapping[str, Any]], table: str) -> list[Mapping[str, Any]]:
    """The lines of one table, in their order."""
    return [line for line in lines if line.get("table") == table]
