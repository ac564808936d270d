"""A checkpoint of the authors' Informer becomes one that evaluate and predict take."""

import argparse
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pooch
import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

from forecast.apps.common.training_data import read_data
from forecast.apps.import_informer2020.options import overrides
from forecast.checkpoint.load import read_torch_file
from forecast.checkpoint.model import build_model
from forecast.checkpoint.record import Record
from forecast.config import resolvers
from forecast.config.check import check_config
from forecast.config.compose import compose_config, without_hydra
from forecast.config.run_config import RunConfig
from forecast.data.reading.content import CsvText
from forecast.data.sources import CsvSource
from forecast.data.values.calendar import feature_names
from forecast.data.values.cells import Findings
from forecast.errors import UserError
from forecast.evaluation.baselines import fit_baselines
from forecast.layers.blocks import EncoderLayer
from forecast.layers.distil import Distil
from forecast.run_folder.shapes import Block
from forecast.text.overrides import typed
from forecast.text.terminal import say
from forecast.training.checkpoint import write_checkpoint
from forecast.training.record import complete_record, make_record, weights_only_content

FUSED = "projection.query_key_value."
TABLES = ("month", "day", "weekday", "hour", "minute")  # the frozen calendar tables, in the order of our known features
STEPS = {EncoderLayer: "attn_layers.{}.", Distil: "conv_layers.{}.", nn.LayerNorm: "norm."}
RENAMED = (
    (r"^encoder_embedding\.", "enc_embedding."),
    (r"^decoder\.embedding\.", "dec_embedding."),
    (r"\bvalues\.conv\.", "value_embedding.tokenConv."),
    (r"\bpositions$", "position_embedding.pe"),
    *((rf"\bcalendar\.table_{i}$", f"temporal_embedding.{name}_embed.emb.weight") for i, name in enumerate(TABLES)),
    (r"\bcalendar\.", "temporal_embedding.embed."),
    (r"^decoder\.head\.", "projection."),
    (r"\boutput\.", "out_projection."),
    (r"\bfeed_forward\.widen\.", "conv1."),
    (r"\bfeed_forward\.narrow\.", "conv2."),
    (r"\bconv\.", "downConv."),
)
# By their --freq; each is the end of the one before.
CALENDARS = [feature_names(freq, "timeF") for freq in ("s", "t", "h", "d")]
EMBEDDINGS = ("enc_embedding", "dec_embedding")


def main(arguments: argparse.Namespace) -> None:
    """From their file to ours. Raises UserError for what the user can mend; then nothing is written."""
    if arguments.output.exists() and not arguments.overwrite:
        raise UserError(f"{arguments.output} is there. Nothing is overwritten: choose another name, or say --overwrite")
    weights = read_weights(arguments.checkpoint)
    config, choices = make_config(arguments)
    source = config.data.build(CsvSource).located()
    path = Path(str(source.path))
    findings = Findings(str(path))
    last = CsvText(path, ",").verified(findings).header(("date",), findings)[-1]
    if arguments.data != "custom" and arguments.features == "MS" and arguments.target != last:
        raise UserError(
            f"--target {arguments.target} --features MS: of an ETT file the authors' code forecasts the last column, "
            f"{last}, whatever --target says. Say --target {last}."
        )
    data = read_data(source, config)
    record = make_record(config, choices, source, data, fit_baselines(data))
    model = build_model(config, record.data)
    added = add_finer_calendar(weights, record.data["known"])
    check_names(model, weights)
    if arguments.data == "custom":  # their loader puts the target of such a file last, and leaves ETT as it is
        their_columns = sorted(data.frame.columns, key=lambda name: name == arguments.target)
        order_columns(weights, their_columns, data.frame.columns)
    copy_in(model, weights)
    imported: Block = {"file": arguments.checkpoint.name, "sha256": pooch.file_hash(arguments.checkpoint)}
    record = complete_record(replace(record, imported=imported), model)
    write_checkpoint(arguments.output, weights_only_content(model, record))
    print_summary(arguments, record, n_names=len(weights), added=added)


def make_config(arguments: argparse.Namespace) -> tuple[RunConfig, dict[str, str | None]]:
    """The config of a training of this model, and the chosen option of each group."""
    groups, values = overrides(arguments)
    resolvers.register()
    cfg, choices = without_hydra(compose_config("train", groups, hydra=True))
    for key, value in values.items():
        OmegaConf.update(cfg, key, value)
    check_config(cfg)
    return RunConfig.composed(cfg), choices


