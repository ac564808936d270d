"""Former names that keep working: on the command line, in a user's own YAML, and in checkpoints."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from forecast.errors import UserError

log = logging.getLogger(__name__)

# Former name -> today's. Keys and their values by the end of their path, as they lie in several slots.
KEYS: Mapping[str, str] = {
    "protocol.offsets": "protocol.horizon_offsets",
    "mechanism.keys": "mechanism.key_sampling",
    "mechanism.bucket": "mechanism.bucket_size",
    "mechanism.rounds": "mechanism.n_hashes",
}
VALUES: Mapping[str, Mapping[str, str]] = {  # by today's key
    "mechanism.key_sampling": {"shared": "per_head", "distinct": "per_query", "repeated": "with_replacement"},
    "model.decode": {"generative": "one_shot", "dynamic": "autoregressive"},
}
OPTIONS: Mapping[str, str] = {
    "schedule=type1": "schedule=halve_each_epoch",
    "schedule=type3": "schedule=decay_90",
    "variant=informer2020": "model=informer2020",
    "variant=scrambled": "attention=prob_scrambled",
}
CLASSES: Mapping[str, str] = {
    "forecast.evaluation.Protocol": "forecast.evaluation.evaluate.Protocol",
    "forecast.training.checkpoint.EarlyStop": "forecast.training.stopping.EarlyStop",
    "forecast.training.schedule.type1": "forecast.training.schedule.halve_each_epoch",
    "forecast.training.schedule.type3": "forecast.training.schedule.decay_90",
}


def current_override(text: str) -> str:
    """An override in today's words: attention.mechanism.keys=shared -> attention.mechanism.key_sampling=per_head.

    Values that are swept over, separated by commas, are taken one by one. Raises UserError where some of a sweep's
    options have moved to another group.
    """
    words, equals, value = text.partition("=")
    key = words.lstrip("+~")
    values = [part.strip() for part in value.split(",")]
    options = [OPTIONS.get(f"{key}={part}", f"{key}={part}") for part in values]
    groups = {option.partition("=")[0] for option in options}
    if len(groups) > 1:
        moved = [f"{key}={part} is now {now}" for part, now in zip(values, options, strict=True) if now not in text]
        raise UserError(f"{text}: {', '.join(moved)}. Sweep over one group at a time.")
    if any(option.partition("=")[2] != part for option, part in zip(options, values, strict=True)) or key not in groups:
        return f"{groups.pop()}={','.join(option.partition('=')[2] for option in options)}"
    now = _current_path(key)
    names = _values_at(now)
    renamed = ",".join(names.get(part, part) for part in values) if names else value
    return f"{words.removesuffix(key)}{now}{equals}{renamed}"


def current_config(node: Any, path: str = "") -> Any:
    """A config of plain containers in today's words; a copy. Classes are left to `resolve_target`."""
    if isinstance(node, Mapping):
        paths = {key: _current_path(f"{path}.{key}" if path else str(key)) for key in node}
        return {paths[key].rpartition(".")[2]: current_config(value, paths[key]) for key, value in node.items()}
    if isinstance(node, list):
        return [current_config(value, f"{path}[{index}]") for index, value in enumerate(node)]
    return _values_at(path).get(node, node) if isinstance(node, str) else node


def former_config(node: Any, path: str = "") -> Any:
    """A config of plain containers, in today's words, as it would first have been written; a copy.

    What is made from it, such as the identity of a run, stays the same when names change.
    """
    if isinstance(node, Mapping):
        paths = {key: f"{path}.{key}" if path else str(key) for key in node}
        return {_former_key(paths[key]): former_config(value, paths[key]) for key, value in node.items()}
    if isinstance(node, list):
        return [former_config(value, f"{path}[{index}]") for index, value in enumerate(node)]
    names = CLASSES if path.endswith("_target_") else _values_at(path)
    return next((old for old, new in names.items() if new == node), node)


def current_choices(choices: Mapping[str, str | None]) -> dict[str, str | None]:
    """The chosen option of each group in today's words, as far as it is still one of that group."""
    current = {}
    for group, option in choices.items():
        now = OPTIONS.get(f"{group}={option}", "")
        current[group] = now.removeprefix(f"{group}=") if now.startswith(f"{group}=") else option
    return current


def with_current_names(cfg: DictConfig) -> DictConfig:
    """A composed config in today's words; where YAML of a user's own has former ones, the log gives today's."""
    plain = OmegaConf.to_container(cfg, resolve=False)
    current = current_config(plain)
    if current == plain:
        return cfg
    log.warning("The config has former names, which are now %s", ", ".join(_changed(plain)))
    named: DictConfig = OmegaConf.create(current)
    return named


def _changed(node: Any, path: str = "") -> Iterator[str]:
    """Each key whose name or value is a former one, as one types it today."""
    if not isinstance(node, Mapping):
        return
    for key, value in node.items():
        here = f"{path}.{key}" if path else str(key)
        now = _current_path(here)
        current = current_config(value, now)
        if isinstance(value, Mapping):
            yield from _changed(value, now)
        elif now != here or current != value:
            yield f"{now}={current}"


def _current_path(path: str) -> str:
    return next((path.removesuffix(old) + new for old, new in KEYS.items() if _ends(path, old)), path)


def _former_key(path: str) -> str:
    return next((old for old, new in KEYS.items() if _ends(path, new)), path).rpartition(".")[2]


def _values_at(path: str) -> Mapping[str, str]:
    return next((names for end, names in VALUES.items() if _ends(path, end)), {})


def _ends(path: str, end: str) -> bool:
    return path == end or path.endswith(f".{end}")
