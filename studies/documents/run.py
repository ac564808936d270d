"""Runs the commands of excerpts.yaml as a user does, and says whether they print what was recorded."""

import datetime
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path

from forecast.errors import UserError
from forecast.run_folder.commit import commit
from studies.documents.records import Recipe, Record

ROOT = Path(__file__).parents[2]


def run(recipe: Recipe, place: Path, recipes: Mapping[str, Recipe]) -> list[str]:
    """What a terminal would show of its commands, run in the new folder `place`/NAME.

    It is empty, or a copy of the folder of the recipe that this one goes on from, which is run first unless it is
    there. Where the folder's path is printed, the word FOLDER stands instead.
    Raises UserError for a file that is not in FORECAST_DATA, and for a failing setup.
    """
    folder = place / recipe.name
    if recipe.after is None:
        folder.mkdir()
    else:
        if not (place / recipe.after).exists():
            run(recipes[recipe.after], place, recipes)
        shutil.copytree(place / recipe.after, folder)
    for file in recipe.reads:
        if not (Path(os.environ.get("FORECAST_DATA", "")) / file).is_file():
            raise UserError(f"{recipe.name} reads {file}: name the folder that has it in FORECAST_DATA")
    for command in recipe.setup:
        if (done := shell(command, folder)).returncode:
            raise UserError(f"{recipe.name}: the setup {command!r} failed: {done.stdout}")
    lines = []
    for command in recipe.commands:
        done = shell(command, folder)
        printed = done.stdout.replace(str(folder), "FOLDER")
        lines += [f"$ {command}", *(line.rstrip() for line in printed.splitlines())]
    return lines


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """One command line, `forecast` and `python` being those of this checkout and this interpreter."""
    python = shlex.quote(sys.executable)
    functions = f'forecast() {{ {python} -m forecast "$@"; }}; python() {{ {python} "$@"; }}; '
    return subprocess.run(
        ["bash", "-c", functions + command],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "REPOSITORY": str(ROOT), "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def made_by() -> str:
    """When, on what and by which code a command runs now."""
    date = datetime.datetime.now(tz=datetime.timezone.utc).strftime("%Y-%m-%d")
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, torch {version('torch')}"
    return f"{date}, {machine}, commit {commit()}"


def again(recipe: Recipe, record: Record, lines: list[str], now: str) -> tuple[Record, str | None]:
    """The record to keep of a recipe run once more, and the first difference to the one before.

    What differs in nothing but `varies` keeps its text, so that documents stay right. now: made_by() as the run began.
    """
    old, new = recipe.mask(record.lines), recipe.mask(lines)
    if old == new:
        return Record([record.header[0], f"# printed again: {now}"], record.lines), None
    return Record([f"# recorded: {now}"], lines), f"{recipe.name}: {first_difference(old, new)}"


def first_difference(before: list[str], now: list[str]) -> str:
    """The first line in which two outputs differ, in words."""
    for old, new in zip_longest(before, now, fillvalue="nothing more"):
        if old != new:
            return f"{old!r} was recorded, {new!r} is printed now"
    raise AssertionError("the outputs are equal")
