"""results/excerpts.yaml, the commands whose output documents show, and results/excerpts/NAME.txt, what they printed.

A record is what a terminal shows: `$ COMMAND`, then its output on stdout and stderr, command after command. Lines with
# come first: when it was recorded, at which commit, and the checksum of the rest.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from forecast.errors import UserError, closest
from forecast.files import write_text


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """An entry of excerpts.yaml.

    commands: as a user types them, run one after the other in an empty folder; a failing one is no error.
    after: the recipe whose folder it goes on in. setup: commands before, which no document shows.
    reads: files that must lie in the folder FORECAST_DATA. pictures: a file that the commands leave -> its place in
    the repository. varies: patterns of what differs by machine and time.
    """

    name: str
    commands: list[str]
    after: str | None = None
    setup: list[str]
    reads: list[str]
    pictures: dict[str, str]
    varies: list[re.Pattern[str]]

    def mask(self, lines: list[str]) -> list[str]:
        """The lines with a ~ for each match of `varies`."""
        for pattern in self.varies:
            lines = [pattern.sub("~", line) for line in lines]
        return lines


@dataclass(frozen=True)
class Record:
    """header: its lines with #, less the checksum. lines: `$ COMMAND` and what it printed, without trailing blanks."""

    header: list[str]
    lines: list[str]

    @property
    def commands(self) -> list[str]:
        """The commands, in order."""
        return [line[2:] for line in self.lines if line.startswith("$ ")]


def read_recipes(path: Path) -> dict[str, Recipe]:
    """All entries by name. Raises UserError for a key or a name that does not exist, and for a broken pattern."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    patterns = content["varies"]
    recipes: dict[str, Recipe] = {}
    for name, entry in content["excerpts"].items():
        after = entry.get("after")
        if after is not None and after not in recipes:
            raise UserError(f"{path.name}: {name}: after: {after} is no excerpt above it.{closest(after, recipes)}")
        recipes[name] = recipe(path, name, entry, patterns)
    return recipes


def recipe(path: Path, name: str, entry: Mapping[str, Any], patterns: Mapping[str, str]) -> Recipe:
    """One entry. Raises UserError as read_recipes does."""
    keys = {"commands", "after", "setup", "reads", "pictures", "varies"}
    for key in entry.keys() - keys:
        raise UserError(f"{path.name}: {name}: {key} is no key of an excerpt.{closest(key, keys)}")
    for pattern in entry.get("varies", []):
        if pattern not in patterns:
            raise UserError(f"{path.name}: {name}: varies: {pattern} has no pattern.{closest(pattern, patterns)}")
    return Recipe(
        name=name,
        commands=entry["commands"],
        after=entry.get("after"),
        setup=entry.get("setup", []),
        reads=entry.get("reads", []),
        pictures=entry.get("pictures", {}),
        varies=[re.compile(patterns[pattern]) for pattern in entry.get("varies", [])],
    )


def record_path(root: Path, name: str) -> Path:
    """Where a recorded output lies in the repository at `root`."""
    return root / "results" / "excerpts" / f"{name}.txt"


def read_record(path: Path) -> Record:
    """A recorded output. Raises UserError when there is none, or when it was changed by hand."""
    if not path.is_file():
        raise UserError(f"{path.name} is not there: record it, python scripts/excerpts.py --run {path.stem}")
    lines = path.read_text(encoding="utf-8").splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith("$ ")), len(lines))
    if not first or lines[first - 1] != checksum(lines[first:]):
        raise UserError(
            f"{path.name} does not have its own checksum: it was changed by hand, or a merge mixed two; record it "
            f"again, python scripts/excerpts.py --run {path.stem}"
        )
    return Record(lines[: first - 1], lines[first:])


def write_record(path: Path, record: Record) -> None:
    """Puts it at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "\n".join([*record.header, checksum(record.lines), *record.lines]) + "\n")


def checksum(lines: list[str]) -> str:
    """The last line of a record's header."""
    return f"# sha256 of the rest: {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:16]}"
