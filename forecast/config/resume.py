"""Going on with a run: the checkpoint's config, with what the command may still change laid over it."""

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from forecast.config.allow_list import resolve_target, trusted
from forecast.config.compose import groups
from forecast.config.schema import parameters
from forecast.config.values import CONF, as_typed, chosen_groups, option_of, plain_values, walk
from forecast.errors import UserError
from forecast.text.overrides import hydra_value

# How long and under whose eyes a run trains, and where its file lies: the model and the data stay.
FREE_GROUPS = ("trainer", "callbacks", "logger")
FREE_KEYS = ("data.root", "data.path", "ckpt_path", "checks.leakage", "compile", "refit", "process_timeout", "tags")

PLAIN_NAME = re.compile(r"(\w[\w .,:=+-]*)?")  # no path, and no address
# What the text of a checkpoint may choose of loggers, trainer and callbacks: names, which are no path and no address.
NAMES = (
    *(f"logger.{key}" for key in ("name", "version", "project", "experiment_name", "run_name")),
    *(f"trainer.{key}" for key in ("accelerator", "strategy", "devices", "precision", "gradient_clip_algorithm")),
    "trainer.max_time",
    "callbacks.checkpoint.monitor",
)

_ABSENT = object()


def resumed_config(
    saved: Mapping[str, object],
    saved_choices: Mapping[str, str | None],
    composed: DictConfig,
    overrides: list[str],
    choices: Mapping[str, str | None],
) -> DictConfig:
    """The config that a continued run has.

    saved, saved_choices: the resolved config and the chosen options in the checkpoint. composed, overrides,
    choices: what this command asks for. Options of trainer, callbacks and logger replace that whole group.
    Repeating what is already so is fine, numbers compared by value; `hydra.*` is left alone.

    Raises one UserError that lists all overrides which would change the model or the data, or what `check_places`
    refuses.
    """
    config = OmegaConf.create({**saved})
    names, refused = groups(), []
    parsed = OverridesParser.create().parse_overrides(overrides)
    for override in sorted(parsed, key=lambda o: o.key_or_group not in names):  # groups first: keys lie over them
        if re.split("[./]", override.key_or_group)[0] == "hydra":
            continue
        if override.key_or_group in names and override.key_or_group not in FREE_GROUPS:
            refused.append(_refused_choice(override, saved_choices, choices))
        else:
            refused.append(_set(config, composed, override.key_or_group))
    if any(refused):
        raise UserError(
            "\n".join(filter(None, refused)) + "\nA continued run keeps its model and data. Start a new run without "
            f"ckpt_path, or change only {', '.join(f'{name}.*' for name in FREE_GROUPS)}, data.root, data.path, "
            "checks.leakage, compile, refit and process_timeout"
        )
    check_places(config, [override.key_or_group for override in parsed])
    config.ckpt_path = composed.get("ckpt_path")
    return config


def check_places(config: DictConfig, typed: Sequence[str]) -> None:
    """Where a continued run writes, and what it calls, is for its command to say: paths, addresses, foreign classes.

    Of logger, callbacks and trainer a checkpoint may hold the texts of conf, plain names at NAMES, and classes that the
    command trusts. typed: the keys and groups of the command. Raises UserError for other texts that it has not typed.
    """
    groups = {group: _value(config, group) for group in FREE_GROUPS}
    lines = []
    for path, text in walk(groups):
        is_typed = any(f"{path}.".startswith((f"{key}.", f"{key}[")) for key in typed)
        if not isinstance(text, str) or is_typed or _place(path, text) in shipped_texts():
            continue
        named = path in NAMES and PLAIN_NAME.fullmatch(text)
        trusts = path.endswith("._target_") and text.rpartition(".")[0] in trusted()
        if not (named or trusts):
            group = path.partition(".")[0]
            again = shlex.quote(f"++{path}={hydra_value(text)}")
            default = f"{group}={chosen_groups('train')[group]}"
            lines.append(f"{path}={text}: only the checkpoint says so. Say {default}, or to keep it {again}")
    if lines:
        text = "Where a continued run writes, and what it calls, is for its command to say, never for a checkpoint."
        raise UserError("\n".join([*lines, text]))


def _place(path: str, text: str) -> tuple[str, str]:
    """What a text of conf is known by: a class by its group, another text by its key."""
    return (path.partition(".")[0], text) if path.endswith("._target_") else (path, text)


@cache
def shipped_texts() -> frozenset[tuple[str, str]]:
    """Every text in the options of FREE_GROUPS, as `_place` knows it."""
    files = [file for group in FREE_GROUPS for file in (CONF / group).glob("*.yaml")]
    nodes = [(file.parent.name, plain_values(option_of(file.parent.name, file.stem), resolve=False)) for file in files]
    parts = (part for group, values in nodes for part in walk(values, group))
    return frozenset(_place(path, text) for path, text in parts if isinstance(text, str))


def _refused_choice(
    override: Override, saved_choices: Mapping[str, str | None], choices: Mapping[str, str | None]
) -> str:
    """The line that says why a group's choice is refused; empty where the saved run has the same."""
    name = f"{override.key_or_group}@{override.package}" if override.package else override.key_or_group
    # Hydra names a group inside a group by its place too: data/split@data.split for data/split.
    before, now = (
        options.get(name, next((option for key, option in options.items() if key.split("@")[0] == name), None))
        for options in (saved_choices, choices)
    )
    return "" if now == before else f"{name}={as_typed(now)}: the saved run has {name}={as_typed(before)}"


def _set(config: DictConfig, composed: DictConfig, key: str) -> str:
    """Lay one value, or a whole group, over `config`; the line that says why not."""
    before, now = _value(config, key), _value(composed, key)
    node, _, name = key.rpartition(".")
    if before is _ABSENT:
        # not in the saved config: the run had the default of the class
        target = OmegaConf.select(config, f"{node}._target_") if node else None
        parameter = None if target is None else parameters(resolve_target(target, node)).get(name)
        if parameter is not None and parameter.default is not parameter.empty and parameter.default is not ...:
            before = list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
    if isinstance(before, bool) is isinstance(now, bool) and before == now:
        return ""
    if key.split(".", maxsplit=1)[0] not in FREE_GROUPS and key not in FREE_KEYS:
        texts = ["(none)" if value is _ABSENT else as_typed(value) for value in (now, before)]
        return f"{key}={texts[0]}: the saved run has {key}={texts[1]}"
    if now is _ABSENT:
        parent = OmegaConf.select(config, node) if node else config
        if parent is not None:
            parent.pop(name, None)  # of a group, check_config says what is missing then
    elif before is _ABSENT and key.startswith("data."):
        return f"{key}={as_typed(now)}: the saved run's data takes no '{name}'"
    else:
        OmegaConf.update(config, key, now, merge=False, force_add=True)
    return ""


def _value(config: DictConfig, key: str) -> object:
    """The plain, resolved value at `key`, or _ABSENT."""
    value = OmegaConf.select(config, key, default=_ABSENT)
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
