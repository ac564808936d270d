"""Results of trainings, a line of JSON each: the training's place in a table, its metrics.json and its run.json."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import BaseModel

from forecast.documents import DocumentError, check_document, parse_document
from forecast.files import rounded
from forecast.run_folder import Run, result_line
from studies.published.tables import Job


class Line(BaseModel):
    """What is counted on in a result: its metrics.json, its run.json and its place, in one."""

    identity: str
    table: str
    row: str
    contender: str
    overrides: list[str]
    seed: int
    versions: dict[str, str | int | None]
    test: dict[str, Any]
    baselines: dict[str, Any]
    cost: dict[str, Any]


def key(line: Mapping[str, Any]) -> tuple[str, ...]:
    """What a line stands for. Two tables may hold the same training: the identity alone is not enough."""
    return line["identity"], line["table"], line["row"], line["contender"]


def place(job: Job) -> dict[str, Any]:
    """The keys of a line that its job decides."""
    names = {"identity": job.identity, "table": job.table, "row": job.row, "contender": job.model}
    return {**names, "overrides": [without_folder(word) for word in job.overrides]}


def without_folder(override: str) -> str:
    """An override that names a file of the data by its name alone: where it lay here is of no use elsewhere."""
    key, _, value = override.partition("=")
    return f"{key}={Path(value).name}" if key == "data.path" else override


def record(job: Job, run: Run) -> dict[str, Any]:
    """The line of a finished run."""
    return {**result_line(run), **place(job)}


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Adds a line, on the disk when this returns. A part of a line, left by a crash, is removed: it is run again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(rounded(line), allow_nan=False) + "\n"
    with FileLock(path.with_name(f".{path.name}.lock")), path.open("ab+") as file:  # one writer at a time
        file.seek(0)
        content = file.read()
        tail = content[content.rfind(b"\n") + 1 :]
        if tail and _is_json(tail):  # an editor has left out the last end of line
            text = "\n" + text
        else:
            file.truncate(len(content) - len(tail))
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> list[dict[str, Any]]:
    """The lines, of several with the same key the last one; none without a file.

    A cut-off last line is left out: it is run again. Raises DocumentError for any other line that is none of ours.
    """
    if not path.is_file():
        return []
    results = {}
    for number, raw in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        if not raw.strip() or not (raw.endswith((b"\n", b"\r")) or _is_json(raw)):
            continue
        place = f"{path}, line {number},"
        line = parse_document(place, raw, dict[str, Any])
        check_document(place, line, Line)
        results[key(line)] = line
    return list(results.values())


def _is_json(raw: bytes) -> bool:
    try:
        parse_document("", raw, dict[str, Any])
    except DocumentError:
        return False
    return True
