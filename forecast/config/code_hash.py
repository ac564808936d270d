"""The hash of the code that made a result: blind to comments, docstrings, layout, tests and documents."""

import ast
import functools
import hashlib
import importlib.metadata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from forecast.config.values import PACKAGE

# No number of a training comes out of these: pictures, tables, words, other commands, exported files.
LEFT_OUT = ("__main__.py", "text", "report", "comparison", "reproduction", "export", "commands", "conf", "results")
COMMANDS = tuple(
    f"commands/{name}.py"
    for name in (
        "train",
        "training_data",
        "inputs",
        "outputs",
        "results",
        "panels",
        "panel_results",
        "description",
        "growth",
        "intervals",
        "page",
        "refit",
    )
)
# Whose versions a sweep's job is told by too, as run.json has them.
LIBRARIES = ("torch", "lightning", "numpy", "pandas")


@functools.cache
def code_hash() -> str:
    """12 hex digits, equal on every machine for the same code.

    Hashed are the names and the syntax trees, without docstrings, of all modules of the package but LEFT_OUT. A text in
    the code, such as that of an error, counts. What the config says is in a run's identity; the versions of Python and
    libraries are not in the hash, they stand beside it in run.json.
    """
    return hash_of(PACKAGE, hashed_files())


def program_hash(*others: str) -> str:
    """8 hex digits of what makes numbers beside the config: our code, the versions of LIBRARIES, others' code."""
    versions = [importlib.metadata.version(name) for name in LIBRARIES]
    return hashlib.sha256(" ".join([code_hash(), *versions, *others]).encode()).hexdigest()[:8]


def hashed_files() -> list[Path]:
    """The modules that count, sorted by name."""
    names = (file.relative_to(PACKAGE) for file in PACKAGE.rglob("*.py"))
    kept = (name for name in names if name.parts[0] not in LEFT_OUT or name.as_posix() in COMMANDS)
    return [PACKAGE / name for name in sorted(kept, key=Path.as_posix)]


def hash_of(folder: Path, files: Iterable[Path]) -> str:
    """12 hex digits of the syntax trees of Python files and of their places below `folder`. Raises SyntaxError."""
    digest = hashlib.sha256()
    for file in files:
        tree = ast.parse(file.read_bytes(), filename=str(file))
        digest.update(f"{file.relative_to(folder).as_posix()}\n{_written(tree)}\n".encode())
    return digest.hexdigest()[:12]


def _written(node: Any) -> str:
    """A syntax tree as text, docstrings left out.

    Not by ast.dump, which differs between versions of Python: empty fields, as new ones are in old code, are left out.
    """
    parts: list[str] = []
    _write(node, parts.append)
    return "".join(parts)


def _write(node: Any, put: Callable[[str], None]) -> None:
    """Puts the text of a part of a tree; all parts of a large program go through here."""
    if isinstance(node, ast.AST):
        put(type(node).__name__ + "(")
        blank = ""
        for name in node._fields:
            if (value := getattr(node, name, None)) is not None and value != []:
                put(f"{blank}{name}=")
                _write(value, put)
                blank = " "
        put(")")
    elif isinstance(node, list):
        put("[")
        blank = ""
        for item in node:
            if not _is_text(item):
                put(blank)
                _write(item, put)
                blank = " "
        put("]")
    else:
        put(ascii(node))


def _is_text(node: Any) -> bool:
    """Whether a statement is a text alone: a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
