"""The trust switch: modules whose own classes a `_target_` may name, because the command says so.

Only a command (--trust MODULE) or a caller (Forecaster(trust=[MODULE])) can say so: no config and no checkpoint has a
key for it.
"""

import contextlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path

from forecast.config.commit import short_hash
from forecast.errors import UserError
from forecast.run_folder import sha256

OPTION = "--trust"
# Whose classes the allow list knows one by one.
LISTED = ("forecast", "torch", "lightning")

_trusted: ContextVar[frozenset[str]] = ContextVar("trusted", default=frozenset())


def trusted() -> frozenset[str]:
    """The modules that are trusted now."""
    return _trusted.get()


@contextlib.contextmanager
def trusting(modules: Sequence[str] | frozenset[str]) -> Iterator[None]:
    """Trusts these modules, or one, too until the end of the block. They may lie in the current folder.

    Raises UserError for a module that is found nowhere.
    """
    modules = [modules] if isinstance(modules, str) else modules
    for module in modules:
        source_files(module)
    before = _trusted.set(trusted() | {*modules})
    try:
        yield
    finally:
        _trusted.reset(before)


def take_modules(arguments: list[str]) -> list[str]:
    """Removes each `--trust MODULE` and `--trust=MODULE` from a command's arguments; the modules, in their order.

    Raises UserError for a --trust without a module.
    """
    modules = []
    for number, argument in reversed([*enumerate(arguments)]):
        option, equals, module = argument.partition("=")
        if option == OPTION:
            end = number + (1 if equals else 2)
            modules.append(module if equals else "".join(arguments[number + 1 : end]))
            del arguments[number:end]
    for module in modules:
        if not module or module.startswith("-"):
            raise UserError(f"{OPTION} names no module: say {OPTION} my_package.models")
    return modules[::-1]


def source_files(module: str) -> list[Path]:
    """The Python files of a module, of a package all; none for what is not written in Python. Errors as `trusting`."""
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # last: nothing that is installed is taken from there
    try:
        spec = importlib.util.find_spec(module)
    except Exception as error:  # the packages around it are imported
        raise UserError(f"{OPTION} {module} cannot be imported: {type(error).__name__}: {error}") from error
    if spec is None:
        raise UserError(f"{OPTION} {module}: there is no such module in {Path.cwd()}, nor is it installed")
    if spec.origin is None or not spec.origin.endswith(".py"):
        return []
    file = Path(spec.origin)
    return sorted(file.parent.rglob("*.py")) if spec.submodule_search_locations else [file]


def own_code(modules: Iterable[str]) -> dict[str, str]:
    """The hash of each module's code, by `code of MODULE`. What a module imports is not in it. Errors as `trusting`."""
    hashes = {}
    for module in sorted(modules):
        hashes[f"code of {module}"] = short_hash(sha256(file) for file in source_files(module))
    return hashes


def advice(dotted: str) -> str:
    """How a class of the user's own is allowed, and what that means; empty where the name can be no such class."""
    module, _, name = dotted.rpartition(".")
    root = dotted.split(".", maxsplit=1)[0]
    foreign = {*sys.stdlib_module_names, *LISTED}
    if not module or root in foreign or not all(part.isidentifier() for part in dotted.split(".")):
        return ""
    return (
        f". If {name} is a class of your own, say {OPTION} {module} (from Python trust=['{module}']): that runs the "
        f"code of {module} with all your rights. Say it for code that you have read, never because a file needs it"
    )


def as_typed() -> str:
    """The switch as a command needs it to go on with what this one has made: `--trust my_models `, or nothing."""
    return "".join(f"{OPTION} {module} " for module in sorted(trusted()))
