"""How large the program is, and where it breaks the laws of the house: counted in its syntax tree.

    python tests/laws/measures.py            prints a table
    python tests/laws/measures.py row        prints a line for the table of docs/diary.md

The laws, by number: 1 a series is a panel of one, 2 one pass over windows, 3 a typed run, 4 one reader, 5 one way to
run many trainings, 6 one page, 7 core and apps, 9 a name is used once.
"""

import ast
import functools
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "forecast"

# Pairs of classes of which one is of a series and one of a panel (law 1).
PAIRS = [{"PreparedData", "PanelData"}, {"WindowDataset", "PanelWindows"}]
KINDS = set().union(*PAIRS) | {"Scaler", "Scales"}
# What says, of a source or a checkpoint, whether it is of a panel (law 1).
KIND_FLAGS = {"panel", "panel_form"}
# The reader, which alone must know in which of the two layouts a file is: what a source says of it, and who reads it.
READER = {"data/sources.py", "data/read.py", "data/rows.py"}
# Law 2. Where windows are stepped through: to be forecast, to be trained on, to be fitted at once; and what gives
# batches of a pass to whoever forecasts them, gathered in whole chunks.
PASSES = ("data/", "evaluation/evaluate.py", "training/datamodule.py", "evaluation/fitting.py")
STEPS = {"in_chunks", "batches"}
UNTYPED = {"config", "record", "cfg"}
# A type of NumPy's, of which Any is no more than "any precision".
DTYPES = {"floating", "integer", "number", "generic", "dtype", "ndarray", "NDArray"}
PRONOUNS = ("found", "said", "asked", "told", "made", "one", "what")
# Starting one of these runs other trainings, or parts of a work (law 5); the room that may.
JOBS = "jobs/"
PROCESSES = {"subprocess.Popen", "multiprocessing.get_context", "multiprocessing.Process", "ray.remote", "os.fork"}
# Calls that write typed data as text (law 4), where that is no forecast; the module that sets pages (law 6).
AS_TEXT = {"csv.writer", "pa.csv.write_csv", "table.to_csv"}
PAGE = "report/page/document.py"
READERS = ("data/reading/", "data/panel/", "apps/common/tables.py")

# Law 7: where each command lies, a file or a folder; the room that they share; the doors, which open them all.
APPS, SHARED = "apps", "apps.common"
DOORS = ("__init__", "__main__", "apps", "apps.options", "apps.forecaster")


# The syntax trees.


@functools.cache
def modules(folder=PACKAGE):
    """The path of each module in a folder, from there, and its tree."""
    return {str(file.relative_to(folder)): ast.parse(file.read_text()) for file in sorted(folder.rglob("*.py"))}


@functools.cache
def nodes():
    """All nodes of each module of the package, by its path."""
    return {path: list(ast.walk(tree)) for path, tree in modules().items()}


def walked(*kinds):
    """Each node of the package of these kinds, with its module's path."""
    for path, every in nodes().items():
        yield from ((path, node) for node in every if isinstance(node, kinds or ast.AST))


