"""A checkpoint as safetensors, config.json and a file that forecasts: a torch.export program or ONNX."""

import argparse
import json
import logging
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pooch
import safetensors.torch
import torch
from torch import Tensor, fx, nn
from torch.export import Dim, ExportedProgram

import forecast
from forecast.apps.common.outputs import writable
from forecast.attention.base import SeededDraws
from forecast.checkpoint.load import Checkpoint, load_checkpoint
from forecast.config.allow_list import target_nodes
from forecast.config.build import as_annotated
from forecast.data.reading.layout import USUAL, Layout
from forecast.data.values.calendar import feature_rules, is_below_a_day, time_features
from forecast.errors import UserError
from forecast.files import together
from forecast.models.base import FittedModel, ForecastModel
from forecast.models.spread import StudentT
from forecast.text.overrides import install
from forecast.text.terminal import say

WEIGHTS, DESCRIPTION = "model.safetensors", "config.json"
KINDS = {field.name: field.type for field in fields(Layout)}
FORMAT = 1  # of config.json; raised when an older reader could misread it
Description = dict[str, Any]  # config.json: docs/reference/exports.md
# Forecasts of a file and of the model may differ by so much, scaled units, on batches of these sizes.
TOLERANCE = 1e-5
BATCHES = (1, 2, 7)
INPUTS = ("past", "past_known", "future_known")
OPSET = 18  # of ONNX: the one that torch writes of itself, others are made of it
# Traced with so many windows when the program is to take any number: 0 and 1 would be taken for constants.
TRACED_WINDOWS = 3
FileEntry = dict[str, Any]  # what config.json says of a file beside it: docs/reference/exports.md


def main(arguments: argparse.Namespace) -> None:
    """Exports a checkpoint. Raises UserError when something is refused: then nothing is written."""
    out: Path = arguments.out
    checkpoint = load_checkpoint(arguments.checkpoint)
    description = export(checkpoint, out, batch=arguments.batch, format=arguments.format)
    weights, entry = description["weights"], description[arguments.format]
    say(
        f"{out}/{DESCRIPTION}\n{out}/{weights['file']}: {weights['tensors']} tensors, {weights['bytes'] / 1e6:.1f} MB\n"
        f"{out}/{entry['file']}: takes {entry['windows'] or 'any number of'} windows at once, "
        f"{entry['bytes'] / 1e6:.1f} MB\n"
        f"Read back, its forecasts of {', '.join(map(str, entry['compared_on_windows']))} windows differ from the "
        f"model's by {entry['largest_difference_scaled']:.1e} at most, scaled units."
    )


def export(checkpoint: Checkpoint, folder: Path, *, batch: int | None, format: str = "program") -> Description:
    """Writes the folder and returns its config.json.

    batch: how many windows the file takes, None for any number. format: one of FORMATS. Raises UserError for a model
    that cannot become such a file, and when the folder exists and is not empty, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is no empty folder: nothing is overwritten. Choose another name.")
    zone = checkpoint.config.data.node.get("time_zone")
    if zone not in (None, "UTC") and is_below_a_day(checkpoint.data["freq"]):
        raise UserError(
            f"the model's hours are those of the clock of data.time_zone={zone}, which no exported file follows. Train "
            "with data.time_zone=UTC."
        )
    name, write = FORMATS[format]
    with writable("another OUT"):
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
        "scaler": {"mean": checkpoint.scale.mean[0].tolist(), "std": checkpoint.scale.std[0].tolist()},
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
    spread = {}
    if model.spread is not None:
        freedom = {}
        if isinstance(model.spread, StudentT):
            freedom["degrees_of_freedom"] = model.spread.target_freedom.tolist()
        spread["spread"] = {
            "kind": type(model.spread).__name__,
            "shape": [windows, future, n_targets, model.spread.n_outputs],
            "dtype": "float32",
            "names": list(model.spread.names),
            "meaning": "the second output, in the order of `names`, scaled: a quantile or location is value * std + "
            "mean of its column, a scale value * std",
            **freedom,
        }
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
        **spread,
    }


class StoredDraws(nn.Module):
    """The draws of a sampler in evaluation as constants, one for each size that a first forward pass asks for."""

    def __init__(self, sampler: nn.Module) -> None:
        super().__init__()
        self.sampler = sampler

    def forward(self, *sizes: int | torch.device) -> Tensor:
        """What the sampler gives for these sizes and, last, a device: drawn once, then stored."""
        name = "_".join(("draw", *map(str, sizes[:-1])))
        if not hasattr(self, name):
            self.register_buffer(name, self.sampler(*sizes))
        draw: Tensor = getattr(self, name)
        return draw


class WithSpread(nn.Module):
    """A model with a spread that gives the point forecast (B, P, T) and the spread's parameters (B, P, T, O)."""

    def __init__(self, model: ForecastModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, past: Tensor, past_known: Tensor, future_known: Tensor) -> tuple[Tensor, Tensor]:
        """Past (B, L, C) scaled, past_known (B, L, F), future_known (B, P, F) -> both, scaled."""
        assert self.model.spread is not None
        parameters = self.model.predicted(past, past_known, future_known)
        return self.model.spread.point(parameters), parameters


