"""Imports between rooms point one way, and the tree keeps its promises."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "forecast"

# The rooms, lowest first: a room imports from those named in its row, each of which stands above it.
ARROWS = {
    "errors": set(),
    "ops": set(),
    "attention": {"ops"},
    "layers": {"attention", "ops"},
    "models": {"layers", "attention"},
    "data": {"errors"},
    "run_folder": {"errors"},
    "config": {"data", "run_folder", "errors"},
    "report": set(),
    "comparison": {"run_folder", "report", "errors"},
    "reproduction": {"comparison", "run_folder", "report", "config", "errors"},
    "checkpoint": {"models", "config", "data", "errors"},
    "evaluation": {"models", "data", "errors"},
    "export": {"checkpoint", "config", "layers", "attention", "data", "errors"},
    "training": {"evaluation", "checkpoint", "models", "attention", "report", "config", "data", "errors"},
    "commands": {"training", "evaluation", "checkpoint", "report", "run_folder", "config", "data", "errors"},
}
# outside library: the rooms that may import it
ALLOWED = {
    "lightning": {"training", "commands"},
    "hydra": {"config"},
    "omegaconf": {"config", "training", "commands"},
    "pandas": {"data", "checkpoint", "evaluation", "export", "report", "comparison", "training", "commands"},
    "torch": set(ARROWS) - {"config", "report", "errors", "run_folder", "comparison", "reproduction"},
}


def imports(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [f"forecast.{alias.name}" for alias in node.names] if node.module == "forecast" else [node.module]
            yield from ((name, node.lineno) for name in names)


def part_of(name):
    pieces = name.split(".")
    return pieces[1] if len(pieces) > 1 else "__init__"


def test_arrows_point_one_way():
    rooms = list(ARROWS)
    for number, (room, below) in enumerate(ARROWS.items()):
        assert below <= set(rooms[:number]), room


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_follow_the_arrows(file):
    room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert room in {*ARROWS, "__init__"}, f"{room} has no row in ARROWS"
    for name, line in imports(file):
        where = f"{file.relative_to(ROOT)}:{line} imports {name}"
        library = name.split(".")[0]
        assert library != "benchmarks", where
        if library == "forecast":
            assert part_of(name) in {room, "__init__", *ARROWS.get(room, ())}, where
        else:
            assert room in ALLOWED.get(library, {room}), where


def test_every_arrow_is_used():
    used = {room: set() for room in ARROWS}
    for file in PACKAGE.rglob("*.py"):
        room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for name, _ in imports(file):
            if name.split(".")[0] == "forecast" and room in used:
                used[room].add(part_of(name))
    for room, below in ARROWS.items():
        assert below <= used[room], f"{room} imports nothing of {below - used[room]}: a row shorter"


def test_six_files_at_most_stand_outside_a_room():
    assert len(list(PACKAGE.glob("*.py"))) <= 6


def test_instantiate_has_one_caller():
    callers = [f for f in PACKAGE.rglob("*.py") if any(n == "hydra.utils" for n, _ in imports(f))]
    assert [f.name for f in callers] == ["build.py"]


def test_entry_points_are_thin():
    for name in ("train.py", "evaluate.py", "predict.py"):
        assert len((ROOT / name).read_text().splitlines()) < 60


def test_a_folder_has_three_files_or_more():
    for folder in {f.parent for f in PACKAGE.rglob("*.py")}:
        assert len(list(folder.glob("*.py"))) >= 3, folder


def test_no_csv_is_committed():
    import subprocess

    listed = subprocess.run(["git", "ls-files", "*.csv"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert [name for name in listed.stdout.split() if not name.startswith("results/")] == []  # tables of errors
