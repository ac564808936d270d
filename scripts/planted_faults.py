"""Do the tests find planted faults? `python scripts/planted_faults.py [--only NAME ...] [--jobs N]`.

tests/mutants.py lists them: each is a wrong line in place of a right one, and the tests that must fail of it. They are
planted one by one in a copy of this tree. Exit status 1 where one survives, where its line is not found any more, and
where it leaves a program that cannot be imported.
"""

import argparse
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Imported once, here; each mutant's tests run in a fork of this process, which has nothing of the program yet.
HEAVY = (
    *(
        "torch",
        "lightning.pytorch",
        "pandas",
        "pyarrow",
        "sklearn.linear_model",
        "sklearn.ensemble",
        "scipy.stats",
        "matplotlib.figure",
    ),
    *(
        "hydra",
        "rich.table",
        "pooch",
        "safetensors.torch",
        "beartype",
        "jaxtyping",
        "tensorboard",
        "torch.utils.tensorboard",
    ),
    *("torch.utils.data", "torch.export", "optuna", "hypothesis", "pytest"),
)
OPTIONS = ("-q", "-n", "0", "-m", "", "-p", "no:cacheprovider", "--assert", "plain")
LIMIT = 300  # seconds for the tests of a mutant; twelve times as many for those of all without one
BREAKS = (ImportError, SyntaxError, NameError)  # a fault that nobody could overlook shows nothing about a test


class Watch:
    """A pytest plugin: what became of the tests."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.skipped: list[str] = []
        self.failed: dict[str, str] = {}
        self.broken: dict[str, str] = {}

    def pytest_collectreport(self, report: Any) -> None:
        """Keeps why a file could not be imported."""
        if report.failed:
            self.broken[report.nodeid] = str(report.longrepr)[-1000:]

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        """Keeps what became of the setup, the call and the teardown of a test."""
        import pytest

        if call.excinfo is None:
            if call.when == "call":
                self.passed.append(item.nodeid)
        elif isinstance(call.excinfo.value, pytest.skip.Exception):
            self.skipped.append(item.nodeid)
        else:
            where = self.broken if isinstance(call.excinfo.value, BREAKS) else self.failed
            where[item.nodeid] = f"{call.excinfo.typename}: {call.excinfo.value}"[:1000]

    def outcome(self) -> str:
        """killed: a test failed. broken: nothing could be run. skipped: no test ran. survived: all passed."""
        if self.broken:
            return "broken"
        if self.failed:
            return "killed"
        return "survived" if self.passed else "skipped"


def run_tests(tree: Path, nodes: Sequence[str], *options: str) -> dict[str, Any]:
    """The tests of a tree, in this process, which ends after it. options: of pytest, more than OPTIONS."""
    os.environ.update(PYTHONPATH=str(tree), OMP_NUM_THREADS="1")
    os.chdir(tree)
    sys.argv[:] = [shutil.which("pytest") or "pytest"]  # by which the program knows how it was started
    sys.path[:] = [
        str(tree),
        *(place for place in sys.path if Path(place).resolve() not in (ROOT, ROOT / "scripts", ROOT / "tests")),
    ]
    import pytest

    watch = Watch()
    code = int(pytest.main([*OPTIONS, *options, *nodes], plugins=[watch]))
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not watch.broken:
        watch.broken["pytest"] = f"exit status {code}: a name that no test has?"
    return {"outcome": watch.outcome(), **vars(watch)}


def fork(work: Callable[[], dict[str, Any]], answer: Path, *, seconds: int = LIMIT) -> int:
    """Starts work in a process of its own; what it returns is written to answer, what it prints beside it.

    seconds: after which it is ended.
    """
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    signal.alarm(seconds)
    with answer.with_suffix(".txt").open("w") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
        try:
            answer.write_text(json.dumps(work()))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(0)


def answered(pid: int, answer: Path) -> dict[str, Any]:
    """What the process pid, which has ended, wrote; nothing of it is left running."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if answer.exists():
        return dict(json.loads(answer.read_text()))
    printed = answer.with_suffix(".txt").read_text(errors="replace")[-2000:]
    return {"outcome": "broken", "broken": {"process": f"it ended, or took too long: {printed}"}}


