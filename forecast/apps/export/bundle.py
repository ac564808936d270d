"""A checkpoint for use without this package: weights as safetensors, a description as JSON, a file that forecasts."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pooch
import safetensors.torch
import torch

import forecast
from forecast.apps.common.mlflow_folder import write_mlflow
from forecast.apps.export.card import model_card
from forecast.apps.export.onnx_file import write_onnx
from forecast.apps.export.program import INPUTS, file_entry, write_program
from forecast.checkpoint.load import Checkpoint
from forecast.config.schema import as_annotated
from forecast.data.reading.layout import USUAL, Layout
from forecast.data.values.time_features import feature_rules
from forecast.errors import UserError
from forecast.files import sync
from forecast.models.spread import Spread, StudentT

WEIGHTS, DESCRIPTION, CARD = "model.safetensors", "config.json", "README.md"
KINDS = {field.name: field.type for field in fields(Layout)}
FORMAT = 1  # of config.json; raised when an older reader could misread it
# What each format writes beside the weights: into a folder, for so many windows at once; what it returns becomes the
# entry of config.json that is called as the format.
FORMATS: dict[str, Callable[..., Mapping[str, object]]] = {
    "program": write_program,
    "onnx": write_onnx,
    "mlflow": write_mlflow,
}


Description = dict[str, Any]  # config.json: docs/reference/exports.md


def export(checkpoint: Checkpoint, folder: Path, *, batch: int | None, format: str = "program") -> Description:
    """Writes the folder and returns its config.json.

    batch: how many windows the file takes, None for any number. format: one of FORMATS. Of a model that cannot become
    such a file, weights and description are written, and the description's `FORMAT.refused` says why.
    Raises UserError when the folder exists and is not empty, or cannot be written: then nothing is.
    """
    with new_folder(folder) as unfinished:
        weights = {name: part.detach().contiguous().clone() for name, part in checkpoint.model().state_dict().items()}
        (unfinished / WEIGHTS).write_bytes(safetensors.torch.save(weights, metadata={"format": "pt"}))
        of_weights = {**file_entry(unfinished / WEIGHTS), "tensors": len(weights)}
        try:
            entry = FORMATS[format](checkpoint, unfinished, batch=batch)
        except UserError as refusal:
            for path in {*unfinished.iterdir()} - {unfinished / WEIGHTS}:
                path.unlink()  # half a file, of one that forecasts otherwise the whole
            entry = {"refused": str(refusal)}
        description = {**description_of(checkpoint, batch), "weights": of_weights, format: entry}
        text = json.dumps(description, indent=2, ensure_ascii=False)
        (unfinished / DESCRIPTION).write_text(text + "\n", encoding="utf-8")
        (unfinished / CARD).write_text(model_card(checkpoint, format, entry), encoding="utf-8")
    return description


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` that takes its name at the end, so that half an export never has it.

    Raises UserError when `folder` exists and is not empty, or cannot be made.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is no empty folder: nothing is overwritten. Choose another name.")
    unfinished = folder.absolute().with_name(f".{folder.absolute().name}.{os.getpid()}.part")
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        for path in unfinished.rglob("*"):
            sync(path)
        sync(unfinished)
        unfinished.replace(folder)
        sync(folder.absolute().parent)
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written: {error.strerror or error}. Make room, or choose another place."
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


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
