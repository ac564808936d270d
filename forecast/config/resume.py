"""Going on with a run: the checkpoint's config, with what the command may still change laid over it."""

from collections.abc import Mapping
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from forecast.config.hints import signature
from forecast.config.hydra_errors import groups
from forecast.config.targets import resolve_target
from forecast.config.values import shown
from forecast.errors import UserError

# How long and under whose eyes a run trains, and where its file lies: the model and the data stay.
FREE_GROUPS = ("trainer", "callbacks", "logger")
FREE_KEYS = ("data.root", "data.path", "ckpt_path", "checks.leakage", "compile")

_ABSENT = object()


def resumed_config(
    saved: Mapping[str, Any],
    saved_choices: Mapping[str, str | None],
    composed: DictConfig,
    overrides: list[str],
    choices: Mapping[str, str | None],
) -> DictConfig:
    """The config that a continued run has.

    saved, saved_choices: the resolved config and the chosen options in the checkpoint. composed, overrides,
    choices: what this command asks for. Options of trainer, callbacks and logger replace that whole group.
    Repeating what is already so is fine, numbers compared by value; `hydra.*` is left alone.

    Raises one UserError that lists all overrides which would change the model or the data.
    """
    config = OmegaConf.create({"checks": composed.get("checks"), "compile": None, **saved})  # older runs have neither
    parsed = [o for o in OverridesParser.create().parse_overrides(overrides) if not _of_hydra(o)]
    names = groups()
    refused = [
        line
        for override in parsed
        if override.key_or_group in names
        for line in _choose(config, composed, override, saved_choices, choices)
    ]
    for override in parsed:
        if override.key_or_group not in names:
            refused += _set(config, composed, override)
    if refused:
        raise UserError(
            "\n".join(refused) + "\nA continued run keeps its model and data. Start a new run without ckpt_path, "
            f"or change only {', '.join(f'{name}.*' for name in FREE_GROUPS)}, data.root, data.path, checks.leakage "
            "and compile"
        )
    config.ckpt_path = composed.get("ckpt_path")
    return config


def _of_hydra(override: Override) -> bool:
    return override.key_or_group.split(".")[0].split("/")[0] == "hydra"


def _choose(
    config: DictConfig,
    composed: DictConfig,
    override: Override,
    saved_choices: Mapping[str, str | None],
    choices: Mapping[str, str | None],
) -> list[str]:
    """Lay a group's choice over `config`; the lines that say why not."""
    group = override.key_or_group
    if group in FREE_GROUPS:
        if override.is_delete():
            _delete(config, group)  # check_config says what is missing then
        else:
            OmegaConf.update(config, group, _asked(composed, group), merge=False, force_add=True)
        return []
    name = f"{group}@{override.package}" if override.package else group
    # Hydra names a group inside a group by its place too: data/split@data.split for data/split.
    kept = _choice(saved_choices, name)
    asked = _choice(choices, name)
    return [] if asked == kept else [f"{name}={shown(asked)}: the saved run has {name}={shown(kept)}"]


def _choice(choices: Mapping[str, str | None], name: str) -> str | None:
    found = [value for key, value in choices.items() if key == name or key.split("@")[0] == name]
    return choices[name] if name in choices else (found[0] if found else None)


def _set(config: DictConfig, composed: DictConfig, override: Override) -> list[str]:
    """Lay one value over `config`; the lines that say why not."""
    key = override.key_or_group
    kept, asked = _asked(config, key), _asked(composed, key)
    if kept is _ABSENT:
        kept = _default(config, key)
    if _same(kept, asked):
        return []
    if key.split(".")[0] not in FREE_GROUPS and key not in FREE_KEYS:
        return [f"{key}={_words(asked)}: the saved run has {key}={_words(kept)}"]
    if asked is _ABSENT:
        _delete(config, key)
    elif kept is _ABSENT and key.startswith("data."):
        return [f"{key}={_words(asked)}: the saved run's data takes no '{key.split('.')[-1]}'"]
    else:
        OmegaConf.update(config, key, asked, merge=False, force_add=True)
    return []


def _asked(config: DictConfig, key: str) -> Any:
    """The plain, resolved value at `key`, or _ABSENT."""
    value = OmegaConf.select(config, key, default=_ABSENT)
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def _default(config: DictConfig, key: str) -> Any:
    """What a key that `config` lacks, being older or not said, comes to: its class's own default, or _ABSENT."""
    node, _, name = key.rpartition(".")
    target = OmegaConf.select(config, f"{node}._target_") if node else None
    parameter = None if target is None else signature(resolve_target(target, node)).get(name)
    return _ABSENT if parameter is None or parameter.default is parameter.empty else parameter.default


def _same(kept: object, asked: object) -> bool:
    if isinstance(kept, bool) is not isinstance(asked, bool):
        return False
    if isinstance(kept, tuple) and isinstance(asked, list):
        kept = list(kept)  # a default of Python beside a list of YAML
    return kept is asked or kept == asked


def _words(value: object) -> str:
    return "(none)" if value is _ABSENT else shown(value)


def _delete(config: DictConfig, key: str) -> None:
    parent, _, last = key.rpartition(".")
    node = OmegaConf.select(config, parent) if parent else config
    if node is not None:
        node.pop(last, None)