def copied(target: Path) -> Path:
    """A copy of the tree, with the files that git does not know yet."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def planted(tree: Path, mutant: Any, number: int) -> Callable[[], None]:
    """Plants a fault; the call that is returned takes it back."""
    file = tree / mutant.file
    text, times = file.read_text(), file.stat()
    file.write_text(text.replace(mutant.old, mutant.new))
    os.utime(file, (10**9 + number,) * 2)  # bytecode is told from old one by the second and the size alone

    def restore() -> None:
        file.write_text(text)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    return restore


def moved(mutants: Sequence[Any]) -> list[Any]:
    """Those whose text is not in its file once."""

    def times(mutant: Any) -> int:
        file = ROOT / mutant.file
        return file.read_text().count(mutant.old) if file.exists() else 0

    return [mutant for mutant in mutants if times(mutant) != 1]


def run_mutants(mutants: Sequence[Any], trees: Sequence[Path], folder: Path) -> dict[str, dict[str, Any]]:
    """By name what became of the tests of each."""
    free, waiting = list(trees), list(enumerate(mutants))
    running: dict[int, tuple[Any, Path, Callable[[], None], float]] = {}
    answers: dict[str, dict[str, Any]] = {}
    try:
        while waiting or running:
            while waiting and free:
                number, mutant = waiting.pop(0)
                tree = free.pop()
                restore = planted(tree, mutant, number)
                pid = fork(lambda: run_tests(tree, mutant.tests, "-x"), folder / f"{mutant.name}.json")  # noqa: B023
                running[pid] = mutant, tree, restore, time.monotonic()
            pid, _ = os.wait()
            mutant, tree, restore, began = running.pop(pid)
            restore()
            free.append(tree)
            answer = answers[mutant.name] = answered(pid, folder / f"{mutant.name}.json")
            by = "".join(f" by {node}" for node in answer.get("failed", {}))
            print(f"{answer['outcome']:9} {time.monotonic() - began:5.1f} s  {mutant.name}{by}", flush=True)
            if answer["outcome"] != "killed":
                print(f"          {mutant.file}: {mutant.promise}")
                for node, why in {**answer.get("broken", {})}.items():
                    print(f"          {node}: {why}")
    finally:  # Ctrl-C: their processes are in sessions of their own
        for pid in running:
            os.killpg(pid, signal.SIGKILL)
    return answers


def check(mutants: Sequence[Any], jobs: int, folder: Path) -> bool:
    """Whether every fault is found; first of all, whether the tests pass without one."""
    lost = moved(mutants)
    for mutant in lost:
        print(f"moved: mend the table: {mutant.name}: the old text is not once in {mutant.file}")
    mutants = [mutant for mutant in mutants if mutant not in lost]
    first = copied(folder / "0")
    for name in HEAVY:
        with suppress(ImportError):
            importlib.import_module(name)
    nodes = list(dict.fromkeys(node for mutant in mutants for node in mutant.tests))
    began = time.monotonic()
    pid = fork(lambda: run_tests(first, nodes), folder / "none.json", seconds=12 * LIMIT)
    os.waitpid(pid, 0)
    whole = answered(pid, folder / "none.json")
    print(
        f"without a fault: {whole['outcome']}, {len(nodes)} tests named, {time.monotonic() - began:.0f} s", flush=True
    )
    ran = whole.get("passed", [])
    idle = [node for node in nodes if not any(f"{name}[".startswith((f"{node}[", f"{node}::")) for name in ran)]
    if whole["outcome"] != "survived" or idle:
        print(json.dumps({"failed": whole.get("failed"), "broken": whole["broken"], "no test ran": idle}, indent=1))
        return False
    others = [shutil.copytree(first, folder / str(number)) for number in range(1, jobs)]
    answers = run_mutants(mutants, [first, *others], folder)
    survivors = [name for name, answer in answers.items() if answer["outcome"] != "killed"]
    found, planned = len(answers) - len(survivors), len(answers) + len(lost)
    print(f"{found} of {planned} faults were found in {time.monotonic() - began:.0f} s")
    if survivors:
        print("not found:", *survivors)
    return not survivors and not lost


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these faults, or all whose name begins so")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time, each in a copy of the tree")
    args = parser.parse_args(words)
    sys.path.insert(0, str(ROOT / "tests"))
    listed = importlib.import_module("mutants").MUTANTS
    chosen = [mutant for mutant in listed if args.only is None or mutant.name.startswith(tuple(args.only))]
    if not chosen:
        print(f"no fault's name begins with {', '.join(args.only)}; tests/mutants.py has {len(listed)}")
        return 1
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        return 0 if check(chosen, args.jobs, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
