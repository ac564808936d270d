"""The configs of trials, composed as `forecast train` composes them, and the best one as an experiment file."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from forecast.config import hydra_errors, resolvers
from forecast.config.compose import compose_config, without_hydra
from forecast.config.run_config import PLACES, RunConfig
from forecast.config.values import as_typed, plain_values
from forecast.errors import UserError
from forecast.files import write_text
from forecast.text.overrides import hydra_value

EXPERIMENT = "experiment"
OVERLAYS = (EXPERIMENT, "variant", "debug")  # they name keys of other groups, and an experiment cannot choose them


class Composed(NamedTuple):
    """A config of train, and the identity that a sweep would give it."""

    identity: str
    config: RunConfig


def composed(overrides: Sequence[str]) -> Composed:
    """What `forecast train OVERRIDES` would run, without running it. Raises UserError for what it would refuse."""
    if not OmegaConf.has_resolver(resolvers.identity.__name__):  # a sweep that runs keeps the folder it began in
        resolvers.register()
    try:
        cfg = compose_config("train", list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        text = hydra_errors.message(error, config_name="train", overrides=overrides)
        raise UserError(text or str(error)) from error
    return Composed(resolvers.identity(_root_=cfg), RunConfig.of(plain_values(cfg)))


class TrainConfig(NamedTuple):
    """What `forecast train OVERRIDES` would run, its interpolations not resolved, and the chosen options of groups."""

    values: DictConfig
    options: Mapping[str, str | None]


@cache
def _of_options(words: tuple[str, ...], folders: tuple[str, ...]) -> TrainConfig:
    """`train_config` of options alone, which a study composes again and again."""
    return train_config(words, folders)


def train_config(overrides: Sequence[str], folders: Sequence[str] = ()) -> TrainConfig:
    """Composes a config of train. folders: of a user's own YAML. Raises UserError for what train would refuse."""
    words = [*overrides, *searched(folders)]
    try:
        cfg = compose_config("train", words, hydra=True)
    except (HydraException, OmegaConfBaseException) as error:
        text = hydra_errors.message(error, config_name="train", overrides=words)
        raise UserError(text or str(error)) from error
    return TrainConfig(*without_hydra(cfg))


def searched(folders: Sequence[str]) -> list[str]:
    """The override by which Hydra finds YAML in these folders too."""
    return [f"hydra.searchpath={hydra_value([f'file://{folder}' for folder in folders])}"] if folders else []


def write_experiment(
    folder: Path, name: str, overrides: Sequence[str], *, folders: Sequence[str] = (), comment: Sequence[str]
) -> bool:
    """Writes FOLDER/experiment/NAME.yaml: `--config-dir FOLDER experiment=NAME` then trains what the overrides do.

    It says the options that are not those of train.yaml or of the chosen model, and the keys that differ from them.
    comment: its first lines. False where Hydra does not compose the same from it: a file cannot delete a key.
    """
    wanted = train_config(overrides, folders)
    for key in PLACES:  # an experiment file is used from other folders too
        if not OmegaConf.is_interpolation(wanted.values.data, key) and wanted.values.data.get(key):
            wanted.values.data[key] = str(Path(wanted.values.data[key]).absolute())
    chosen = _choices(wanted.options, folders)
    before = _of_options(_as_overrides(chosen), tuple(folders))
    lines = [f"# {line}" for line in ("@package _global_", *comment)]
    defaults = [*({f"override /{group}": option} for group, option in chosen.items()), "_self_"]
    keys = _difference(*(plain_values(config.values, resolve=False) for config in (wanted, before)))
    text = "\n".join(lines) + "\n" + yaml.safe_dump({"defaults": defaults}, sort_keys=False)
    text += "\n" + yaml.safe_dump(keys, sort_keys=False, allow_unicode=True) if keys else ""
    path = folder / EXPERIMENT / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    try:
        composed = train_config([f"{EXPERIMENT}={name}"], [str(folder.absolute()), *folders])
    except UserError:
        return False
    return plain_values(composed.values) == plain_values(wanted.values)


def _choices(options: Mapping[str, str | None], folders: Sequence[str]) -> dict[str, str | None]:
    """The options to say so that Hydra chooses all of these; a chosen one may bring others with it."""
    chosen: dict[str, str | None] = {}
    while True:
        composed = _of_options(_as_overrides(chosen), tuple(folders)).options
        more = [
            group
            for group, option in options.items()
            if option is not None and group not in (*OVERLAYS, *chosen) and composed.get(group, option) != option
        ]
        if not more:
            return chosen
        # a model brings attentions with it, data bring their split
        first = [group for group in more if group == "model"] or [group for group in more if group.isidentifier()]
        chosen |= {group: options[group] for group in first or more}


def _as_overrides(options: Mapping[str, str | None]) -> tuple[str, ...]:
    return tuple(f"{group}={as_typed(option)}" for group, option in options.items())


def _difference(wanted: Mapping[str, object], before: Mapping[str, object]) -> dict[str, object]:
    """What to lay over `before` to have `wanted`; a key that is not wanted becomes null."""
    difference: dict[str, object] = dict.fromkeys(key for key in before if key not in wanted)
    for key, value in wanted.items():
        if key in before and value == before[key] and type(value) is type(before[key]):
            continue
        inner = before.get(key)
        difference[key] = _difference(value, inner) if isinstance(value, dict) and isinstance(inner, dict) else value
    return difference
