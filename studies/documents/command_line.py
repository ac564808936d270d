"""python scripts/excerpts.py --check | --run [NAME ...]."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from forecast.errors import UserError, closest
from studies.documents.check import problems, unused
from studies.documents.records import Recipe, Record, read_recipes, read_record, record_path, write_record
from studies.documents.run import ROOT, again, made_by, run

MADE = {"docs/results.md"}  # documents that a script makes as a whole
MAKERS = ("results.py", "performance.py", "wild_files.py", "intervals.py")


def main() -> None:
    """Checks; with --run records before. Exit status 1 when anything differs, with a line for each difference."""
    parser = argparse.ArgumentParser(description="Compare README.md and docs/ with what the program printed.")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--check", action="store_true", help="compare with results/excerpts, and what scripts make with results/"
    )
    action.add_argument("--run", nargs="*", metavar="NAME", help="record these (or all) anew, then check")
    arguments = parser.parse_args()
    try:
        recipes = read_recipes(ROOT / "results" / "excerpts.yaml")
        found = [] if arguments.check else record(arguments.run or recipes, recipes, ROOT)
        found += check(recipes, ROOT)
        for script in MAKERS:
            found += made_otherwise(ROOT / "scripts" / script)
    except UserError as error:
        found = [str(error)]
    if found:
        sys.exit("\n".join(found))


def record(names: Collection[str], recipes: Mapping[str, Recipe], root: Path) -> list[str]:
    """Runs recipes and keeps what they print. Origin is what differs from before, beyond `varies`. Raises UserError."""
    for name in names:
        if name not in recipes:
            raise UserError(f"--run {name}: no such excerpt in results/excerpts.yaml.{closest(name, recipes)}")
    differences = []
    now = made_by()
    with tempfile.TemporaryDirectory() as place:
        # in their order: one that others go on from stands before them, and is run once
        for recipe in recipes.values():
            if recipe.name in names:
                lines = run(recipe, Path(place), recipes)
                difference = keep(recipe, lines, record_path(root, recipe.name), now)
                for made, shown in recipe.pictures.items():
                    shutil.copyfile(Path(place) / recipe.name / made, root / shown)
                print(f"{recipe.name}: {'printed otherwise than before' if difference else 'recorded'}", flush=True)
                differences += [difference] if difference else []
    return differences


def keep(recipe: Recipe, lines: list[str], path: Path, now: str) -> str | None:
    """Writes the record of what was printed now; the first difference to the one before, in words. now: made_by()."""
    new, difference = Record([f"# recorded: {now}"], lines), None
    if path.is_file():
        try:
            new, difference = again(recipe, read_record(path), lines, now)
        except UserError as error:  # changed by hand: now it is right again, and that is told
            difference = str(error)
    write_record(path, new)
    return difference


def check(recipes: Mapping[str, Recipe], root: Path) -> list[str]:
    """What README.md and docs/ show otherwise than recorded. Raises UserError for a wrong record."""
    records = {name: read_record(record_path(root, name)) for name in recipes}
    found = [
        f"results/excerpts/{name}.txt was recorded with other commands than excerpts.yaml has: --run {name}"
        for name, recipe in recipes.items()
        if records[name].commands != recipe.commands
    ]
    paths = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    for path in paths:
        if path.relative_to(root).as_posix() not in MADE:
            found += problems(path, root, records)
    found += unused(recipes.keys() - {recipe.after for recipe in recipes.values()}, paths)
    print(f"{len(recipes)} recorded outputs, {len(paths)} documents.")
    return found


def made_otherwise(script: Path) -> list[str]:
    """What a script that makes documents says of them with --check; empty when they are up to date."""
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    return [(done.stderr or done.stdout).strip()] if done.returncode else []
