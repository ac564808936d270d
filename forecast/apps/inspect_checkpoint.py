"""What a checkpoint is, as JSON. Nothing in it is executed, no data are read, and the model is not built."""

import argparse

from forecast.apps.common.command import Answer
from forecast.apps.common.page import sizes, slot_names
from forecast.checkpoint.load import load_checkpoint
from forecast.checkpoint.record import FORMAT
from forecast.run_folder import read_run, run_of
from forecast.run_folder.shapes import Metrics
from forecast.text.terminal import json_text, say


def main(arguments: argparse.Namespace) -> Answer:
    """Prints what a checkpoint and the metrics.json of its run tell. Raises UserError for a file that is none."""
    checkpoint = load_checkpoint(arguments.checkpoint)
    record, config, data, refit = checkpoint.record, checkpoint.config, checkpoint.data, checkpoint.refit
    calibration = record.calibration
    means, lengths = record.column_scale, sizes(checkpoint, config.model.target)
    metrics: Metrics = refit["held_out"] if refit else read_run(run_of(checkpoint.path)).metrics
    errors = {split: metrics[split] for split in ("val", "test") if split in metrics}
    scaler = zip(means["columns"], means["mean"], means["std"], strict=True)
    card = {
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
        "metrics": {split: {"windows": block["windows"], **block["scaled"]} for split, block in errors.items()},
        "versions": record.versions,
    }
    say(json_text(card))
    return Answer(card)