@functools.cache
def functions():
    """Each function and method that is no part of another one: its path, its name with its class's, its node."""
    listed = []

    def look(path, body, prefix):
        for node in body:
            if isinstance(node, ast.ClassDef):
                look(path, node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                listed.append((path, prefix + node.name, node))

    for path, tree in modules().items():
        look(path, tree.body, "")
    return listed


def name_of(node):
    """The last word of a name: `PanelData` of PanelData, of prepare.PanelData and of "PanelData"."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return node.id if isinstance(node, ast.Name) else None


def docstring(node):
    """The docstring of a module, a class or a function; None of anything else."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return ast.get_docstring(node) if isinstance(node, kinds) else None


# Size.


# Sub-packages whose statements are counted together; those not listed are rooms by themselves.
SHARED_ROOMS = (
    "models, attention, layers, ops",
    "report, comparison",
    "checkpoint, run_folder",
    "jobs, text, forecast/*.py",
)


def python_files():
    """All Python files of the repository."""
    listed = (file for file in ROOT.rglob("*.py") if not {"outputs", "build", "dist"} & {*file.parts})
    return sorted(file for file in listed if not any(part.startswith(".") for part in file.relative_to(ROOT).parts))


@functools.cache
def rooms():
    """Statements of each room: sub-packages, tests, and all other Python."""
    shared = {part: room for room in SHARED_ROOMS for part in room.split(", ")}
    counts = Counter()
    for file in python_files():
        first, *rest = file.relative_to(ROOT).parts
        part = rest[0] if len(rest) > 1 else "forecast/*.py"
        room = shared.get(part, part) if first == "forecast" else "tests" if first == "tests" else "other Python"
        counts[room] += count_statements(ast.parse(file.read_text()))
    return counts


def count_statements(tree):
    """Statements of a syntax tree, but for docstrings: packing lines makes no fewer of them."""
    return sum(isinstance(node, ast.stmt) - (docstring(node) is not None) for node in ast.walk(tree))


def size(folder):
    """Statements, bytes, lines and files of the Python in a folder."""
    texts = [file.read_bytes() for file in folder.rglob("*.py")]
    return {
        "statements": sum(map(count_statements, modules(folder).values())),
        "bytes": sum(map(len, texts)),
        "lines": sum(text.count(b"\n") for text in texts),
        "files": len(texts),
    }


def used_once():
    """Functions and methods of which the package, with its plugin, says the name once beside definition and imports.

    By name alone: a name that is defined twice, or that Python or Lightning calls, is left out.
    """
    named = Counter(name.rpartition(".")[2] for _, name, _ in functions())
    uses = Counter(name_of(node) for _, node in walked(ast.Name, ast.Attribute))
    for file in (ROOT / "hydra_plugins").glob("*.py"):
        every = ast.walk(ast.parse(file.read_text()))
        uses.update(name_of(node) for node in every if isinstance(node, ast.Name | ast.Attribute))
    return [name for name, count in named.items() if count == 1 and uses[name] == 1 and not name.startswith("__")]


# The laws.


def members(node):
    """The names in a union A | B | ..., written with | or as Union[...]."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return members(node.left) | members(node.right)
    if isinstance(node, ast.Subscript) and name_of(node.value) in ("Union", "Optional"):
        return set().union(*map(members, getattr(node.slice, "elts", [node.slice])))
    return {name_of(node)}


def unions():
    """By path: how often a series' class and its panel's counterpart stand in one union."""
    counts = Counter()
    for path, every in nodes().items():
        inner = {id(n.left) for n in every if isinstance(n, ast.BinOp)}  # of A | B | C the outer one counts
        for node in every:
            names = set()
            if isinstance(node, ast.BinOp | ast.Subscript) and id(node) not in inner:
                names = members(node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # a type in quotes
                names = {*re.findall(r"\w+", node.value)} if re.fullmatch(r"\w+( \| \w+)+", node.value) else names
            counts[path] += any(pair <= names for pair in PAIRS)
    return +counts


def kind_tests():
    """By path: how often it is asked, but by the reader, which kind of data something is, by its class or by a flag."""
    counts = Counter()
    for path, node in walked():
        if path in READER:
            continue
        if isinstance(node, ast.Call) and name_of(node.func) in ("isinstance", "issubclass"):
            kinds = {name_of(n) for n in ast.walk(node.args[1])}
            counts[path] += bool(kinds & KINDS)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            counts[path] += isinstance(node.left, ast.Attribute) and node.left.attr in KIND_FLAGS
        elif isinstance(node, ast.If | ast.IfExp):  # `if source.panel_form:`
            parts = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
            parts = [part.operand if isinstance(part, ast.UnaryOp) else part for part in parts]
            counts[path] += any(isinstance(part, ast.Attribute) and part.attr in KIND_FLAGS for part in parts)
        elif isinstance(node, ast.match_case):
            counts[path] += any(isinstance(n, ast.MatchClass) and name_of(n.cls) in KINDS for n in ast.walk(node))
    return +counts


def window_loops():
    """Functions that step through windows by means of their own, outside PASSES.

    That is: they call in_batches; or gather other windows in each turn of a loop, by __getitems__ of what a loop, a
    comprehension or a function inside binds; or have a loop whose variable is called batch over anything but a call of
    STEPS. A few windows, gathered in one operation and forecast as one batch, are no pass.
    """

    def bound(part):
        """The names that change with each turn, or call, of a part."""
        if isinstance(part, ast.For | ast.comprehension):
            return {name_of(node) for node in ast.walk(part.target)}
        if isinstance(part, ast.Lambda | ast.FunctionDef):
            return {argument.arg for argument in part.args.args}
        return set()

    def gathers(part, turning):
        """Whether a call steps through windows, where these names change."""
        if not isinstance(part, ast.Call) or name_of(part.func) not in ("in_batches", "__getitems__"):
            return False
        return name_of(part.func) == "in_batches" or bool(turning & {name_of(n) for n in ast.walk(part)})

    def loops(node):
        inner = [part for part in ast.walk(node) if part is not node]
        turning = set().union(*map(bound, inner)) - {None}
        for part in inner:
            of_batches = isinstance(part, ast.For | ast.comprehension) and name_of(part.target) == "batch"
            if of_batches and not (isinstance(part.iter, ast.Call) and name_of(part.iter.func) in STEPS):
                return True
            if gathers(part, turning):
                return True
        return False

    return sorted(f"{path}:{name}" for path, name, node in functions() if not path.startswith(PASSES) and loops(node))


def untyped_reads():
    """By path: config["..."], record["..."], and .get("...") of them, outside config/ and checkpoint/."""
    counts = Counter()
    for path, node in walked():
        if path.startswith(("config/", "checkpoint/")):
            continue
        if isinstance(node, ast.Subscript):
            counts[path] += name_of(node.value) in UNTYPED
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            counts[path] += name_of(node.func.value) in UNTYPED
    return +counts


def any_uses():
    """By path: Any wherever it stands but in an import; in quotes too.

    Left out: a NumPy type of any precision, and an alias of a module, by which one place says of values that another
    program or process makes or reads why nobody knows their types: `Entries = dict[str, Any]  # of a file from ...`.
    """
    counts = Counter()
    for path, every in nodes().items():
        types = [n.slice for n in every if isinstance(n, ast.Subscript) and name_of(n.value) in DTYPES]
        allowed = {id(part) for slice_ in types for part in (slice_, *getattr(slice_, "elts", ()))}
        aliases = [n.value for n in modules()[path].body if isinstance(n, ast.Assign)]
        allowed |= {id(part) for alias in aliases for part in ast.walk(alias)}
        for node in every:
            if isinstance(node, ast.Name | ast.Attribute):
                counts[path] += name_of(node) == "Any" and id(node) not in allowed
            for key in ("annotation", "returns"):
                quoted = getattr(node, key, None)
                if isinstance(quoted, ast.Constant):
                    counts[path] += len(re.findall(r"\bAny\b", str(quoted.value)))
    return +counts


def untyped_parameters():
    """By path: parameters whose type is a mapping to Any: the reader of a signature learns nothing of what is in it."""
    counts = Counter()
    for path, node in walked(ast.arg):
        text = "" if node.annotation is None else ast.unparse(node.annotation)
        counts[path] += bool(re.search(r"(dict|Mapping)\[str, Any\]", text))
    return +counts


def typed_as_text():
    """Modules between a source and the splits that write CSV text."""
    return sorted(
        {
            path
            for path, node in walked(ast.Call)
            if path.startswith(READERS)
            and path != "data/writing.py"  # a forecast, which is text
            and ast.unparse(node.func) in AS_TEXT
        }
    )


def process_starters():
    """Modules beside the room of jobs that start processes, or workers of a cluster."""
    starters = {path for path, node in walked(ast.Attribute) if ast.unparse(node) in PROCESSES}
    return sorted(path for path in starters if not path.startswith(JOBS))


def page_builders():
    """Modules that write HTML or fill a template, beside the one that sets the declared sections of pages."""
    writers = {path for path, node in walked(ast.Constant) if re.search(r"</\w+>", str(node.value))}
    fillers = {path for path, node in walked(ast.Import, ast.ImportFrom) if "jinja2" in ast.unparse(node)}
    return sorted((writers | fillers) - {PAGE})


def dotted(path):
    """`data.panel.frame` of data/panel.py; `data.panel` of data/panel/__init__.py."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__") or "__init__"


