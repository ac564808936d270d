"""A checkpoint for use without this package: weights as safetensors, a description as JSON, a torch.export program."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pooch
import safetensors.torch
import torch
from torch import Tensor
from typing_extensions import TypedDict, final

import forecast
from forecast.apps.export.program import (
    INPUTS,
    TRACED_WINDOWS,
    as_called,
    largest_difference,
    load_program,
    save_program,
    trace,
)
from forecast.checkpoint.load import Checkpoint
from forecast.config.allow_list import target_nodes
from forecast.config.annotations import as_annotated
from forecast.data.reading.layout import USUAL, Layout
from forecast.data.values.frequency import future_timestamps, past_timestamps
from forecast.data.values.time_features import feature_rules, time_features
from forecast.errors import UserError
from forecast.files import sync
from forecast.models.base import FittedModel
from forecast.models.spread import Spread, StudentT

WEIGHTS, PROGRAM, DESCRIPTION = "model.safetensors", "model.pt2", "config.json"
KINDS = {field.name: field.type for field in fields(Layout)}
FORMAT = 1  # of config.json; raised when an older reader could misread it
# Forecasts of the program and of the model may differ by so much, scaled units, on batches of these sizes.
TOLERANCE = 1e-5
BATCHES = (1, 2, 7)


class FileEntry(TypedDict):
    """What config.json says of a file beside it."""

    file: str
    sha256: str
    bytes: int


class WeightsEntry(FileEntry):
    """Of the weights."""

    tensors: int


@final
class ProgramEntry(FileEntry):
    """Of the program. windows: how many it takes, None for any number."""

    kind: str
    device: str
    windows: int | None
    largest_difference_scaled: float
    compared_on_windows: list[int]
    warning: str


@final
class NoProgram(TypedDict):
    """Why there is none."""

    refused: str


class Description(TypedDict):
    """Config.json, of which the entries on the two files are named here."""

    weights: WeightsEntry
    program: ProgramEntry | NoProgram


def export(checkpoint: Checkpoint, folder: Path, *, batch: int | None) -> Description:
    """Writes the folder and returns its config.json.

    batch: how many windows the program takes, None for any number. Of a model that cannot become a program, weights and
    description are written, and the description's `program.refused` says why.
    Raises UserError when the folder exists and is not empty, or cannot be written: then nothing is.
    """
    with new_folder(folder) as unfinished:
        model = checkpoint.model()
        weights = {name: tensor.detach().contiguous().clone() for name, tensor in model.state_dict().items()}
        (unfinished / WEIGHTS).write_bytes(safetensors.torch.save(weights, metadata={"format": "pt"}))
        of_weights: WeightsEntry = {**file_entry(unfinished / WEIGHTS), "tensors": len(weights)}
        program: ProgramEntry | NoProgram
        try:
            program = write_program(checkpoint, unfinished / PROGRAM, batch=batch)
        except UserError as refusal:
            (unfinished / PROGRAM).unlink(missing_ok=True)
            program = {"refused": str(refusal)}
        description = {**description_of(checkpoint, batch), "weights": of_weights, "program": program}
        text = json.dumps(description, indent=2, ensure_ascii=False)
        (unfinished / DESCRIPTION).write_text(text + "\n", encoding="utf-8")
    return cast(Description, description)


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
        for path in unfinished.iterdir():
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


def write_program(checkpoint: Checkpoint, path: Path, *, batch: int | None) -> ProgramEntry:
    """Writes the program and returns what config.json says of it.

    Raises UserError when the model cannot become one, and when the program read back forecasts anything else.
    """
    nodes = target_nodes(checkpoint.config.model.node, "model")
    if unseeded := [f"{key}.eval_seed" for key, node in nodes if node.get("eval_seed", 0) is None]:
        raise UserError(
            f"{', '.join(unseeded)}: null, so that attention draws fresh random numbers in each forecast: the "
            "checkpoint has no one answer that a program could give. Train with eval_seed=0."
        )
    model = checkpoint.model()
    if isinstance(model, FittedModel) and model.fits_each_window:
        raise UserError(
            f"{type(model).__name__} is fitted anew to each window, by a package that no program can hold. Forecast "
            "with forecast predict, or train model=ridge, which is one linear map."
        )
    sizes = BATCHES if batch is None else (batch,) * len(BATCHES)
    windows = noise_windows(checkpoint, max(sum(sizes), TRACED_WINDOWS))
    save_program(trace(as_called(model), windows, batch=batch), path)
    difference = largest_difference(load_program(path), as_called(checkpoint.model()), windows, sizes)
    if not difference <= TOLERANCE:  # NaN too
        raise UserError(
            f"the program's forecasts are {difference:.1e} away from the model's, scaled units; {TOLERANCE:.0e} is "
            "allowed. Use the weights."
        )
    return {
        **file_entry(path),
        "kind": "torch.export.save; torch.export.load(...).module() runs it",
        "device": "cpu",
        "windows": batch,  # null: any number
        "largest_difference_scaled": difference,
        "compared_on_windows": list(sizes),
        "warning": "torch.export.load can execute what an archive holds: load only a file that you trust",
    }


def noise_windows(checkpoint: Checkpoint, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Windows of noise that begin after the rows trained on, with their real calendar, in float32.

    Past (B, L, C) scaled, past_known (B, L, F), future_known (B, P, F), B = count.
    """
    config, data = checkpoint.config, checkpoint.data
    seq_len = checkpoint.model().look_back
    length = seq_len + config.pred_len
    until, needed = pd.Timestamp(data["trained_until"]), count + length - 1
    try:
        times = future_timestamps(until, data["freq"], needed)
    except UserError:  # years lead past the last one of pandas: those before are as good
        times = past_timestamps(until, data["freq"], needed)
    known = time_features(times, data["freq"], encoding=checkpoint.encoding).astype(np.float32)
    calendars = torch.from_numpy(known)[torch.arange(count).unsqueeze(1) + torch.arange(length)]  # (B, L + P, F)
    generator = torch.Generator().manual_seed(0)
    past = torch.randn(count, seq_len, len(data["columns"]), generator=generator)
    return past, calendars[:, :seq_len].contiguous(), calendars[:, seq_len:].contiguous()


def description_of(checkpoint: Checkpoint, batch: int | None) -> dict[str, object]:
    """All of config.json but the two files: what the model is, of which data, and how it is called."""
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
        "known": feature_rules(data["freq"], checkpoint.encoding),
        "scaler": {"mean": checkpoint.scaler.mean.tolist(), "std": checkpoint.scaler.std.tolist()},
        **({"floor": data["floor"]} if data.get("floor") else {}),
        "data": {key: data[key] for key in ("name", "checksum", "splits", "trained_until")} | reading,
        **inputs_and_output(checkpoint, "B" if batch is None else batch),
        "config": config.plain,
    }


def inputs_and_output(checkpoint: Checkpoint, windows: str | int) -> dict[str, object]:
    """How the model is called, float32 throughout."""
    config, data, model = checkpoint.config, checkpoint.data, checkpoint.model()
    past, future = model.look_back, config.pred_len
    n_columns, n_known, n_targets = (len(data[key]) for key in ("columns", "known", "targets"))
    meanings = (
        ([windows, past, n_columns], "the last rows, in the order of `columns`: (value - mean) / std"),
        ([windows, past, n_known], "their calendar, in the order of `known`; each entry there says how it is made"),
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


def file_entry(path: Path) -> FileEntry:
    """What config.json says of a file beside it."""
    return {"file": path.name, "sha256": pooch.file_hash(path), "bytes": path.stat().st_size}
