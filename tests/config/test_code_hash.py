"""The hash of the code: blind to what changes no number, and to nothing else."""

import ast
import re

import pytest
from test_architecture import PACKAGE, ROOT

from forecast.config.code_hash import COMMANDS, LEFT_OUT, code_hash, hash_of, hashed_files

CODE = '''\
"""What this module is for."""

from math import pi

SCALE = 2.0


class Area:
    """A circle."""

    def of(self, radius):
        """Square units."""
        return pi * radius**SCALE
'''


def hashed(folder, text):
    (folder / "area.py").write_text(text)
    return hash_of(folder, [folder / "area.py"])


SAME = {
    "a comment": ("SCALE = 2.0", "SCALE = 2.0  # of a circle"),
    "a docstring": ("Square units.", "In the square of the unit of the radius."),
    "no docstring": ('    """A circle."""\n\n', ""),
    "layout": ("pi * radius**SCALE", "(\n            pi * radius ** SCALE\n        )"),
    "another spelling of a number": ("2.0", "2.00"),
}
OTHER = {
    "a number": ("2.0", "2.5"),
    "its type": ("2.0", "2"),
    "an operator": ("pi * radius", "pi + radius"),
    "a name": ("Area", "Disc"),
    "a default": ("radius)", "radius=None)"),
    "an import": ("from math", "from numpy"),
    "a decorator": ("    def of", "    @cached\n    def of"),
    "a text that is used": ("SCALE = 2.0", "SCALE = 2.0\nUNIT = 'm'"),
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_what_changes_no_number_keeps_it(tmp_path, change):
    changed = CODE.replace(*change)
    assert changed != CODE
    assert hashed(tmp_path, changed) == hashed(tmp_path, CODE)


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER)
def test_what_may_change_a_number_changes_it(tmp_path, change):
    changed = CODE.replace(*change)
    assert changed != CODE
    assert hashed(tmp_path, changed) != hashed(tmp_path, CODE)


def test_a_module_that_moves_changes_it(tmp_path):
    before = hashed(tmp_path, CODE)
    moved = (tmp_path / "area.py").rename(tmp_path / "disc.py")
    assert hash_of(tmp_path, [moved]) != before


def test_it_does_not_depend_on_the_version_of_python(tmp_path):
    """3.10.13, 3.11.7, 3.12.1 and 3.13.0 gave the pinned one, and all four the same one for the package."""
    text = "def f(x: int | None = None, *a, k='é', **o) -> str:\n    return f'{x!r:>9} ' 'b' if a else None\n"
    assert hashed(tmp_path, text) == "5e1df42caac8"


def test_it_is_12_hex_digits_of_the_package():
    assert re.fullmatch("[0-9a-f]{12}", code_hash())
    assert code_hash() == hash_of(PACKAGE, hashed_files())


def reached_from(module):
    """The files that a module imports, also inside functions and by way of others."""
    files = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in PACKAGE.rglob("*.py")}
    reached, pending = set(), [module]
    while pending:
        name = pending.pop()
        if name in files and files[name] not in reached:
            reached.add(files[name])
            for node in ast.walk(ast.parse(files[name].read_text())):
                if isinstance(node, ast.Import):
                    pending += [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):  # a name in it may be a module
                    pending += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return reached


def test_whatever_a_training_imports_or_builds_is_hashed_but_for_its_pictures_and_words():
    reached = reached_from("forecast.commands.train")
    assert PACKAGE / "training" / "throughput.py" in reached
    rooms = {file.relative_to(PACKAGE).parts[0] for file in reached - set(hashed_files())}
    assert rooms == {"report", "text"}
    built = ("attention", "layers", "models", "data", "training", "evaluation")  # by what a config names
    assert {file for room in built for file in (PACKAGE / room).rglob("*.py")} <= set(hashed_files())


def test_what_is_left_out_is_there_and_is_left_out():
    left_out = {path for name in LEFT_OUT for path in [PACKAGE / name, *(PACKAGE / name).rglob("*.py")]}
    assert {name for name in LEFT_OUT if not (PACKAGE / name).exists()} <= {"conf", "results"}  # in a wheel alone
    assert left_out & set(hashed_files()) == {PACKAGE / name for name in COMMANDS}