@functools.cache
def arrows():
    """Each module -> the modules of ours that it imports, inside functions too."""
    known = {dotted(path) for path in modules()}
    targets = {name: set() for name in known}
    for path, node in walked(ast.Import, ast.ImportFrom):
        inside = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for name in (inside + alias.name for alias in node.names):  # a module, or what stands in one
            target = name.removeprefix("forecast.") if name.startswith("forecast.") else None
            while target and target not in known:
                target = target.rpartition(".")[0]
            if target:
                targets[dotted(path)].add(target)
    return targets


def room(module):
    """Whose a module is: `core`, `shared`, `door`, or an app's name."""
    first, second, *_ = [*module.split("."), ""]
    if module in DOORS or first != APPS:
        return "door" if module in DOORS else "core"
    return "shared" if f"{first}.{second}" == SHARED else second


def wrong_arrows():
    """Imports of an app by core or by what apps share, of what they share by core, of an app by another one."""
    wrong = []
    for module, targets in arrows().items():
        here = room(module)
        if here == "door":
            continue
        allowed = {"core": {"core"}, "shared": {"core", "shared"}}.get(here, {"core", "shared", here})
        wrong += [f"{here}: {module} -> {room(to)}: {to}" for to in targets if room(to) not in {*allowed, "door"}]
    return sorted(wrong)