def print_summary(arguments: argparse.Namespace, record: Record, *, n_names: int, added: list[str]) -> None:
    """Prints what was imported, which options were taken on trust, and what to do next."""
    data, output = record.data, arguments.output
    say(f"{n_names} names of {arguments.checkpoint}, {record.parameters:,} parameters, are now in {output}.")
    say(f"Data: {data['name']} ({data['path']}), {len(data['columns'])} columns in, {len(data['targets'])} forecast.")
    if added:
        say(f"Trained without {', '.join(added)} (another --freq than these data have): its weights are zero.")
    say(
        "Some options are not shown by the weights (--help has them): where one was another in training, forecasts are "
        "wrong."
    )
    word = typed("ckpt_path", str(output))
    say(f"""
Next:
  forecast evaluate {word}                          every test window
  forecast evaluate {word} protocol=informer2021    the windows that the authors count
  forecast predict {word}                           what comes after the data""")


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a state dict by their names, on the CPU, without the prefix that several GPUs give.

    Nothing is executed: raises UserError for what would be, for a damaged file and for what is no state dict.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file. The authors' code writes checkpoints/SETTING/checkpoint.pth.")
    content = read_torch_file(path, name=str(path))
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise UserError(f"{path} holds no state dict, which is names and tensors: torch.save(model.state_dict(), FILE)")
    return {str(name).removeprefix("module."): value for name, value in content.items()}


def in_their_names(module: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under our names -> views of them under the authors' names, in their shapes.

    module: what the tensors belong to (parameters, gradients, buffers), a whole Informer or a part of one.
    """
    steps = _encoder_steps(module)
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        theirs = re.sub(r"^encoder\.(encoders\.\d+\.)?\d+\.", lambda match: steps[match[0]], name)
        for pattern, new in RENAMED:
            theirs = re.sub(pattern, new, theirs)
        if FUSED in theirs:
            for which, third in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                renamed[theirs.replace(FUSED, f"{which}_projection.")] = third
        elif re.search(r"\bconv[12]\.weight$", theirs):  # a linear layer of ours, a convolution over one step of theirs
            renamed[theirs] = tensor.unsqueeze(-1)
        else:
            renamed[theirs] = tensor
    return renamed


def _encoder_steps(module: nn.Module) -> dict[str, str]:
    """Our prefix of each step of each encoder -> theirs: ours are numbered in one row, theirs kind by kind."""
    prefixes = {}
    for name, encoder in module.named_modules():
        if isinstance(encoder, nn.Sequential) and name.startswith("encoder"):
            before: Counter[str] = Counter()
            for number, step in encoder.named_children():
                kind = STEPS[type(step)]
                prefixes[f"{name}.{number}."] = f"{name}.{kind.format(before[kind])}"
                before[kind] += 1
    return prefixes


def check_names(model: nn.Module, theirs: Mapping[str, Tensor]) -> None:
    """Raises UserError unless the authors' tensors are the model's: a line for each missing, extra or misshapen one.

    The constant tables may be missing; but some of a calendar without the others are another calendar.
    """
    # sinusoids: a formula here, stored with the weights there, positions (R, D) in as many rows as are used
    buffers = {name: table for name, table in model.named_buffers() if re.search(r"\b(positions|table_\d)$", name)}
    needed, tables = in_their_names(model, model.state_dict()), in_their_names(model, buffers)
    begun = {name.split(".")[0] for name in theirs if name.endswith("_embed.emb.weight")}
    needed |= {name: table for name, table in tables.items() if "_embed." in name and name.split(".")[0] in begun}
    lines = [f"missing: {name} {_size(tensor)}" for name, tensor in needed.items() if name not in theirs]
    known = needed | tables
    lines += [f"extra: {name} {_size(tensor)}" for name, tensor in theirs.items() if name not in known]
    for name, tensor in needed.items():
        if name in theirs and name not in tables and theirs[name].shape != tensor.shape:
            lines.append(f"shape: {name} is {_size(theirs[name])}, expected {_size(tensor)}")
    if lines:
        raise UserError("\n".join(lines))


def _size(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def copy_in(module: nn.Module, theirs: Mapping[str, Tensor]) -> None:
    """Copies the authors' tensors into a module. Raises UserError, and copies nothing, unless they fit."""
    check_names(module, theirs)
    with torch.no_grad():
        for name, ours in in_their_names(module, module.state_dict()).items():
            ours.copy_(theirs[name])


def add_finer_calendar(weights: dict[str, Tensor], known: Sequence[str]) -> list[str]:
    """Weights of zero for the finer calendar features that the data have and the authors' run did not.

    Their scripts train on quarter hours with --freq h, which leaves out the minute. weights: changed in place. known:
    the F features of the data. Returns the features that were added.
    """
    added: list[str] = []
    for embedding in EMBEDDINGS:
        name = f"{embedding}.temporal_embedding.embed.weight"
        width = weights[name].shape[-1] if name in weights and weights[name].dim() == 2 else 0
        missing = len(known) - width
        if missing > 0 and tuple(known[missing:]) in CALENDARS:
            added = list(known[:missing])
            nothing = weights[name].new_zeros(len(weights[name]), missing)
            weights[name] = torch.cat([nothing, weights[name]], dim=1)
    return added


def order_columns(weights: dict[str, Tensor], theirs: Sequence[str], ours: Sequence[str]) -> None:
    """Brings weights for the columns in the authors' order into ours; changed in place.

    Their loader of custom files puts the target last. The forecast columns are ordered when all columns are forecast.
    """
    order = [theirs.index(column) for column in ours]
    for embedding in EMBEDDINGS:
        name = f"{embedding}.value_embedding.tokenConv.weight"
        weights[name] = weights[name][:, order]
    for name in ("projection.weight", "projection.bias"):
        if len(weights[name]) == len(order):
            weights[name] = weights[name][order]
