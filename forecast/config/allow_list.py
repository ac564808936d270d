"""The allow list: which classes and functions a `_target_` may name. Naming one is code execution.

Beside it the trust switch: modules whose own classes may be named too, because the command says so (--trust MODULE) or
a caller (Forecaster(trust=[MODULE])): no config and no checkpoint has a key for it.
"""

import argparse
import contextlib
import importlib.util
import pkgutil
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TypeGuard

from forecast.errors import UserError
from forecast.run_folder import sha256
from forecast.run_folder.commit import short_hash

OPTION = "--trust"
# Whose classes the allow list knows one by one.
LISTED = ("forecast", "torch", "lightning")

_trusted: ContextVar[frozenset[str]] = ContextVar("trusted", default=frozenset())

PACKAGES = ("forecast", "torch.optim", "torch.nn", "lightning.pytorch")
# Functions do anything; only these modules hold some that are meant to be named in YAML.
FUNCTIONS = ("forecast.training.schedule",)
# By name, so that reading this table imports nothing.
BASES = frozenset(
    {
        "torch.nn.modules.module.Module",
        "torch.optim.optimizer.Optimizer",
        "torch.optim.lr_scheduler.LRScheduler",
        "lightning.pytorch.callbacks.callback.Callback",
        "lightning.pytorch.loggers.logger.Logger",
        "lightning.pytorch.trainer.trainer.Trainer",
        "lightning.pytorch.strategies.strategy.Strategy",
        "lightning.pytorch.profilers.profiler.Profiler",
        "lightning.pytorch.plugins.precision.precision.Precision",
        "forecast.data.sources.Source",
        "forecast.data.split.Split",
        "forecast.evaluation.evaluate.Protocol",
    }
)
KINDS = "module, optimizer, callback, logger, trainer, data source, split or protocol"  # BASES in words
SPECIAL = ("_target_", "_partial_")

Target = Callable[..., object]


def resolve_target(dotted: object, path: str = "") -> Target:
    """The class or function that `dotted` names, when the allow list has it.

    What the name resolves to decides, never its text: `torch.optim.optimizer.torch.load` begins with an
    allowed package and executes a pickle. A module that the command trusts is asked for its own classes alone.
    Raises UserError, with the YAML `path` when given, for anything else.
    """
    where = f"{path}._target_={dotted}".lstrip(".")
    module, _, name = str(dotted).rpartition(".")
    own = module if module in trusted() else None
    if not own and module.split(".")[0] not in LISTED:
        raise UserError(f"{where}: not allowed; a target begins with one of {', '.join(PACKAGES)}{advice(str(dotted))}")
    try:
        target = getattr(importlib.import_module(own), name, None) if own else pkgutil.resolve_name(str(dotted))
    except Exception as error:  # of whatever is imported
        raise UserError(f"{where}: {type(error).__name__}: {error}") from error
    if not is_allowed(target, own):
        raise UserError(f"{where}: not allowed. A target is a {KINDS} that lies in {own or ', '.join(PACKAGES)}")
    return target


def is_allowed(candidate: object, own: str | None = None) -> TypeGuard[Target]:
    """Whether a class or function, however it was reached, is one that a `_target_` may name.

    own: a trusted module, of which classes that it defines may be named, and no others.
    """
    lies_in = getattr(candidate, "__module__", None)
    if isinstance(candidate, types.FunctionType):
        return lies_in in FUNCTIONS and "." not in candidate.__qualname__
    inside = lies_in == own if own else f"{lies_in}.".startswith(tuple(f"{package}." for package in PACKAGES))
    return inside and extends(candidate, *BASES)


def extends(target: object, *bases: str) -> bool:
    """Whether a class, by whatever name it was found, is one of some bases or made from it."""
    kinds = target.__mro__ if isinstance(target, type) else ()
    return any(f"{kind.__module__}.{kind.__qualname__}" in bases for kind in kinds)


def target_nodes(node: object, path: str = "") -> Iterator[tuple[str, Mapping[str, object]]]:
    """Each mapping with a `_target_` in plain containers, outermost first, with its dotted path."""
    from forecast.config.compose import walk  # which loads Hydra

    yield from ((place, part) for place, part in walk(node, path) if isinstance(part, Mapping) and "_target_" in part)


def trusted() -> frozenset[str]:
    """The modules that are trusted now."""
    return _trusted.get()


@contextlib.contextmanager
def trusting(modules: Iterable[str]) -> Iterator[None]:
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
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument(OPTION, action="append", default=[])
    try:
        taken, arguments[:] = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise UserError(f"{OPTION} names no module: say {OPTION} my_package.models") from error
    return list(taken.trust)


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
    return {f"code of {name}": short_hash(map(sha256, source_files(name))) for name in sorted(modules)}


def advice(dotted: str) -> str:
    """How a class of the user's own is allowed, and what that means; empty where the name can be no such class."""
    module, _, name = dotted.rpartition(".")
    if not module.replace(".", "").isidentifier() or module.split(".")[0] in {*sys.stdlib_module_names, *LISTED}:
        return ""
    return (
        f". If {name} is a class of your own, say {OPTION} {module} (from Python trust=['{module}']): that runs the "
        f"code of {module} with all your rights. Say it for code that you have read, never because a file needs it"
    )


def trust_words() -> str:
    """The switch as a command needs it to go on with what this one has made: `--trust my_models `, or nothing."""
    return "".join(f"{OPTION} {module} " for module in sorted(trusted()))