def circles():
    """Of sub-folders that import one another, by way of others too, which imports which."""
    home = {dotted(path): str(Path(path).parent) for path in modules()}
    folders = {folder: set() for folder in home.values()}
    for module, targets in arrows().items():
        folders[home[module]] |= {home[to] for to in targets} - {home[module], "."}

    def reached(folder):
        seen, pending = set(), [folder]
        while pending:
            pending += (new := folders[pending.pop()] - seen)
            seen |= new
        return seen

    ahead = {folder: reached(folder) for folder in folders}
    return sorted(f"{a} -> {b}" for a in folders for b in folders[a] if a in ahead[b])


def doubled_classes():
    """Names that more than one class has, with how many."""
    counts = Counter(node.name for _, node in walked(ast.ClassDef))
    return {name: count for name, count in sorted(counts.items()) if count > 1}


def pronouns():
    """By path: how often a pronoun or a bare participle names a variable, parameter, attribute, function or key."""
    counts = Counter()
    for path, node in walked():
        counts[path] += sum(getattr(node, key, None) in PRONOUNS for key in ("id", "arg", "attr", "name"))
    return +counts


def see_docstrings():
    """By path: how often a docstring sends the reader elsewhere, "See `X`"."""
    counts = Counter()
    for path, node in walked():
        counts[path] += len(re.findall(r"[Ss]ee\s+`", docstring(node) or ""))
    return +counts


def twin_files():
    """Modules that say in their path that they are of panels; `data/panel.py` is to be the one class of both."""
    return sorted(path for path in modules() if "panel" in path and path != "data/panel.py")


# What breaks each law, where it can be listed by its places, else how often by path. Nothing does.
LAWS = {
    "1 unions of kinds": unions,
    "1 tests of kinds": kind_tests,
    "1 files of panels": twin_files,
    "2 loops over windows": window_loops,
    "3 Any": any_uses,
    "3 untyped parameters": untyped_parameters,
    "3 untyped reads": untyped_reads,
    "4 typed data as text": typed_as_text,
    "5 process starters": process_starters,
    "6 page builders": page_builders,
    "7 imports of apps": wrong_arrows,
    "7 circles of folders": circles,
    "9 doubled classes": doubled_classes,
    "9 pronouns": pronouns,
    "9 docstrings that say See": see_docstrings,
}


# What is printed.


def table():
    """All figures as lines."""
    lines = []
    for folder in (PACKAGE, ROOT / "tests"):
        sizes = size(folder)
        lines += [f"{folder.name} {key:34} {value:>10,}" for key, value in sizes.items()]
    once, every = len(used_once()), len(functions())
    lines += [f"functions and methods {every:>27,}", f"used once {once:>39,}  {once / every:.0%}"]
    lines += [f"room {room:33} {count:>10,}" for room, count in sorted(rooms().items())]
    for law, measure in LAWS.items():
        broken = measure()
        lines.append(f"{law:38} {sum(broken.values()) if isinstance(broken, dict) else len(broken):>10,}")
    return "\n".join(lines)


def row():
    """statements | bytes | lines | files of the package, as a line of docs/diary.md has them."""
    return " | ".join(f"{value:,}" for value in size(PACKAGE).values())


if __name__ == "__main__":
    print(row() if sys.argv[1:] == ["row"] else table())
