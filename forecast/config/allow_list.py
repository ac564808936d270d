"""The allow list: which classes and functions a `_target_` may name. Naming one is code execution."""

import importlib
import types
from collections.abc import Callable, Iterator, Mapping
from typing import TypeGuard

from forecast.config.trust import LISTED, advice, import_trusted, trusted
from forecast.config.values import walk
from forecast.errors import UserError, closest

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
# What the class in a section of a config extends; "callbacks" stands for each of them.
BASE_OF: Mapping[str, str] = {
    "model": "forecast.models.base.ForecastModel",
    "data": "forecast.data.sources.Source",
    "data.split": "forecast.data.split.Split",
    "protocol": "forecast.evaluation.evaluate.Protocol",
    "optim": "torch.optim.optimizer.Optimizer",
    "schedule": "torch.optim.lr_scheduler.LRScheduler",
    "loss": "torch.nn.modules.module.Module",
    "trainer": "lightning.pytorch.trainer.trainer.Trainer",
    "logger": "lightning.pytorch.loggers.logger.Logger",
    "callbacks": "lightning.pytorch.callbacks.callback.Callback",
}

Target = Callable[..., object]


def resolve_target(dotted: object, path: str = "") -> Target:
    """The class or function that `dotted` names, when the allow list has it.

    What the name resolves to decides, never its text: `torch.optim.optimizer.torch.load` begins with an
    allowed package and executes a pickle. A module that the command trusts is asked for its own classes alone.
    Raises UserError, with the YAML `path` when given, for anything else.
    """
    where = f"{path}._target_={dotted}" if path else f"_target_={dotted}"
    if isinstance(dotted, str) and (module := dotted.rpartition(".")[0]) in trusted():
        return _trusted_class(module, dotted.rpartition(".")[2], where)
    if not isinstance(dotted, str) or dotted.split(".")[0] not in LISTED or "." not in dotted:
        hint = advice(dotted) if isinstance(dotted, str) else ""
        raise UserError(f"{where}: not allowed; a target begins with one of {', '.join(PACKAGES)}{hint}")
    parts = dotted.split(".")
    target: object = _import(parts[0], where)
    for depth, part in enumerate(parts[1:], start=1):
        parent = ".".join(parts[:depth])
        if part.startswith("_"):
            raise UserError(f"{where}: '{part}' is private")
        # Only a real package is imported from: a module reached through an attribute is someone else's.
        package = isinstance(target, types.ModuleType) and hasattr(target, "__path__") and target.__name__ == parent
        if not hasattr(target, part) and package and (inner := _import(f"{parent}.{part}", where)):
            target = inner  # torch.optim deletes the names of its modules: they are no attributes
        elif hasattr(target, part):
            target = getattr(target, part)
        else:
            public = [name for name in dir(target) if not name.startswith("_")]
            raise UserError(f"{where}: '{parent}' has no '{part}'.{closest(part, public)}")
    if not is_allowed(target):
        raise UserError(f"{where}: not allowed. A target is a {KINDS} of {', '.join(PACKAGES)}")
    return target


def _trusted_class(module: str, name: str, where: str) -> Target:
    """A class that a trusted module defines. Raises UserError for a function, and for what it only imports."""
    content = vars(import_trusted(module, where))
    own = {key: value for key, value in content.items() if _is_buildable(value) and value.__module__ == module}
    if name in own and not name.startswith("_"):
        return own[name]  # type: ignore[no-any-return]
    lies_in = getattr(content.get(name), "__module__", module)
    if _is_buildable(content.get(name)) and lies_in != module:
        raise UserError(f"{where}: not allowed: {name} is defined in {lies_in}; name it there, {lies_in}.{name}")
    problem = f"{name} is no such class" if name in content else f"there is no {name}.{closest(name, own)}"
    raise UserError(f"{where}: not allowed. Of {module} a target is a {KINDS} that it defines: {problem}".rstrip("."))


def _import(name: str, where: str) -> types.ModuleType | None:
    """One module, imported; None when there is none. Raises UserError when something it needs is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            return None
        raise UserError(f"{where}: '{error.name}' is not installed") from error


def is_allowed(candidate: object) -> TypeGuard[Target]:
    """Whether a class or function, however it was reached, is one that a `_target_` may name."""
    if isinstance(candidate, type):
        inside = f"{candidate.__module__}.".startswith(tuple(f"{package}." for package in PACKAGES))
        return inside and _is_buildable(candidate)
    if isinstance(candidate, types.FunctionType):
        return candidate.__module__ in FUNCTIONS and "." not in candidate.__qualname__
    return False


def _is_buildable(candidate: object) -> bool:
    """Whether something is a class of one of KINDS, wherever it lies."""
    return any(extends(candidate, base) for base in BASES)


def other_kind(target: Target, path: str) -> str:
    """Why a class or function cannot stand at this place of a config; empty where it can."""
    section = "callbacks" if path.startswith("callbacks.") and path.count(".") == 1 else path
    base = BASE_OF.get(section)
    function = isinstance(target, types.FunctionType)
    if base is None or extends(target, base) or (function and section == "schedule"):
        return ""
    return f"no class for {section}: one extends {base}"


def extends(target: object, base: str) -> bool:
    """Whether a class, by whatever name it was found, is a `base` or made from it."""
    bases = target.__mro__ if isinstance(target, type) else ()
    return any(f"{kind.__module__}.{kind.__qualname__}" == base for kind in bases)


def target_nodes(node: object, path: str = "") -> Iterator[tuple[str, Mapping[str, object]]]:
    """Each mapping with a `_target_` in plain containers, outermost first, with its dotted path."""
    yield from ((place, part) for place, part in walk(node, path) if isinstance(part, Mapping) and "_target_" in part)
