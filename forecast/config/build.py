"""`build`: the only place where what a `_target_` names is called, for the command line and for checkpoints alike."""

import functools
import traceback
from collections.abc import Callable, Mapping

from omegaconf import DictConfig, OmegaConf

from forecast.config.allow_list import SPECIAL, resolve_target
from forecast.config.schema import as_annotated, parameters
from forecast.config.values import PACKAGE, check_is_plain
from forecast.errors import UserError

# RuntimeError: torch's, of sizes that do not fit into memory; ImportError: of Lightning's loggers, whose package is an
# extra. Lightning's own refusals are no ValueErrors; by name, so that it need not be imported.
REFUSALS = (ValueError, TypeError, RuntimeError, MemoryError, OverflowError, ModuleNotFoundError)
OF_LIGHTNING = "MisconfigurationException"


def build(node: Mapping[str, object] | DictConfig, **provided: object) -> object:
    """Build what the `_target_`s of `node` name; `provided` are further arguments of the outermost one.

    Every target is checked against the allow list before any is called. Mappings and lists without a `_target_` stay
    what they are, with their contents built.

    Raises UserError for a target that is not allowed, for special keys but SPECIAL, for an interpolation in a plain
    mapping, and for what a constructor refuses.
    """
    plain = OmegaConf.to_container(node, resolve=True, throw_on_missing=True) if OmegaConf.is_config(node) else node
    return _build_part(_check_part(plain, ""), "", provided)


def _check_part(node: object, path: str) -> object:
    """A copy in which each `_target_` is what was checked, not its name: just that is called."""
    if isinstance(node, str):
        check_is_plain(node, path)
    if isinstance(node, Mapping):
        checked = {}
        for key, value in node.items():
            here = f"{path}.{key}" if path else str(key)
            if str(key).startswith("_") and key not in SPECIAL:
                raise UserError(f"{here}: only {' and '.join(SPECIAL)} may begin with '_'")
            checked[key] = _check_part(value, here)
        if "_target_" in checked:
            checked["_target_"] = target = resolve_target(checked["_target_"], path)
            for name, parameter in parameters(target).items():
                if name in checked:
                    checked[name] = as_annotated(checked[name], parameter.annotation, f"{path}.{name}".lstrip("."))
        return checked
    if isinstance(node, list | tuple):
        return [_check_part(value, f"{path}[{index}]") for index, value in enumerate(node)]
    return node


def _build_part(node: object, path: str, provided: Mapping[str, object]) -> object:
    """What a checked node makes; its innermost parts are made first."""
    if isinstance(node, list):
        return [_build_part(value, f"{path}[{index}]", {}) for index, value in enumerate(node)]
    if not isinstance(node, dict):
        return node
    parts = {
        key: _build_part(value, f"{path}.{key}".lstrip("."), {}) for key, value in node.items() if key not in SPECIAL
    }
    if "_target_" not in node:
        return parts
    make = functools.partial(node["_target_"], **{**parts, **provided})
    return make if node.get("_partial_") else _call(make, path)


def _call(make: Callable[[], object], path: str) -> object:
    """Call; a constructor's refusal comes out as a UserError with its own words."""
    try:
        return make()
    except UserError:
        raise
    except Exception as error:
        if not isinstance(error, REFUSALS) and type(error).__name__ != OF_LIGHTNING:
            raise
        frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        if isinstance(error, TypeError) and frames[-1] != __file__ and frames[-1].startswith(str(PACKAGE)):
            raise  # not of the arguments: a bug of ours
        raise UserError(f"{path}: {error}" if path else str(error)) from error
