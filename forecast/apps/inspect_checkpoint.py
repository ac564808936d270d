"""What a checkpoint is, on one page. Nothing in it is executed, no data are read, and the model is not built."""

import argparse
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from forecast.apps.common.command import Answer
from forecast.apps.common.description import sizes, slot_names
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.checkpoint.record import FORMAT
from forecast.config.trust import as_typed
from forecast.evaluation.scored_intervals import name_of
from forecast.run_folder import read_run, run_of
from forecast.run_folder.shapes import Metrics
from forecast.text.overrides import typed
from forecast.text.terminal import label, listed, say

WIDTH = 120
SHOWN = 8  # columns that are named, and rows of the scaler's table
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
        f"forecast evaluate {as_typed()}{typed('ckpt_path', str(checkpoint.path))} split=test",
        f"forecast predict {as_typed()}{typed('ckpt_path', str(checkpoint.path))} output=forecast.csv{future}",
        f"forecast train {as_typed()}{typed('ckpt_path', str(going_on))} trainer.max_epochs={int(str(epochs)) + 1}",
    ]
    # without an optimizer nothing goes on
    return commands[:2] if checkpoint.record.imported or going_on.name == "refit.ckpt" else commands


def lines(card: CheckpointCard) -> Iterator[str]:
    """The card in at most about forty lines."""
    data = card["data"]
    yield f"{card['file']}: format {card['format']}, {card['bytes'] / 1e6:.1f} MB"
    yield row("model", f"{label(card['model'])}, {number(card['parameters'])} parameters")
    yield row("sizes", words(card["sizes"]))
    yield row("attention", words(card["attention"]) or "none")
    yield row(
        "lengths", words({key: card[key] for key in ("seq_len", "label_len", "pred_len") if card[key] is not None})
    )
    yield row("trained", f"{words({key: card[key] for key in ('epoch', 'step', 'seed')})}; {best(card)}")
    path = f", {data['path']}" if data["path"] else ""
    yield row("data", f"{label(data['name'])}, checksum {label(data['checksum'])}{path}")
    yield row("columns", f"{named(data['columns'])}; every {data['freq']}")
    yield row("targets", f"{named(data['targets'])}; features {data['features']}")
    yield row("known", named(data["known"]))
    splits = {name: f"{start} to {stop - 1}" for name, (start, stop) in data["splits"].items()}
    if data["series"]["count"] > 1:
        yield row("series", words({key: value for key, value in data["series"].items() if key != "left_out"}))
        yield row("windows", f"{words(data['windows'])}; trained until {data['trained_until']}")
    else:
        yield row("rows", f"{words(splits)}; trained until {data['trained_until']}")
    if refit := card["refit"]:
        more = f"trained once more on {listed(refit['rows'])}, until {refit['trained_until']}"
        yield row("refit", f"{more}; the errors below are those of the held-out model, best.ckpt")
    if card["gaps"]:
        yield row("gaps", words({key: value for key, value in card["gaps"].items() if not isinstance(value, dict)}))
    if intervals := card["intervals"]:
        crossed = ", each half by the epoch that the other chose" if intervals["parts"] > 1 else ""
        of = (
            f"{number(intervals['windows'])} validation windows, {number(intervals['blocks'])} without overlap{crossed}"
        )
        yield row("intervals", f"{', '.join(map(name_of, intervals['levels']))} %, calibrated on {of}")
    for split, errors in card["metrics"].items():
        scores = f"MSE {errors['mse']:.4f}, MAE {errors['mae']:.4f}, scaled, {number(errors['windows'])} windows"
        yield row(SPLIT_NAMES[split], f"{scores}; of best.ckpt")
    yield row("versions", words(card["versions"]))
    yield row("scaler", f"{'column':24} {'mean':>12} {'std':>12}")
    for name, values in list(card["scaler"].items())[:SHOWN]:
        yield row("", f"{label(name):24} {values['mean']:12.5g} {values['std']:12.5g}")
    if len(card["scaler"]) > SHOWN:
        yield row("", f"and {len(card['scaler']) - SHOWN} more; --json shows all")
    yield from (f"  {'' if position else 'next':11} {command}" for position, command in enumerate(card["next"]))


def row(name: str, text: str) -> str:
    """One line of the card, or more where it is long; names of files stay whole, to be copied."""
    whole = textwrap.TextWrapper(WIDTH, break_on_hyphens=False, break_long_words=False)
    whole.initial_indent, whole.subsequent_indent = f"  {name:11} ", " " * 14
    return whole.fill(text)


def words(values: Mapping[str, object]) -> str:
    """Names and values in one line."""
    return listed(f"{name} {value}" for name, value in values.items())


def named(names: list[str]) -> str:
    """How many names, and the first of them."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{len(names)}: {listed(names[:SHOWN])}{more}" if names else "none"


def number(value: float | None) -> str:
    """A number with its thousands apart."""
    return "?" if value is None else f"{value:,}"


def best(card: CheckpointCard) -> str:
    """Whether it is the best checkpoint of its run."""
    if card["imported"]:
        return f"imported from {label(card['imported']['file'])}"
    if card["refit"]:
        return "so far as the best of its run"
    if card["is_best"]:
        return "the best of its run so far"
    step = card["best_step"]
    return "no validation so far" if step is None else f"not the best of its run, which was at step {step}"
