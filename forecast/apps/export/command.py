"""A checkpoint as safetensors, config.json and a file that forecasts: a torch.export program or ONNX."""

import argparse
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pooch
import safetensors.torch
import torch

import forecast
from forecast.apps.common.intervals import saved_calibration
from forecast.apps.export.onnx_file import write_onnx
from forecast.apps.export.program import INPUTS, file_entry, write_program
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.schema import as_annotated
from forecast.data.reading.layout import USUAL, Layout
from forecast.data.values.time_features import feature_rules
from forecast.errors import UserError
from forecast.evaluation.scored_intervals import name_of
from forecast.files import sync
from forecast.models.spread import Spread, StudentT
from forecast.report.forecasters import forecasters
from forecast.report.tables import short_number
from forecast.report.verdict import TRAIN, verdict
from forecast.run_folder import read_run, run_of
from forecast.text.documents import as_markdown
from forecast.text.terminal import harmless, say

WEIGHTS, DESCRIPTION, CARD = "model.safetensors", "config.json", "README.md"
KINDS = {field.name: field.type for field in fields(Layout)}
FORMAT = 1  # of config.json; raised when an older reader could misread it
# What each format writes beside the weights: into a folder, for so many windows at once; what it returns becomes the
# entry of config.json that is called as the format.
FORMATS: dict[str, Callable[..., Mapping[str, object]]] = {
    "program": write_program,
    "onnx": write_onnx,
}
Description = dict[str, Any]  # config.json: docs/reference/exports.md
PROGRAM_EXAMPLE = """\
```python
import torch

program = torch.export.load("model.pt2").module()  # can execute what the file holds: trust it first
forecast = program(past, past_known, future_known)  # scaled: config.json says of each how it is made
```
"""
ONNX_EXAMPLE = """\
```python
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
forecast, *ends = session.run(None, {"past": past, "time": time})  # config.json says of each what it is
```
"""


def main(arguments: argparse.Namespace) -> None:
    """Exports a checkpoint. Raises UserError when something is refused."""
    checkpoint = load_checkpoint(arguments.checkpoint)
    description = export(checkpoint, arguments.out, batch=arguments.batch, format=arguments.format)
    print_summary(arguments.out, description)


def print_summary(out: Path, description: Description) -> None:
    """Prints what was written. Raises UserError, saying why, when there is no file that forecasts."""
    weights, entry = description["weights"], description.get("program") or description["onnx"]
    say(f"{out}/README.md\n{out}/config.json")
    say(f"{out}/{weights['file']}: {weights['tensors']} tensors, {weights['bytes'] / 1e6:.1f} MB")
    if "refused" in entry:
        raise UserError(f"No {out}/{'model.pt2' if 'program' in description else 'model.onnx'}: {entry['refused']}")
    sizes = ", ".join(map(str, entry["compared_on_windows"]))
    number = "any number of" if entry["windows"] is None else entry["windows"]
    say(
        f"{out}/{entry['file']}: takes {number} windows at once, {entry['bytes'] / 1e6:.1f} MB\n"
        f"Read back, its forecasts of {sizes} windows differ from the model's by "
        f"{entry['largest_difference_scaled']:.1e} at most, scaled units."
    )


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


def model_card(checkpoint: Checkpoint, format: str, entry: Mapping[str, object]) -> str:
    """README.md of an export. format: what was written beside the weights; entry: what config.json says of it."""
    data, config, length = checkpoint.data, checkpoint.config, checkpoint.model().look_back
    model = str(checkpoint.record.choices.get("model") or type(checkpoint.model()).__name__)
    calibration, trained_by = saved_calibration(checkpoint), checkpoint.record.versions
    rows = {
        "reads": f"the last {length} rows of {_names(data['columns'])}",
        "forecasts": f"the next {config.pred_len} steps of {_names(data['targets'])}",
        "frequency": data["freq"],
        "features": checkpoint.features,
        "data": as_markdown(data["name"]),
        "trained until": checkpoint.trained_until,
        "parameters": f"{sum(weight.numel() for weight in checkpoint.weights.values()):,}",
        "intervals": "none" if calibration is None else f"at {', '.join(map(name_of, calibration.levels))} %",
        "made by": f"forecast {trained_by.get('forecast', '?')} with torch {trained_by.get('torch', '?')}; exported by "
        f"forecast {forecast.__version__}",
    }
    call = f"There is no file that forecasts: {harmless(str(entry.get('refused')))}\n"
    if "refused" not in entry:
        call = PROGRAM_EXAMPLE if format == "program" else ONNX_EXAMPLE
    parts = [
        f"# {as_markdown(model)} on {as_markdown(data['name'])}\n",
        "| | |\n|---|---|",
        *(f"| {key} | {value} |" for key, value in rows.items()),
        "\n## How good it is\n",
        *(figures(checkpoint) or ["Its run left no test figures beside it."]),
        "\n## How it is called\n",
        call,
        "## Limits\n",
        "- Its figures hold for data like those it was trained on; of a series that has moved away they say nothing.",
        "- Intervals hold their level over many forecasts, not for each one."
        if calibration
        else "- It has no intervals.",
        f"- It reads {length} rows, none missing, of the frequency {data['freq']}.",
        "- Load it only from somebody you trust: the sums in config.json say that a file is whole, not whose it is.",
    ]
    return "\n".join(parts) + "\n"


def figures(checkpoint: Checkpoint) -> list[str]:
    """The test errors beside the baselines, the coverage and the verdict of the run; nothing where there are none."""
    metrics = read_run(run_of(checkpoint.path)).metrics
    if not metrics:
        return []
    rows = [
        (f"{row.name} ({row.note})" if row.note else row.name, row.mse, row.error("scaled", "mae"))
        for row in forecasters(metrics, "test")
    ]
    levels = (metrics["test"].get("intervals") or {"levels": {}})["levels"]
    held = {level: row["coverage"] for level, row in levels.items() if row["coverage"] is not None}
    # without the command, which names a path on the machine of the training
    sentences = [harmless(text.partition(f": {TRAIN} ")[0]).rstrip(".") for text in verdict(metrics, "test")]
    which = "" if checkpoint.refit is None else ", before it was trained once more on all rows"
    covered = ", ".join(f"those of {level} % {100 * share:.0f} %" for level, share in held.items())
    return [
        f"best.ckpt of its run on the test windows{which}, in scaled units:\n",
        "| | MSE | MAE |\n|---|---|---|",
        *(f"| {as_markdown(name)} | {short_number(mse)} | {short_number(mae)} |" for name, mse, mae in rows),
        "",
        *([f"Of the truths its intervals held: {covered}.\n"] if covered else []),
        *(f"    {sentence}." for sentence in sentences),  # indented, nothing in it acts
    ]


def _names(columns: Sequence[str], most: int = 12) -> str:
    more = f" and {len(columns) - most} more" if len(columns) > most else ""
    return ", ".join(map(as_markdown, columns[:most])) + more
