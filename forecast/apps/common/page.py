"""What a run tells of itself: what metrics.json says beside its errors, and report.html, with its results or anew."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import pandas as pd

from forecast.apps.common.refit import chosen_checkpoint
from forecast.checkpoint.load import Checkpoint
from forecast.config.check import has_start_token
from forecast.config.compose import select
from forecast.config.run_config import Plain, RunConfig, composed
from forecast.documents import read_arrays
from forecast.errors import UserError
from forecast.files import json_text, together
from forecast.report.page.run import run_page
from forecast.run_folder import (
    AHEAD,
    ATTENTION,
    FILES,
    FORECASTS,
    METRICS,
    NOT_IDENTITY,
    PAGE,
    SAME_DATA,
    SERIES_ERRORS,
    STEP_ERRORS,
    read_run,
    read_windows,
    sha256,
)
from forecast.run_folder.shapes import Metrics, Origin
from forecast.text.overrides import typed
from forecast.text.terminal import say

# The columns of errors_by_series.csv by their order: in the file the ids may have the name of another column.
SERIES_COLUMNS = ("id", "windows", "mse", "mae", "mase", "rmsse", "smape", "wape")


def origin_of(checkpoint: Checkpoint) -> Origin:
    """What a page says of how a checkpoint came about, less what two runs of one experiment may differ in."""
    record = checkpoint.record
    return {
        "config": _less(record.config.plain, NOT_IDENTITY),
        "choices": {key: option for key, option in record.choices.items() if key not in NOT_IDENTITY},
        "data": record.data,
        "scale": record.column_scale,
        "versions": {**record.versions},
    }


def _less(node: Mapping[str, object], paths: Sequence[str]) -> dict[str, object]:
    """A tree without the keys at these paths, `data.root`."""
    kept = {}
    for key, value in node.items():
        if key not in paths:
            below = [path.removeprefix(f"{key}.") for path in paths if path.startswith(f"{key}.")]
            kept[key] = _less(value, below) if below and isinstance(value, Mapping) else value
    return kept


def page_of(
    place: Callable[[str], Path],
    metrics: Metrics,
    split: str,
    origin: Origin,
    *,
    ahead: Path | None = None,
    attention: Path | None = None,
) -> str:
    """The page, from the files of a run alone: where `place` says that they lie.

    metrics: that become metrics.json; origin: of the model. ahead: the file of what is forecast; attention: that of
    `forecast attend`; None without one.
    """
    by_step = pd.read_csv(place(STEP_ERRORS)).drop(columns="step")
    windows = read_windows(place(FORECASTS))
    series = None
    if "series" in windows:
        blank = {key: [""] for key in SERIES_COLUMNS[1:]}  # not of the ids, which are text: NA may be one
        series = pd.read_csv(
            place(SERIES_ERRORS),
            header=0,
            names=SERIES_COLUMNS,
            dtype={"id": str},
            na_values=blank,
            keep_default_na=False,
        )
    return run_page(
        json.loads(json_text(metrics)),  # rounded as the file: a page made anew from it is the same
        split,
        by_step={str(name): by_step[name].tolist() for name in by_step},
        windows=windows,
        ahead=None if ahead is None else read_windows(ahead),
        attention=None if attention is None else read_arrays(attention, ["places"]),
        series=series,
        origin=json.loads(json_text(origin)),
    )


def remake(folder: Path) -> None:
    """Writes report.html of a training whose results stand, and its checksum into metrics.json.

    Raises UserError for one without results.
    """
    run = read_run(folder)
    split = next((key for key, block in run.metrics.items() if isinstance(block, Mapping) and "skill" in block), None)
    if split is None or run.state not in ("finished", "interrupted"):
        raise UserError(f"{folder} has no results to report: {run.reason or f'{METRICS} has no skill'}. Run it again.")
    metrics = run.metrics.copy()
    ahead = folder / AHEAD if (folder / AHEAD).is_file() and "leaderboard" in metrics else None
    attention = folder / ATTENTION if (folder / ATTENTION).is_file() else None
    origin = origin_of(chosen_checkpoint(folder))
    page = page_of(lambda name: folder / name, metrics, split, origin, ahead=ahead, attention=attention)
    with together(folder) as place:
        place(PAGE).write_text(page, encoding="utf-8")
        metrics[FILES] = {**metrics.get(FILES, {}), PAGE: sha256(place(PAGE))}
        place(METRICS).write_text(json_text(metrics), encoding="utf-8")
    say(f"{folder / PAGE}: {len(page.encode()) / 1e6:.2f} MB")


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