def as_called(model: ForecastModel) -> nn.Module:
    """What becomes the program: the model; one with a spread so that the parameters of the spread come out as well."""
    return model if model.spread is None else WithSpread(model)


@torch.no_grad()
def trace(model: nn.Module, inputs: Sequence[Tensor], *, batch: int | None) -> ExportedProgram:
    """A model in evaluation mode as a program for `batch` windows, None for any number.

    Changes the model: each of its samplers becomes a `StoredDraws`.
    inputs: what the model takes, as past (B, L, C), past_known (B, L, F), future_known (B, P, F), of at least as many
    windows as are traced. Raises UserError, with torch's reason, when the model cannot be traced, and when it would
    draw random numbers.
    """
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, SeededDraws):
                module.add_module(name, StoredDraws(child))
    traced = tuple(part[: TRACED_WINDOWS if batch is None else batch] for part in inputs)
    model(*traced)  # the draws are stored now
    sizes = {0: Dim("batch", min=1)} if batch is None else None
    with warnings.catch_warnings():
        # nn.LSTM lists its weights once more as plain attributes; they are parameters and exported as such
        warnings.filterwarnings("ignore", message=r"The tensor attributes .*_flat_weights")
        try:
            program = torch.export.export(
                model, traced, dynamic_shapes=(sizes,) * len(traced) if sizes else None, strict=False
            )
        except Exception as error:  # of many kinds, by what the model does
            how = "" if batch is not None else " A fixed number of windows may do: --batch 1."
            raise UserError(f"torch.export cannot trace this model.{how} It says: {reason_of(error)}") from error
    if drawing := sorted({str(node.target) for node in program.graph.nodes if draws(node)}):
        raise UserError(
            f"its forward pass draws random numbers ({', '.join(drawing)}), so that two runs of a program would "
            "disagree. An attention must draw in a `SeededDraws` (forecast/attention/base.py)."
        )
    return program


def reason_of(error: BaseException) -> str:
    """The first lines of what torch says; errors about that one say no more than that it failed."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])[:300] or type(error).__name__


def draws(node: fx.Node) -> bool:
    """Whether a node of a graph draws random numbers. Dropout that is switched off draws none."""
    if not isinstance(node.target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    names = [argument.name for argument in node.target._schema.arguments]
    arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    if "train" in names:
        return arguments.get("train") is not False
    return "dropout_p" not in names or bool(arguments.get("dropout_p"))  # of scaled_dot_product_attention


def largest_difference(
    run: Callable[..., Tensor | Sequence[Tensor]], model: nn.Module, inputs: Sequence[Tensor], batches: Iterable[int]
) -> float:
    """How far outputs of a graph are from those of its model, scaled units, on batches of these sizes.

    inputs: as in `trace`; each batch takes the windows after those of the one before.
    """
    first, differences = 0, []
    for size in batches:
        windows = [part[first : first + size] for part in inputs]
        first += size
        with torch.no_grad():
            theirs, ours = ([out] if isinstance(out, Tensor) else out for out in (run(*windows), model(*windows)))
        differences += [(their - our).abs().max() for their, our in zip(theirs, ours, strict=True)]
    return float(torch.stack(differences).max())  # NaN if one is


def save_program(program: ExportedProgram, path: Path) -> None:
    """Writes a program as a .pt2 file."""
    for name, value in program.constants.items():
        if isinstance(value, Tensor):  # a view is written with the whole tensor behind it, and a warning
            program.constants[name] = value.clone(memory_format=torch.contiguous_format)
    with path.open("wb") as file:  # of a name that ends otherwise torch warns
        torch.export.save(program, file)


def write_program(checkpoint: Checkpoint, path: Path, *, batch: int | None) -> FileEntry:
    """Writes the program and returns what config.json says of it.

    Raises UserError when the model cannot become one, and when the program read back forecasts anything else.
    """
    windows, program = traced(checkpoint, batch)
    save_program(program, path)
    with path.open("rb") as file:
        run = torch.export.load(file).module()
    return {
        **compared(checkpoint, run, windows, batch),
        "kind": "torch.export.save; torch.export.load(...).module() runs it",
        "device": "cpu",
        "warning": "torch.export.load can execute what an archive holds: load only a file that you trust",
    }


def write_onnx(checkpoint: Checkpoint, path: Path, *, batch: int | None) -> FileEntry:
    """As `write_program`, of an ONNX file that onnxruntime runs. UserError without the packages of the extra."""
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  what torch writes ONNX by
    except ImportError as error:
        raise UserError(f"ONNX needs onnxscript and onnxruntime ({error}). Install them: {install('onnx')}") from error
    windows, program = traced(checkpoint, batch)
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # of torch, on what it has optimised
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of versions of ONNX to come
            torch.onnx.export(
                program,
                (),
                path,
                input_names=INPUTS,
                opset_version=OPSET,
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    except Exception as error:  # of many kinds, by what the model does
        raise UserError(
            f"torch.onnx cannot write this model. It says: {reason_of(error)}. Export it with --format program."
        ) from error
    finally:
        logging.disable(before)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(*windows: Tensor) -> list[Tensor]:
        parts = zip(INPUTS, windows, strict=True)
        return [torch.from_numpy(part) for part in session.run(None, {name: part.numpy() for name, part in parts})]

    return {**compared(checkpoint, run, windows, batch), "opset": OPSET}


# Of each format the file beside the weights, and what writes it for so many windows at once; what that returns becomes
# the entry of config.json that is called as the format.
FORMATS: dict[str, tuple[str, Callable[..., FileEntry]]] = {
    "program": ("model.pt2", write_program),
    "onnx": ("model.onnx", write_onnx),
}


def traced(checkpoint: Checkpoint, batch: int | None) -> tuple[tuple[Tensor, ...], ExportedProgram]:
    """Windows of noise on which a file is compared with its model, and the model's program."""
    check_has_graph(checkpoint)
    windows = noise_windows(checkpoint, max(sum(sizes_of(batch)), TRACED_WINDOWS))
    return windows, trace(as_called(checkpoint.model()), windows, batch=batch)


