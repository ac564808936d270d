"""Imports point one way (ARCHITECTURE 2), and the tree keeps its promises."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "forecast"

# part: what it may import of ours, and which of the outside libraries it may not
BASE = {"errors"}
ARROWS = {
    "errors": set(),
    "attention": {"attention"},
    "layers": {"layers", "attention"},
    "models": {"models", "layers", "attention"},
    "informer2020": {"informer2020", "checkpoint", "layers", "data"} | BASE,
    "metrics": set(),
    "data": {"data"} | BASE,
    "runs": set(),
    "config": {"config", "runs"} | BASE,
    "checkpoint_file": BASE,
    "checkpoint": {"checkpoint_file", "models", "config", "data"} | BASE,
    "exported_program": {"attention"} | BASE,
    "export": {"exported_program", "checkpoint", "config", "data"} | BASE,
    "error_tables": set(),
    "report": {"error_tables"} | BASE,
    "figures": BASE,
    "comparison": {"comparison", "runs", "report", "figures"} | BASE,
    "reproduction": {"reproduction", "comparison", "runs", "report", "config"} | BASE,
    "evaluation": {"models", "metrics", "data"} | BASE,
    "offsets": {"evaluation", "models", "data"} | BASE,
    "prediction": {"evaluation", "data"} | BASE,
    "leakage": {"evaluation", "models", "data"} | BASE,
    "memory": set(),
    "results": {"checkpoint", "evaluation", "report", "figures", "data"} | BASE,
    "commands": {"checkpoint", "memory", "evaluation", "offsets", "prediction", "results", "report", "figures", "data"}
    | {"config"}
    | BASE,
    "training": None,  # everything
    "benchmark": None,
    "pytest_golden": set(),
    "__init__": set(),
}
FORBIDDEN = {
    "lightning": lambda part: part not in {"training", "benchmark"},
    "hydra": lambda part: part != "config",
    "omegaconf": lambda part: part not in {"config", "commands", "training"},
    "pandas": lambda part: part in {"attention", "layers", "models", "metrics", "config"},
    "torch": lambda part: part in {"config", "report", "figures", "errors", "runs", "comparison", "reproduction"},
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


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_follow_the_arrows(file):
    part = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert part in ARROWS, f"{part} has no row in ARROWS"
    allowed = ARROWS[part]
    for name, line in imports(file):
        where = f"{file.relative_to(ROOT)}:{line} imports {name}"
        if name.split(".")[0] == "forecast":
            # config computes a sweep's identity from the catalogue's checksums, lazily
            lazy = (part, name) == ("config", "forecast.data")
            assert allowed is None or part_of(name) in allowed | {"__init__"} or lazy, where
        elif name.split(".")[0] in FORBIDDEN:
            assert not FORBIDDEN[name.split(".")[0]](part), where


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
