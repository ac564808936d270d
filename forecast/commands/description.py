"""What metrics.json says of a run beside its errors: what was run, how it was trained, on which data."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from forecast.checkpoint.load import Checkpoint
from forecast.config.entry import composed
from forecast.config.rules import has_start_token
from forecast.data.guessing.train_command import typed
from forecast.errors import UserError
from forecast.run_folder import SAME_DATA


def description(checkpoint: Checkpoint, protocol_name: str | None) -> dict[str, Any]:
    """What was run, in the user's names; a model of a class of the user's own by that class, a file of theirs by name.

    members: only of an ensemble.
    trial: only of a run with trainer.fast_dev_run. target: data.target as it was set, of several the first. features:
    `roles` in place of M, S and MS where columns have roles.
    """
    config, choices = checkpoint.config, checkpoint.record["choices"]
    target = config["model"]["_target_"]
    slots = slot_names(choices)
    return {
        "model": choices["model"] if target.startswith("forecast.") else target,
        **({"variant": choices["variant"]} if choices.get("variant") else {}),
        **members(checkpoint),
        "attention": choices["attention"] if slots else None,
        "attention_slots": slots,
        "data": data_name(checkpoint),
        "features": checkpoint.features,
        "target": first_target(config["data"].get("target")),
        "protocol": protocol_name,
        **sizes(checkpoint, target),
        **({"trial": True} if _section(config, "trainer").get("fast_dev_run") else {}),
        "parameters": checkpoint.record["parameters"],
        "best_epoch": checkpoint.best_epoch,
        "training": training(checkpoint),
        SAME_DATA: same_data(checkpoint),
    }


def members(checkpoint: Checkpoint) -> dict[str, Any]:
    """Of an ensemble its members: their model, the folder of their training, and their weights by block of steps."""
    model, weights = checkpoint.config["model"], checkpoint.weights.get("weights")
    if "members" not in model or weights is None or len(model["members"]) != weights.shape[-1]:
        return {}
    named = zip(model["members"], model["runs"], weights.T.tolist(), strict=True)
    return {"members": [{"model": member["name"], "run": run, "weights": of} for member, run, of in named]}


def sizes(checkpoint: Checkpoint, target: str) -> dict[str, int | None]:
    """The seed, and the lengths of windows; no label_len of a model whose decoder begins with no known steps.

    target: the path of the model's class.
    """
    config = checkpoint.config
    values = {key: config[key] for key in ("seed", "seq_len", "label_len", "pred_len")}
    return values if has_start_token(target) else values | {"label_len": None}


def first_target(target: Any) -> Any:
    """The first of the names of data.target."""
    return target[0] if isinstance(target, list | tuple) else target


def data_name(checkpoint: Checkpoint) -> str:
    """The name of the data; of a file of the user's own, which is just called csv, that of the file."""
    name, path = str(checkpoint.config["data"]["name"]), checkpoint.data["path"]
    return Path(path).name if name == "csv" and path else name


def slot_names(choices: Mapping[str, str | None]) -> dict[str, str]:
    """The attention in each slot of the model: {"encoder": "prob", ...}; empty for a model without slots."""
    prefix, suffix = "attention@model.", "_attention"
    slots = {key: name for key, name in choices.items() if key.startswith(prefix) and key.endswith(suffix)}
    return {
        key.removeprefix(prefix).removesuffix(suffix): str(choices["attention"] if name == "inherit" else name)
        for key, name in slots.items()
    }


def training(checkpoint: Checkpoint) -> dict[str, Any]:
    """What a verdict needs to name a cure: the number of train windows, and keys of the config by their last names.

    A key that the config does not have is None, such as instance_norm of a model without it.
    """
    config, data = checkpoint.config, checkpoint.data
    start, stop = data["splits"].get("train", (0, 0))
    left_out = _section(_section(data, "gaps"), "windows_left_out").get("train", 0)
    windows = max(0, stop - start - config["seq_len"] - config["pred_len"] + 1 - left_out)
    model = _section(config, "model")
    return {
        "windows": _section(data, "windows").get("train", windows),  # of a panel they are counted
        "batch_size": config["data"].get("batch_size"),
        "max_epochs": _section(config, "trainer").get("max_epochs"),
        "lr": _section(config, "optim").get("lr"),
        "schedule": checkpoint.record["choices"].get("schedule"),
        **{key: model.get(key) for key in ("instance_norm", "d_model", "n_heads", "d_ff")},
    }


def same_data(checkpoint: Checkpoint) -> list[str] | None:
    """The overrides, quoted for a shell, that choose the same data and lengths for another training.

    None where no command can: a source of a class of the user's own, or options that are no longer there.
    """
    config, choices = checkpoint.config, checkpoint.record["choices"]
    try:
        chosen = {key: choices[key] for key in ("data", "data/split") if choices.get(key)}
        usual = _as_shipped(*(f"{key}={value}" for key, value in chosen.items()))
        its_own_split = _as_shipped(f"data={choices.get('data')}")["data"] == usual["data"]
    except UserError:
        return None
    own, offered = (dict(_leaves(values["data"])) for values in (config, usual))
    if any(own.get(key) != value for key, value in offered.items() if key.endswith("_target_")):
        return None
    if its_own_split:
        chosen.pop("data/split", None)
    words = [typed(key, value) for key, value in chosen.items()]
    words += [typed(f"data.{key}", value) for key, value in own.items() if not _equal(key, value, offered.get(key))]
    always = ("seq_len", "pred_len")
    named = [key for key in ("seq_len", "label_len", "pred_len") if key in always or config[key] != usual[key]]
    return words + [typed(key, config[key]) for key in named]


@cache
def _as_shipped(*overrides: str) -> dict[str, Any]:
    """The config of a training with these options of the data. Raises UserError for one that is not there."""
    return composed(overrides).values


def _leaves(node: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The keys of the group data that choose rows and columns; those of its split by their whole path."""
    for key, value in node.items():
        if key == "batch_size":
            continue
        if key == "split" and isinstance(value, Mapping):
            yield from ((f"split.{inner}", value) for inner, value in value.items())
        else:
            yield key, value


def _equal(key: str, value: Any, usual: Any) -> bool:
    if key in ("path", "root") and value and usual:  # a checkpoint has them absolute
        return Path(value).absolute() == Path(usual).absolute()
    return bool(value == usual)


def _section(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = values.get(key)
    return section if isinstance(section, Mapping) else {}
