"""`build`: the only caller of Hydra's instantiate, for the command line and for checkpoints alike."""

import functools
import traceback
from collections.abc import Callable, Mapping
from typing import TypeVar

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, ListConfig, OmegaConf

from forecast.config.allow_list import SPECIAL, resolve_target
from forecast.config.schema import as_annotated, parameters
from forecast.config.values import PACKAGE, check_is_plain
from forecast.errors import UserError

T = TypeVar("T")
# RuntimeError: torch's, of sizes that do not fit into memory.
REFUSALS = (
    ValueError,
    TypeError,
    RuntimeError,
    MemoryError,
    OverflowError,
    ModuleNotFoundError,
    InstantiationException,
)


def build(node: Mapping[str, object] | DictConfig, **provided: object) -> object:
    """Build what the `_target_`s of `node` name; `provided` are further arguments of the outermost one.

    Every target is checked against the allow list before any is called. Mappings and lists without a
    `_target_` stay what they are, with their contents built. `provided` never passes through OmegaConf, so
    modules and parameters arrive as they are.

    Raises UserError for a target that is not allowed, for Hydra's other special keys, for an interpolation in
    a plain mapping, and for what a constructor refuses.
    """
    plain = _checked(node, "")
    assert isinstance(plain, dict)
    if "_target_" not in plain:
        if provided:
            raise ValueError("only a node with a _target_ takes further arguments")
        return _call(lambda: instantiate(plain, _convert_="all"))
    # As a partial first: what is provided must not pass through OmegaConf.
    partial = _call(lambda: instantiate({**plain, "_partial_": True}, _convert_="all"))
    factory = functools.partial(partial, **provided)
    return factory if plain.get("_partial_") else _call(factory)


def _checked(node: object, path: str) -> object:
    """A copy in which each `_target_` is what was checked, not its name: just that is called."""
    if isinstance(node, DictConfig | ListConfig):
        node = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
    if isinstance(node, str):
        check_is_plain(node, path)
    if isinstance(node, Mapping):
        checked = {}
        for key, value in node.items():
            here = f"{path}.{key}" if path else str(key)
            # Hydra resolves an interpolation wherever it stands, and these keys change what it calls.
            if str(key).startswith("_") and key not in SPECIAL:
                raise UserError(f"{here}: only {' and '.join(SPECIAL)} may begin with '_'")
            checked[key] = _checked(value, here)
        if "_target_" in checked:
            checked["_target_"] = target = resolve_target(checked["_target_"], path)
            for name, parameter in parameters(target).items():
                if name in checked:
                    checked[name] = as_annotated(checked[name], parameter.annotation, f"{path}.{name}".lstrip("."))
        return checked
    if isinstance(node, list | tuple):
        return [_checked(value, f"{path}[{index}]") for index, value in enumerate(node)]
    return node


def _call(call: Callable[[], T]) -> T:
    """Call; a constructor's refusal comes out as a UserError with its own words, without Hydra's wrapping."""
    try:
        return call()
    except UserError:
        raise
    except Exception as error:
        cause: BaseException = error
        while isinstance(cause, InstantiationException) and cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, UserError):
            raise cause from error
        # Lightning's refusals are no ValueErrors; by name, so that it need not be imported. Some of its loggers, and
        # none of our modules, need a package that may be missing.
        if not isinstance(cause, REFUSALS) and type(cause).__name__ != "MisconfigurationException":
            raise
        frames = [frame.filename for frame in traceback.extract_tb(cause.__traceback__)]
        if isinstance(cause, TypeError) and frames[-1] != __file__ and frames[-1].startswith(str(PACKAGE)):
            raise cause from error  # not of the arguments: a bug of ours
        key = [line.removeprefix("full_key: ") for line in str(error).splitlines() if "full_key: " in line]
        raise UserError(f"{key[0]}: {cause}" if key and key[0] else str(cause)) from error
