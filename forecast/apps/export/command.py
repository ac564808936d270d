"""A checkpoint as safetensors, config.json and a file that forecasts: a torch.export program or ONNX."""

import argparse
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pooch
import safetensors.torch
import torch

import forecast
from forecast.apps.export.program import FORMATS, INPUTS, file_entry
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.schema import as_annotated
from forecast.data.reading.layout import USUAL, Layout
from forecast.data.values.time_features import feature_rules
from forecast.errors import UserError
from forecast.files import together
from forecast.models.spread import Spread, StudentT
from forecast.text.terminal import say

WEIGHTS, DESCRIPTION = "model.safetensors", "config.json"
KINDS = {field.name: field.type for field in fields(Layout)}
FORMAT = 1  # of config.json; raised when an older reader could misread it
Description = dict[str, Any]  # config.json: docs/reference/exports.md


def main(arguments: argparse.Namespace) -> None:
    """Exports a checkpoint. Raises UserError when something is refused: then nothing is written."""
    out: Path = arguments.out
    checkpoint = load_checkpoint(arguments.checkpoint)
    description = export(checkpoint, out, batch=arguments.batch, format=arguments.format)
    weights, entry = description["weights"], description[arguments.format]
    sizes = ", ".join(map(str, entry["compared_on_windows"]))
    number = "any number of" if entry["windows"] is None else entry["windows"]
    say(
        f"{out}/{DESCRIPTION}\n{out}/{weights['file']}: {weights['tensors']} tensors, {weights['bytes'] / 1e6:.1f} MB\n"
        f"{out}/{entry['file']}: takes {number} windows at once, {entry['bytes'] / 1e6:.1f} MB\n"
        f"Read back, its forecasts of {sizes} windows differ from the model's by "
        f"{entry['largest_difference_scaled']:.1e} at most, scaled units."
    )


def export(checkpoint: Checkpoint, folder: Path, *, batch: int | None, format: str = "program") -> Description:
    """Writes the folder and returns its config.json.

    batch: how many windows the file takes, None for any number. format: one of FORMATS. Raises UserError for a model
    that cannot become such a file, and when the folder exists and is not empty, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is no empty folder: nothing is overwritten. Choose another name.")
    name, write = FORMATS[format]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with together(folder) as beside:
            weights = {key: part.detach().contiguous().clone() for key, part in checkpoint.model().state_dict().items()}
            beside(WEIGHTS).write_bytes(safetensors.torch.save(weights, metadata={"format": "pt"}))
            entries = {
                "weights": {**file_entry(beside(WEIGHTS), WEIGHTS), "tensors": len(weights)},
                format: {**write(checkpoint, beside(name), batch=batch), **file_entry(beside(name), name)},
            }
            description = {**description_of(checkpoint, batch), **entries}
            text = json.dumps(description, indent=2, ensure_ascii=False)
            beside(DESCRIPTION).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written: {error.strerror or error}. Make room, or choose another place."
        ) from error
    return description


def description_of(checkpoint: Checkpoint, batch: int | None) -> dict[str, object]:
    """All of config.json but its files: what the model is, of which data, and how it is called."""
    config, record, data = checkpoint.config, checkpoint.record, checkpoint.data
    reading = {key: as_annotated(config.data.node.get(key, usual), KINDS[key]) for key, usual in asdict(USUAL).items()}
    return {
        "format": FORMAT,
        "exported_by": {"forecast": forecast.__version__, "torch": str(torch.__version__)},
        "trained_by": record.versions,
        "checkpoint": {
            "sha256": pooch.file_hash(checkpoint.path),
            "epoch": checkpoint.epoch,
            "is_best": checkpoint.is_best,
        },
        **({"refit": {key: refit[key] for key in ("rows", "trained_until")}} if (refit := checkpoint.refit) else {}),
        "parameters": record.parameters,
        "chosen": record.choices,
        "seq_len": config.seq_len,
        "label_len": config.label_len,
        "pred_len": config.pred_len,
        "freq": data["freq"],
        "columns": data["columns"],
        "targets": data["targets"],
        "known": known_features(checkpoint),
        "scaler": {"mean": checkpoint.scaler.mean.tolist(), "std": checkpoint.scaler.std.tolist()},
        **({"floor": data["floor"]} if data.get("floor") else {}),
        "data": {key: data[key] for key in ("name", "checksum", "splits", "trained_until")} | reading,
        **inputs_and_output(checkpoint, "B" if batch is None else batch),
        "config": config.plain,
    }


def known_features(checkpoint: Checkpoint) -> list[dict[str, object]]:
    """How each of the F known features is made: the calendar, then columns and facts, by their names."""
    data = checkpoint.data
    rules: list[dict[str, object]] = [{**rule} for rule in feature_rules(data["freq"], checkpoint.encoding)]
    for name in data["known"][len(rules) :]:
        words = checkpoint.categories.get(name)
        rules.append({"name": name} if words is None else {"name": name, "words": words})
    return rules


def inputs_and_output(checkpoint: Checkpoint, windows: str | int) -> dict[str, object]:
    """How the model is called, float32 throughout."""
    config, data, model = checkpoint.config, checkpoint.data, checkpoint.model()
    past, future, n_columns = model.look_back, config.pred_len, model.window.n_columns
    n_known, n_targets = len(data["known"]), len(data["targets"])
    more = ""
    if n_columns < len(data["columns"]):
        more = (
            "; then the other columns of `columns`, scaled alike, a category as its place in `words` from 1"
            " (0: not among them"
        ) + (f", as {', '.join(checkpoint.hidden)} at the steps to come)" if checkpoint.hidden else ")")
    meanings = (
        ([windows, past, n_columns], "the last rows, in the order of `columns`: (value - mean) / std"),
        (
            [windows, past, n_known],
            "their calendar, in the order of `known`; each entry there says how it is made" + more,
        ),
        ([windows, future, n_known], "the calendar of the pred_len steps that follow"),
    )
    return {
        "inputs": [
            {"name": name, "shape": shape, "dtype": "float32", "meaning": meaning}
            for name, (shape, meaning) in zip(INPUTS, meanings, strict=True)
        ],
        "output": {
            "shape": [windows, future, n_targets],
            "dtype": "float32",
            "meaning": "the forecast, in the order of `targets`, scaled: value * std + mean of that column"
            + ("; no lower than its `floor`" if data.get("floor") else ""),
        },
        **({} if model.spread is None else {"spread": second_output(model.spread, [windows, future, n_targets])}),
    }


def second_output(spread: Spread, shape: list[str | int]) -> dict[str, object]:
    """What the program gives beside the forecast: the parameters of the spread, for each step and target."""
    freedom = spread.target_freedom.tolist() if isinstance(spread, StudentT) else None
    return {
        "kind": type(spread).__name__,
        "shape": [*shape, spread.n_outputs],
        "dtype": "float32",
        "names": list(spread.names),
        "meaning": "the second output, in the order of `names`, scaled: a quantile or location is value * std + mean "
        "of its column, a scale value * std",
        **({} if freedom is None else {"degrees_of_freedom": freedom}),
    }
