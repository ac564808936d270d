"""Does a change leave what the program gives as it was? Usage: python scripts/record.py [BASE] [--case NAME ...]

Runs the cases of scripts/recorder/cases.yaml with the code of BASE, a commit, and with that of the working tree, one
thread each, side by side, and compares what they leave: weights, configs, figures, forecasts, intervals, data of
pictures, sentences. What scripts/recorder/moved.yaml lists moves on purpose; any other difference is an exit status
of 1.
"""

import argparse
import fnmatch
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import Template
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # scripts/ is no part of the installed package

from scripts.recorder.comparing import Difference, differences, moved, read_case  # noqa: E402
from scripts.recorder.files import write_files  # noqa: E402

RECORDER = ROOT / "scripts" / "recorder"
SIDES = ("base", "head")  # names of one length: no table is wider on one side
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
MOST = 12  # differences of a case that are shown


def main() -> None:
    """Runs both sides, compares them, and says what differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0].split(" Usage")[0])
    listed = read_yaml("moved.yaml")
    parser.add_argument("base", metavar="BASE", nargs="?", default=listed["base"], help="a commit; else moved.yaml's")
    parser.add_argument("--head", metavar="COMMIT", help="this commit instead of the working tree")
    parser.add_argument("--case", metavar="NAME", nargs="+", default=["*"], help="these alone; patterns, as 'panel*'")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="a new folder in which all that was made stays")
    parser.add_argument("--all", action="store_true", help=f"show every difference, not {MOST} a case")
    arguments = parser.parse_args()
    cases = {name: steps for name, steps in read_cases().items() if any_match(name, arguments.case)}
    if not cases:
        parser.error(f"--case {' '.join(arguments.case)}: there is no such case. All: {' '.join(read_cases())}")
    begun = time.monotonic()
    with place_for(arguments.keep) as place:
        for side, commit in zip(SIDES, (arguments.base, arguments.head or snapshot(place)), strict=True):
            prepare(place / side, commit, cases, listed["words"] or [])
        run_sides(place)
        found = {name: compared(place, name) for name in cases}
        for name, steps in cases.items():
            note_failures(place / SIDES[1] / "cases" / name, steps)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    failed = report(found, listed["moved"] or [], most=None if arguments.all else MOST)
    taken = f"{time.monotonic() - begun:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processors"
    print(f"{len(cases)} cases, {failed} differ unexplained. {taken}.")
    sys.exit(1 if failed else 0)


def read_yaml(name: str) -> Any:
    """A file beside the recorder."""
    return yaml.safe_load((RECORDER / name).read_text())


def read_cases() -> dict[str, list[str]]:
    """Name -> commands, with the words of cases.yaml filled in."""
    document = read_yaml("cases.yaml")
    words: dict[str, str] = {}
    for name, text in document["words"].items():
        words[name] = Template(text).substitute(words)
    return {
        name: [Template(step).substitute(words) for step in ([steps] if isinstance(steps, str) else steps)]
        for name, steps in document["cases"].items()
    }


def any_match(name: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns is the name's."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def git(*arguments: str, **options: Any) -> str:
    """What git prints."""
    command = ["git", "-C", str(ROOT), *arguments]
    return str(subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **options).stdout).strip()


def snapshot(place: Path) -> str:
    """A commit, on no branch, of the working tree as it is, new files included: it may change while the cases run."""
    index = {**os.environ, "GIT_INDEX_FILE": str(place / "index")}
    git("read-tree", "HEAD", env=index)
    git("add", "--all", env=index)
    tree = git("write-tree", env=index)
    return git("commit-tree", tree, "-p", "HEAD", "-m", "The working tree")


@contextmanager
def place_for(kept: Path | None) -> Iterator[Path]:
    """A folder for both sides, which goes at the end unless it is to be kept; the worktrees always go."""
    place = Path(tempfile.mkdtemp(prefix="record-")) if kept is None else kept.resolve()
    place.mkdir(parents=True, exist_ok=kept is None)
    try:
        yield place
    finally:
        for side in SIDES:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", place / side / "code"], check=False)
        if kept is None:
            shutil.rmtree(place)


def prepare(place: Path, commit: str, cases: Mapping[str, Sequence[str]], words: Sequence[Mapping[str, str]]) -> None:
    """A side's checkout, the files that the cases read, and the cases in the words that the commit knows."""
    place.mkdir()
    git("worktree", "add", "--detach", "--quiet", str(place / "code"), commit)
    write_files(place / "files")
    former = [word for word in words if not contains(commit, word["since"])]
    in_its_words = {name: [reworded(step, former) for step in steps] for name, steps in cases.items()}
    (place / "cases.json").write_text(json.dumps(in_its_words))