def check_has_graph(checkpoint: Checkpoint) -> None:
    """UserError for a model that has no one answer, or whose forecast is no graph."""
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


def sizes_of(batch: int | None) -> tuple[int, ...]:
    """The sizes of the batches on which a file is compared with its model."""
    return BATCHES if batch is None else (batch,) * len(BATCHES)


def compared(
    checkpoint: Checkpoint, run: Callable[..., Sequence[Tensor]], windows: Sequence[Tensor], batch: int | None
) -> FileEntry:
    """What config.json says of a file that forecasts; UserError where it forecasts anything else than the model."""
    sizes = sizes_of(batch)
    difference = largest_difference(run, as_called(checkpoint.model()), windows, sizes)
    if not difference <= TOLERANCE:  # NaN too
        raise UserError(
            f"forecasts of the exported file are {difference:.1e} away from the model's, scaled units; "
            f"{TOLERANCE:.0e} is allowed. Use the checkpoint."
        )
    # windows null: any number
    return {"windows": batch, "largest_difference_scaled": difference, "compared_on_windows": list(sizes)}


def noise_windows(checkpoint: Checkpoint, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Windows of noise with a real calendar, in float32.

    Past (B, L, C) scaled, past_known (B, L, F), future_known (B, P, F), B = count. What is known beside the calendar is
    noise too, a category one of its numbers.
    """
    window, seq_len = checkpoint.model().window, checkpoint.model().look_back
    freq = checkpoint.data["freq"]
    times = pd.date_range("1700-01-01", periods=count + seq_len + checkpoint.config.pred_len - 1, freq=freq)
    features = time_features(times, freq, encoding=checkpoint.encoding).astype(np.float32)
    generator = torch.Generator().manual_seed(0)
    past = torch.randn(count, seq_len, window.n_columns, generator=generator)
    padded = torch.zeros(len(times), window.n_known - features.shape[1] - len(window.covariates))
    padded[: seq_len // 2] = 1.0  # half of the first window, less of the others
    others = [
        torch.randint(size, (len(times), 1), generator=generator).float()
        if size
        else torch.randn(len(times), 1, generator=generator)
        for size in window.covariates
    ]
    known = torch.cat([torch.from_numpy(features), padded, *others], dim=1)
    places = torch.arange(count).unsqueeze(1) + torch.arange(seq_len + checkpoint.config.pred_len)
    windows = known[places]  # (B, L + P, F)
    return past, windows[:, :seq_len].contiguous(), windows[:, seq_len:].contiguous()


def file_entry(path: Path, name: str) -> FileEntry:
    """What config.json says of a file, of that name, beside it."""
    return {"file": name, "sha256": pooch.file_hash(path), "bytes": path.stat().st_size}
