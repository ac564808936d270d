"""Former names that keep working: on the command line, in a user's own YAML, and in checkpoints."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from forecast.config.values import CONF, walk
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
    "logger=null": "logger=none",  # Hydra takes null for no option
    "variant=informer2020": "model=informer2020",
    "variant=scrambled": "attention=prob_scrambled",
}
CLASSES: Mapping[str, str] = {
    "forecast.evaluation.Protocol": "forecast.evaluation.evaluate.Protocol",
    "forecast.training.checkpoint.EarlyStop": "forecast.training.stopping.EarlyStop",
    "forecast.training.figures.TensorBoardFigures": "forecast.training.figures.Figures",
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
    former = [f"{key}={part}" for part in values]
    options = [OPTIONS.get(option, option) for option in former]
    groups = {option.partition("=")[0] for option in options}
    if len(groups) > 1:
        moved = [f"{before} is now {now}" for before, now in zip(former, options, strict=True) if now != before]
        raise UserError(f"{text}: {', '.join(moved)}. Sweep over one group at a time.")
    if options != former:
        return f"{groups.pop()}={','.join(option.partition('=')[2] for option in options)}"
    if names := _values_at(key):
        value = ",".join(names.get(part, part) for part in values)
    return f"{words.removesuffix(key)}{_with_other_end(key, KEYS)}{equals}{value}"


def current_config(config: Any, path: str = "") -> Any:
    """A config of plain containers in today's words; a copy. Classes are left to `resolve_target`."""
    return _renamed(config, KEYS, lambda path, text: _values_at(path).get(text, text), path)


def former_config(config: Any) -> Any:
    """A config of plain containers, in today's words, as it would first have been written; a copy.

    What is made from it, such as the identity of a run, stays the same when names change.
    """

    def former(path: str, text: str) -> str:
        names = CLASSES if path.endswith("_target_") else _values_at(path)
        return next((old for old, new in names.items() if new == text), text)

    return _renamed(config, {new: old for old, new in KEYS.items()}, former)


def former_loss() -> dict[str, Any]:
    """The config of the loss that all runs were trained on before it could be chosen."""
    node = OmegaConf.to_container(OmegaConf.load(CONF / "loss/mse.yaml"))
    assert isinstance(node, dict)
    return {str(key): value for key, value in node.items()}


def _renamed(node: Any, keys: Mapping[str, str], value: Callable[[str, str], str], path: str = "") -> Any:
    """A copy with other `keys`, by the end of their paths, and with value(path, text) for each text."""
    if isinstance(node, Mapping):
        paths = {key: f"{path}.{key}" if path else str(key) for key in node}
        other = {key: _with_other_end(paths[key], keys) for key in node}
        # a search space has keys with dots in them
        names = {key: key if now == paths[key] else now.rpartition(".")[2] for key, now in other.items()}
        return {names[key]: _renamed(item, keys, value, paths[key]) for key, item in node.items()}
    if isinstance(node, list):
        return [_renamed(item, keys, value, f"{path}[{index}]") for index, item in enumerate(node)]
    return value(path, node) if isinstance(node, str) else node


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
    keys = [(path, value) for path, value in walk(plain) if not isinstance(value, Mapping) and not path.endswith("]")]
    today = [(_with_other_end(path, KEYS), current_config(value, path)) for path, value in keys]
    renamed = [f"{path}={value}" for (path, value), before in zip(today, keys, strict=True) if (path, value) != before]
    log.warning("The config has former names, which are now %s", ", ".join(renamed))
    return OmegaConf.create(current)  # type: ignore[no-any-return]


def _with_other_end(path: str, names: Mapping[str, str]) -> str:
    return next((path.removesuffix(old) + new for old, new in names.items() if f".{path}".endswith(f".{old}")), path)


def _values_at(path: str) -> Mapping[str, str]:
    path = f".{_with_other_end(path, KEYS)}"
    return next((names for end, names in VALUES.items() if path.endswith(f".{end}")), {})
