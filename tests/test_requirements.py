"""A bare `pip install -e ".[dev]" && pytest` has what the tests import; without what else one needs, it is skipped."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
# an import: its distribution, where that has another name
DISTRIBUTIONS = {
    "PIL": "pillow",
    "hydra": "hydra-core",
    "annotated_types": "annotated-types",
    "markdown_it": "markdown-it-py",
    "sklearn": "scikit-learn",
    "typing_extensions": "typing-extensions",
    "yaml": "pyyaml",
}
# what pandas imports for a method of its own
BY_PANDAS = {f"{verb}_{kind}": "pyarrow" for verb in ("to", "read") for kind in ("parquet", "feather")} | dict.fromkeys(
    ("to_excel", "read_excel", "ExcelWriter", "ExcelFile"), "openpyxl"
)
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def test_what_is_cited_is_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    released = re.search(rf"^## {version}, (20.*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert f"\nversion: {version}\ndate-released: {released[1]}\n" in (ROOT / "CITATION.cff").read_text()


@cache
def requirements():
    """Extra -> names of its distributions; "" for the dependencies of all."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: {re.split(r"[^\w-]", line)[0].lower() for line in lines} for extra, lines in lists.items()}


@cache
def own():
    """The names of Python's modules, and of the files and folders of this repository that may be imported."""
    paths = [*ROOT.iterdir(), *(ROOT / "docs").iterdir(), *TESTS.rglob("*")]
    return {path.stem for path in paths if path.suffix == ".py" or path.is_dir()} | {*sys.stdlib_module_names}


def within(scope):
    """The nodes of a module or function, without those of functions in it."""
    pending = [*ast.iter_child_nodes(scope)]
    while pending:
        yield (node := pending.pop(0))
        if not isinstance(node, FUNCTIONS):
            pending = [*ast.iter_child_nodes(node), *pending]


def skip_of(node):
    """The package whose absence `pytest.importorskip` makes a skip of; None for other nodes."""
    is_skip = isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip"
    return ast.literal_eval(node.args[0]).split(".")[0] if is_skip else None


def imported(node):
    """The packages that a node imports, of itself or by pandas."""
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return {node.module.split(".")[0]} if not node.level else set()
    name = getattr(node, "attr", None)
    return {BY_PANDAS[name]} if name in BY_PANDAS else set()


def unguarded(scope, known, skipped=frozenset()):
    """(line, package) of each import of a package that is not known, before which nothing is skipped without it."""
    functions = []
    for node in within(scope):
        if package := skip_of(node):
            skipped |= {package}
        functions += [node] if isinstance(node, FUNCTIONS) else []
        lacking = imported(node) - own() - skipped
        yield from ((node.lineno, name) for name in lacking if DISTRIBUTIONS.get(name, name).lower() not in known)
    for function in functions:
        yield from unguarded(function, known, skipped)


def installed():
    return requirements()[""] | requirements()["dev"]


CASES = {
    "import openpyxl": ["openpyxl"],
    "def test():\n    from openpyxl.utils import cell": ["openpyxl"],
    "def test():\n    table.to_excel(path)": ["openpyxl"],
    "read = pd.read_excel": ["openpyxl"],
    "import json, numpy.linalg, yaml, script\nfrom sklearn import svm\nfrom forecast import data\nfrom . import x": [],
    "import pytest\npytest.importorskip('openpyxl')\nimport openpyxl\ndef test():\n    table.to_excel(path)": [],
    "import openpyxl\nimport pytest\npytest.importorskip('openpyxl')": ["openpyxl"],
    "def test():\n    pytest.importorskip('openpyxl.utils')\n    import openpyxl": [],
    "def a():\n    pytest.importorskip('openpyxl')\ndef test():\n    import openpyxl": ["openpyxl"],
    "def test():\n    pytest.importorskip('openpyxl')\n    import holidays, openpyxl": ["holidays"],
    "class Tests:\n    async def test(self):\n        if True:\n            import holidays": ["holidays"],
}


@pytest.mark.parametrize("text", CASES)
def test_an_import_that_neither_is_installed_nor_skips_is_told(text):
    assert [name for _, name in unguarded(ast.parse(text), installed())] == CASES[text]


def test_what_pyproject_lists_is_read():
    assert {"torch", "pyarrow", "hydra-core"} <= requirements()[""] and "pytest" not in requirements()[""]
    assert requirements()["xlsx"] == {"openpyxl", "defusedxml"} and {"pytest", "hypothesis"} <= requirements()["dev"]
    assert requirements()["stats"] == {"statsforecast", "pandas"}


def test_tests_import_what_is_installed_for_them_or_are_skipped_without_it():
    files = sorted(TESTS.rglob("*.py"))
    wrong = [(file, *found) for file in files for found in unguarded(ast.parse(file.read_text()), installed())]
    told = [f"{file.relative_to(ROOT)}:{line} imports {name}" for file, line, name in wrong]
    assert told == [], "make it a dependency, add it to `dev`, or begin with pytest.importorskip(NAME, reason=...)"


def test_a_skip_says_what_to_install_and_hides_nothing_that_is_installed():
    extras = {name: extra for extra, names in requirements().items() for name in names - installed()}
    for file in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if (package := skip_of(node)) and package not in sys.stdlib_module_names:
                name, where = DISTRIBUTIONS.get(package, package).lower(), f"{file.relative_to(ROOT)}:{node.lineno}"
                assert name not in installed(), f"{where}: {name} is always there"
                how = f'-e ".[{extras[name]}]"' if name in extras else name
                reasons = [ast.literal_eval(word.value) for word in node.keywords if word.arg == "reason"]
                assert reasons == [f"needs {package}: pip install {how}"], where
