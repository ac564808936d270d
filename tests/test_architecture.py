"""Imports between rooms point one way, and the tree keeps its promises."""

import ast
import functools
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "forecast"

# They import nothing of ours; every room may import them.
BASE = {"errors", "files", "documents", "bounds", "text"}
# The doors, for a shell and (__init__) for Python: they know the commands, and nothing imports this one.
DOOR = "__main__"
# The rooms, lowest first: a room imports from those named in its row, each of which stands above it.
ARROWS = {
    "ops": set(),
    "attention": {"ops"},
    "layers": {"attention", "ops"},
    "models": {"layers", "attention", "ops"},
    "data": set(),
    "run_folder": set(),
    "config": {"data", "run_folder"},
    "report": {"run_folder"},
    "comparison": {"run_folder", "report"},
    "checkpoint": {"models", "config", "run_folder", "data"},
    "evaluation": {"models", "data", "ops"},
    "training": {"evaluation", "checkpoint", "models", "ops", "attention", "report", "run_folder", "config", "data"},
    "jobs": {"run_folder", "config"},
    "apps": {
        *("jobs", "training", "evaluation", "checkpoint", "comparison", "report", "run_folder"),
        *("config", "models", "layers", "attention", "data"),
    },
}
# outside library: the rooms that may import it
ALLOWED = {
    "lightning": {"training", "apps"},
    "hydra": {"config", "jobs"},
    "omegaconf": {"config", "jobs", "apps", DOOR},
    "jinja2": {"report"},
    "pandas": {"data", "checkpoint", "evaluation", "report", "comparison", "training", "apps"},
    "torch": set(ARROWS) - {"config", "report", "run_folder", "comparison"},
}


# Calls that write to the terminal.
PRINTS = r"(^|\.)(print|pprint|secho|print_exc|print_exception)$|\bstd(out|err)\w*\.write$"


@functools.cache
def nodes(file):
    """All of its syntax tree."""
    return list(ast.walk(ast.parse(file.read_text())))


def imports(file):
    for node in nodes(file):
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


def may_import(room, name):
    library = name.split(".")[0]
    if library == "forecast":
        if room in (DOOR, "__init__"):
            return part_of(name) in {"errors", "text", "config", "apps"}
        return part_of(name) in ({room, *BASE, *ARROWS[room], "__init__"} if room in ARROWS else {"errors", room})
    return library not in ("benchmarks", "studies") and room in ALLOWED.get(library, {room})


def test_imports_follow_the_arrows():
    wrong = []
    for file in sorted(PACKAGE.rglob("*.py")):
        room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        assert room in {*ARROWS, *BASE, "__init__", DOOR}, f"{room} has no row in ARROWS"
        names = [(name, line) for name, line in imports(file) if not may_import(room, name)]
        wrong += [f"{file.relative_to(ROOT)}:{line} imports {name}" for name, line in names]
    assert wrong == []


def module_imports():
    """Each module of the package -> those of its modules that it imports as it is loaded, not inside a function."""
    files = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in PACKAGE.rglob("*.py")}
    files = {name.removesuffix(".__init__"): file for name, file in files.items()}
    arrows = {}
    for name, file in files.items():
        pending, needed = [*nodes(file)[0].body], set()
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Import):
                needed |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):  # a name in it may be a module
                needed |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
            elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                pending += ast.iter_child_nodes(node)
        arrows[name] = needed & files.keys()
    return arrows


def on_a_circle(arrows):
    """The modules that import themselves by way of others."""

    def reached(name):
        seen, pending = set(), [name]
        while pending:
            pending += (new := arrows[pending.pop()] - seen)
            seen |= new
        return seen

    return {name for name in arrows if name in reached(name)}


def test_no_module_imports_itself_by_way_of_others():
    """An import for type checking alone counts: two files that each need the other's names are one thing."""
    arrows = module_imports()
    assert arrows["forecast.models.informer"] >= {"forecast.models.decoders", "forecast.models.base"}
    assert on_a_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == {"b", "c"}
    assert on_a_circle(arrows) == set()


def test_nothing_is_imported_for_type_checking_alone():
    """But by the door of Python, which is there in a second: torch comes with the first method."""
    found = [str(file.relative_to(ROOT)) for file in PACKAGE.rglob("*.py") if "TYPE_CHECKING" in file.read_text()]
    assert found == ["forecast/apps/forecaster.py"]


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


def test_whatever_is_printed_is_made_harmless():
    """`say` and json_text print; a bare print would show foreign text as it is."""
    console = PACKAGE / "report" / "tables.py"  # rich's tables as text, which `say` prints
    wrong = []
    for file in {*PACKAGE.rglob("*.py")} - {PACKAGE / "text" / "terminal.py"}:
        for node in nodes(file):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if re.search(PRINTS, called) and not (file == console and called == "console.print"):
                wrong.append(f"{file.relative_to(ROOT)}:{node.lineno} calls {called}")
    assert wrong == []


def test_what_a_target_names_is_called_in_one_place():
    """Hydra's own, hydra.utils, has no allow list."""
    readers = [f.name for f in PACKAGE.rglob("*.py") if "partial(target, " in f.read_text()]
    assert readers == ["build.py"]
    assert not [f for f in PACKAGE.rglob("*.py") if any(n.startswith("hydra.utils") for n, _ in imports(f))]


def test_training_builds_nothing_of_a_recipe():
    """Its parts are built once, before it begins: apps/common/parts.py."""
    texts = {file.name: file.read_text() for file in (PACKAGE / "training").glob("*.py")}
    assert [name for name, text in texts.items() if re.search(r"\.(build|factory)\(|import build\b", text)] == []


def test_entry_points_are_thin():
    for name in ("train.py", "evaluate.py", "predict.py"):
        assert len((ROOT / name).read_text().splitlines()) < 60


def test_a_folder_has_three_files_or_more():
    for folder in {f.parent for f in PACKAGE.rglob("*.py")}:
        assert len(list(folder.glob("*.py"))) >= 3, folder


def test_no_csv_is_committed():
    listed = subprocess.run(["git", "ls-files", "*.csv"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert [name for name in listed.stdout.split() if not name.startswith("results/")] == []  # tables of errors


# Modules whose documents are this program's own: in the package, in conf/, or a text that was made in the same process;
# and Hydra's, in the folder of a run.
OWN_DOCUMENTS = {
    *("config/compose.py", "text/terminal.py", "text/overrides.py"),
    *("apps/common/page.py", "apps/common/refit.py", "apps/auto/budget.py", "apps/auto/steps.py"),
    "apps/common/frame_kinds.py",  # of the table that a training from Python keeps
    "run_folder/__init__.py",
}


def test_documents_of_a_folder_are_read_in_one_place():
    """`documents.py` gives one sentence for a damaged one, and unpickles nothing."""
    wrong = []
    for file in PACKAGE.rglob("*.py"):
        name = str(file.relative_to(PACKAGE))
        calls = {ast.unparse(node.func) for node in nodes(file) if isinstance(node, ast.Call)}
        found = calls & {"json.load", "json.loads", "np.load", "numpy.load", "yaml.load", "yaml.safe_load"}
        wrong += [f"{name} calls {call}" for call in found if name not in {*OWN_DOCUMENTS, "documents.py"}]
    assert wrong == []
