"""What metrics.json says of a run beside its errors: what was run, how it was trained, on which data."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import cast

from forecast.checkpoint.load import Checkpoint
from forecast.config.rules import has_start_token
from forecast.config.run_config import Plain, RunConfig
from forecast.config.trials import composed
from forecast.config.values import select
from forecast.errors import UserError
from forecast.run_folder import SAME_DATA
from forecast.text.overrides import typed


def description(checkpoint: Checkpoint, protocol_name: str | None) -> dict[str, object]:
    """What was run, in the user's names; a model of a class of the user's own by that class, a file of theirs by name.

    members: only of an ensemble.
    trial: only of a run with trainer.fast_dev_run. target: data.target as it was set, of several the first. features:
    `roles` in place of M, S and MS where columns have roles.
    """
    config, choices = checkpoint.config, checkpoint.record.choices
    target = config.model.target
    slots = slot_names(config, choices)
    return {
        "model": choices["model"] if target.startswith("forecast.") else target,
        **({"variant": choices["variant"]} if choices.get("variant") else {}),
        **members(checkpoint),
        "attention": attention_name(config.plain.get("attention"), choices["attention"]) if slots else None,
        "attention_slots": slots,
        "data": data_name(checkpoint),
        "features": checkpoint.features,
        "target": config.data.first_target,
        "protocol": protocol_name,
        **sizes(checkpoint, target),
        **({"trial": True} if config.trainer.get("fast_dev_run") else {}),
        "parameters": checkpoint.record.parameters,
        "best_epoch": checkpoint.best_epoch,
        SAME_DATA: same_data(checkpoint),
    }


def members(checkpoint: Checkpoint) -> dict[str, object]:
    """Of an ensemble its members: their model, the folder of their training, and their weights by block of steps."""
    model, weights = checkpoint.config.model, checkpoint.weights.get("weights")
    of_each, runs = model.get("members"), model.get("runs")
    if not isinstance(of_each, list) or weights is None or len(of_each) != weights.shape[-1]:
        return {}
    named = zip(of_each, cast(list[str], runs), weights.T.tolist(), strict=True)
    return {"members": [{"model": member["name"], "run": run, "weights": of} for member, run, of in named]}


def sizes(checkpoint: Checkpoint, target: str) -> dict[str, int | None]:
    """The seed, and the lengths of windows; no label_len of a model whose decoder begins with no known steps.

    target: the path of the model's class.
    """
    config = checkpoint.config
    label_len = config.label_len if has_start_token(target) else None
    return {"seed": config.seed, "seq_len": config.seq_len, "label_len": label_len, "pred_len": config.pred_len}


def data_name(checkpoint: Checkpoint) -> str:
    """The name of the data; of a file of the user's own, which is just called csv, that of the file."""
    name, path = checkpoint.config.data.name, checkpoint.data["path"]
    return Path(path).name if name == "csv" and path else name


def slot_names(config: RunConfig, choices: Mapping[str, str | None]) -> dict[str, str]:
    """The attention in each slot of the model: {"encoder": "prob", ...}; empty for a model without slots."""
    names = {}
    for key, name in choices.items():
        slot = key.removeprefix("attention@model.")
        if slot != key and slot.endswith("_attention"):
            option = choices["attention"] if name == "inherit" else name
            names[slot.removesuffix("_attention")] = attention_name(config.model.get(slot), option)
    return names


def attention_name(node: object, option: str | None) -> str:
    """The option of an attention; of a mechanism of the user's own its class."""
    target = str(select(node, "mechanism._target_")[1]) if isinstance(node, Mapping) else "forecast."
    return str(option) if target.startswith("forecast.") else target


def same_data(checkpoint: Checkpoint) -> list[str] | None:
    """The overrides, quoted for a shell, that choose the same data and lengths for another training.

    None where no command can: a source of a class of the user's own, or options that are no longer there.
    """
    config, choices = checkpoint.config, checkpoint.record.choices
    try:
        chosen = {key: choices[key] for key in ("data", "data/split") if choices.get(key)}
        usual = _as_shipped(f"data={choices.get('data')}")
        if config.data.get("split") == usual.data.get("split"):
            chosen.pop("data/split", None)
        usual = _as_shipped(*(f"{key}={value}" for key, value in chosen.items()))
    except UserError:
        return None
    own, offered = (dict(_leaves(values.data.node)) for values in (config, usual))
    if any(own.get(key) != value for key, value in offered.items() if key.endswith("_target_")):
        return None
    words = [typed(key, value) for key, value in chosen.items()]
    words += [typed(f"data.{key}", value) for key, value in own.items() if not _equal(key, value, offered.get(key))]
    lengths = [typed(key, length) for key, length in config.lengths.items()]
    if config.label_len != usual.label_len:
        lengths.insert(1, typed("label_len", config.label_len))
    return words + lengths


@cache
def _as_shipped(*overrides: str) -> RunConfig:
    """The config of a training with these options of the data. Raises UserError for one that is not there."""
    return composed(overrides).config


def _leaves(node: Plain) -> Iterator[tuple[str, object]]:
    """The keys of the group data that choose rows and columns; those of its split by their whole path."""
    for key, value in node.items():
        if key == "batch_size":
            continue
        if key == "split" and isinstance(value, Mapping):
            yield from ((f"split.{inner}", value) for inner, value in value.items())
        else:
            yield key, value


def _equal(key: str, value: object, usual: object) -> bool:
    if key in ("path", "root") and isinstance(value, str) and isinstance(usual, str):  # a checkpoint has them absolute
        return Path(value).absolute() == Path(usual).absolute()
    return bool(value == usual)
