"""The list of planted faults stays whole as the code moves; what its runner makes of tests."""

import ast
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from mutants import MUTANTS, Mutant

from scripts import planted_faults

ROOT = Path(__file__).parents[1]
FEWEST = 200  # it may only grow: a fault whose promise is kept elsewhere now is planted there


@cache
def functions_of(file):
    return {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}


def test_the_list_only_grows_and_no_name_is_used_twice():
    assert len(MUTANTS) >= FEWEST
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []


def test_each_fault_can_be_planted_at_one_place():
    """Else code has moved: let `file` and `old` follow it, and run scripts/planted_faults.py --only NAME."""
    assert [mutant.name for mutant in planted_faults.moved(MUTANTS)] == []


def test_a_fault_changes_the_code_and_leaves_it_python():
    for mutant in MUTANTS:
        text = (ROOT / mutant.file).read_text()
        planted = text.replace(mutant.old, mutant.new)
        assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse(text)), mutant.name


def test_a_fault_names_a_promise_and_tests_that_there_are():
    assert [mutant.name for mutant in MUTANTS if not mutant.tests or not mutant.promise.endswith(".")] == []
    nodes = [node.partition("::") for mutant in MUTANTS for node in mutant.tests]
    assert [name for file, _, name in nodes if name.partition("[")[0] not in functions_of(file)] == []


def test_a_text_that_is_gone_or_stands_twice_is_told():
    once, gone, twice = (
        Mutant(name, "", "scripts/planted_faults.py", old, "", ())
        for name, old in (("once", "LIMIT = "), ("gone", "no such" + " text"), ("twice", "import "))
    )
    no_file = once._replace(name="no file", file="scripts/none.py")
    assert planted_faults.moved([once, gone, twice, no_file]) == [gone, twice, no_file]


class Item:
    nodeid = "test.py::test_it"


class Call:
    """What pytest says of a part of a test."""

    def __init__(self, when="call", error=None):
        self.when = when
        self.excinfo = None if error is None else SimpleNamespace(value=error, typename=type(error).__name__)


@pytest.mark.parametrize(
    ("calls", "outcome"),
    [
        ([Call("setup"), Call(), Call("teardown")], "survived"),
        ([Call(error=AssertionError("1 == 2"))], "killed"),
        ([Call("setup", ValueError("of the training of a fixture"))], "killed"),
        ([Call(error=NameError("a fault nobody could overlook"))], "broken"),
        ([Call("setup", ModuleNotFoundError("no module"))], "broken"),
        ([Call(error=pytest.skip.Exception("no data"))], "skipped"),
        ([], "skipped"),
    ],
)
def test_a_fault_is_found_by_a_test_that_fails_and_not_by_a_program_that_cannot_run(calls, outcome):
    watch = planted_faults.Watch()
    for call in calls:
        watch.pytest_runtest_makereport(Item, call)
    assert watch.outcome() == outcome


PLANTED = """
import pathlib, sys
import mutants, planted_faults
found = next(mutant for mutant in mutants.MUTANTS if mutant.name == "files-folder-not-brought-to-the-disk")
harmless = found._replace(name="harmless", old="DECIMALS = 6  #", new="DECIMALS = 7 - 1  #")
lost = found._replace(name="lost", old="lost and nowhere")
sys.exit(planted_faults.check([found, harmless, lost], 2, pathlib.Path(sys.argv[1])))
"""


@pytest.mark.slow
def test_a_planted_fault_is_found_and_a_harmless_change_survives(tmp_path):
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'scripts'}{os.pathsep}{ROOT / 'tests'}"}
    done = subprocess.run(
        [sys.executable, "-c", PLANTED, tmp_path], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr  # False
    assert "moved: mend the table: lost" in done.stdout and "not found: harmless\n" in done.stdout
    assert "1 of 3 faults were found" in done.stdout
