"""Going on with a run: the checkpoint's config, with what the command may still change laid over it."""

import re
from collections.abc import Mapping

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from forecast.config.compose import groups
from forecast.config.schema import as_typed
from forecast.errors import UserError

# How long and under whose eyes a run trains, and where its file lies: the model and the data stay.
FREE_GROUPS = ("trainer", "callbacks", "logger")
FREE_KEYS = ("data.root", "data.path", "ckpt_path", "checks.leakage", "compile", "refit", "process_timeout", "tags")
CHOICES = Mapping[str, str | None]


def resumed_config(
    saved: Mapping[str, object], saved_choices: CHOICES, composed: DictConfig, overrides: list[str], choices: CHOICES
) -> DictConfig:
    """The config that a continued run has.

    saved, saved_choices: the resolved config and the chosen options in the checkpoint. composed, overrides, choices:
    what this command asks for. Repeating what is already so is fine, numbers compared by value.

    Raises one UserError that lists all overrides which would change the model or the data.
    """
    config, names, lines = OmegaConf.create({**saved}), groups(), []
    parsed = OverridesParser.create().parse_overrides(overrides)
    for override in sorted(parsed, key=lambda o: o.key_or_group not in names):  # groups first: keys lie over them
        key = override.key_or_group
        room = re.split("[./]", key)[0]
        if room == "hydra":
            continue
        if room in FREE_GROUPS or key in FREE_KEYS:
            parent, _, name = key.rpartition(".")
            if override.is_delete():
                OmegaConf.select(config, parent, default=config).pop(name, None)
            else:
                OmegaConf.update(config, key, _value(composed, key), merge=False, force_add=True)
            continue
        if key in names:
            key = f"{key}@{override.package}" if override.package else key
            pair: tuple[object, object] = (_choice(saved_choices, key), _choice(choices, key))
        else:
            pair = _value(config, key), _value(composed, key)
        before, now = pair
        if before != now:
            lines.append(f"{override.input_line}: the saved run has {key}={as_typed(before)}")
    if lines:
        raise UserError(
            "\n".join(lines) + "\nA continued run keeps its model and data. Start a new run without ckpt_path, or "
            f"change only {', '.join(f'{name}.*' for name in FREE_GROUPS)}, {', '.join(FREE_KEYS)}"
        )
    config.ckpt_path = composed.ckpt_path
    return config


def _choice(options: CHOICES, name: str) -> str | None:
    """Hydra names a group inside a group by its place too: data/split@data.split for data/split."""
    inner = next((option for key, option in options.items() if key.partition("@")[0] == name), None)
    return options.get(name, inner)


def _value(config: DictConfig, key: str) -> object:
    value = OmegaConf.select(config, key)
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
