"""What a checkpoint is, on one page. Nothing in it is executed, no data are read, and the model is not built."""

import argparse
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from forecast.apps.common.command import Answer
from forecast.apps.common.description import sizes, slot_names
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.checkpoint.record import FORMAT
from forecast.config.allow_list import trust_words
from forecast.run_folder import read_run, run_of
from forecast.run_folder.shapes import Metrics
from forecast.text.overrides import typed
from forecast.text.terminal import label, say

WIDTH = 120
SHOWN = 20  # items of a list or a mapping
SPLIT_NAMES = {"val": "validation", "test": "test"}
CheckpointCard = dict[
    str, Any
]  # what a checkpoint and the metrics.json of its run tell, in plain values: docs/reference/json.md


def main(arguments: argparse.Namespace) -> Answer:
    """Prints the card. Raises UserError for a file that is no checkpoint."""
    card = make_card(load_checkpoint(arguments.checkpoint))
    say("\n".join(lines(card)))
    return Answer(card)


def make_card(checkpoint: Checkpoint) -> CheckpointCard:
    """The card of a checkpoint."""
    record, config, data, refit = checkpoint.record, checkpoint.config, checkpoint.data, checkpoint.refit
    calibration = record.calibration
    means, lengths = record.column_scale, sizes(checkpoint, config.model.target)
    scaler = zip(means["columns"], means["mean"], means["std"], strict=True)
    return {
        "file": str(checkpoint.path),
        "format": FORMAT,
        "bytes": checkpoint.path.stat().st_size,
        "model": str(record.choices["model"]),
        "parameters": record.parameters,
        "sizes": {k: v for k, v in config.model.node.items() if k[0] != "_" and not isinstance(v, dict)},
        "attention": slot_names(config, record.choices),
        "seed": lengths["seed"],
        "seq_len": lengths["seq_len"],
        "label_len": lengths["label_len"],
        "pred_len": lengths["pred_len"],
        "epoch": checkpoint.epoch,
        "step": checkpoint.step,
        "is_best": checkpoint.is_best,
        "imported": record.imported,
        "best_step": record.best_step,
        "refit": refit,
        "data": {"features": checkpoint.features} | {key: value for key, value in data.items() if key != "gaps"},
        "gaps": data.get("gaps"),
        "scaler": {name: {"mean": mean, "std": std} for name, mean, std in scaler},
        "intervals": calibration and {key: calibration[key] for key in ("levels", "windows", "blocks", "parts")},
        "metrics": split_errors(refit["held_out"] if refit else read_run(run_of(checkpoint.path)).metrics),
        "versions": record.versions,
        "next": next_commands(checkpoint),
    }


def split_errors(metrics: Metrics) -> dict[str, dict[str, float | None]]:
    """Of val and test the windows and the errors; empty where they are not there."""
    blocks = {split: metrics[split] for split in SPLIT_NAMES if split in metrics}
    return {split: {"windows": block["windows"], **block["scaled"]} for split, block in blocks.items()}


def next_commands(checkpoint: Checkpoint) -> list[str]:
    """What one can do with it."""
    last = checkpoint.path.with_name("last.ckpt")
    going_on = last if last.is_file() else checkpoint.path
    epochs = checkpoint.config.trainer.get("max_epochs") or checkpoint.epoch
    future = " future=FILE" if checkpoint.future_columns else ""
    commands = [
        f"forecast evaluate {trust_words()}{typed('ckpt_path', str(checkpoint.path))} split=test",
        f"forecast predict {trust_words()}{typed('ckpt_path', str(checkpoint.path))} output=forecast.csv{future}",
        f"forecast train {trust_words()}{typed('ckpt_path', str(going_on))} trainer.max_epochs={int(str(epochs)) + 1}",
    ]
    # without an optimizer nothing goes on
    return commands[:2] if checkpoint.record.imported or going_on.name == "refit.ckpt" else commands


def lines(card: CheckpointCard) -> Iterator[str]:
    """A line or a few for each entry that is not empty, then the commands."""
    whole = textwrap.TextWrapper(WIDTH, break_on_hyphens=False, break_long_words=False, subsequent_indent=" " * 14)
    for key, value in card.items():
        if key != "next" and value not in (None, {}, []):
            whole.initial_indent = f"  {key:11} "
            yield whole.fill(words(value))
    yield from (f"  {'' if position else 'next':11} {command}" for position, command in enumerate(card["next"]))


def words(value: object) -> str:
    """A value of the card: of a mapping names and values, of many items the first."""
    if isinstance(value, Mapping):
        filled = {key: part for key, part in value.items() if part not in (None, {}, [])}
        parts = [f"{label(key)} {inner(part)}" for key, part in filled.items()]
    elif isinstance(value, list):
        parts = [inner(part) for part in value]
    else:
        return f"{value:.6g}" if isinstance(value, float) else label(str(value))
    more = [f"and {len(parts) - SHOWN} more: --json shows all"] if len(parts) > SHOWN else []
    return ", ".join([*parts[:SHOWN], *more])


def inner(value: object) -> str:
    """A value within another one: several in brackets."""
    return f"({words(value)})" if isinstance(value, Mapping | list) else words(value)