def contains(commit: str, since: str) -> bool:
    """Whether a commit is `since` or comes after it."""
    command = ["git", "-C", str(ROOT), "merge-base", "--is-ancestor", since, commit]
    return subprocess.run(command, check=False).returncode == 0


def reworded(step: str, words: Sequence[Mapping[str, str]]) -> str:
    """A command in the words before they were renamed."""
    for word in words:
        step = step.replace(word["now"], word["was"])
    return step


def run_sides(place: Path) -> None:
    """Both sides at once, one processor each. Ends this program where one of them could not run its cases."""
    processes = []
    for side in SIDES:
        folder = place / side
        unset = {name for name in os.environ if name.startswith(("FORECAST_", "HYDRA_", "COLUMNS"))}
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each command compiles the package
        environment |= {**ONE_THREAD, "PYTHONPATH": str(folder / "code"), "COLUMNS": "120", "CUDA_VISIBLE_DEVICES": ""}
        words = (RECORDER / "running.py", folder / "code", folder, folder / "cases.json")
        processes.append(subprocess.Popen([sys.executable, *map(str, words)], env=environment, cwd=folder))
    statuses = [process.wait() for process in processes]
    if any(statuses):
        sys.exit("A side could not run its cases; see above.")


def compared(place: Path, name: str) -> list[Difference]:
    """What differs of a case."""
    base, head = (read_case(place / side / "cases" / name, str(place / side)) for side in SIDES)
    return differences(base, head)


def note_failures(folder: Path, steps: Sequence[str]) -> None:
    """Says which commands fail, or succeed, though cases.yaml has them otherwise: what is equal then shows little."""
    for number, step in enumerate(steps, 1):
        for path in folder.glob(f"{number}-*.err.txt"):
            failed = not path.read_text().endswith("exit status 0\n")
            if failed != step.startswith(("refused ", "killed ")):
                print(f"note: {folder.name}/{path.name}: {'fails' if failed else 'does not fail'}")


def report(found: Mapping[str, Sequence[Difference]], entries: Sequence[Mapping[str, Any]], most: int | None) -> int:
    """Prints what differs, first what moved on purpose; returns how many cases have a difference without a reason."""
    everything = [one for ours in found.values() for one in ours]
    for entry in entries:
        if count := sum(moved(one, entry) for one in everything):
            print(f"moved on purpose, {count} times: {entry['files']}:{entry['field']}: {entry['why']}")
        elif len(found) == len(read_cases()):
            name = f"{entry['files']}:{entry['field']}"
            print(f"warning: moved.yaml lists {name}, which is the same on both sides: {entry['why']}")
    unexplained = 0
    for ours in found.values():
        left = [one for one in ours if not any(moved(one, entry) for entry in entries)]
        unexplained += bool(left)
        for one in left[:most]:
            print(f"differs: {one.field}\n    base: {indented(one.base)}\n    head: {indented(one.head)}")
        if left[most or len(left) :]:
            print(f"    and {len(left) - len(left[:most])} more of this case; --all shows them")
    return unexplained


def indented(text: str) -> str:
    """The lines of a value below each other, cut where they are long."""
    return "\n          ".join(line[:400] for line in text.splitlines()[:12])


if __name__ == "__main__":
    main()
