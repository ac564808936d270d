"""A checkpoint of the authors' Informer becomes one that evaluate and predict take.

Of the file of their weights, names and shapes are looked at first.
"""

import argparse
import io
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pooch
import torch
from omegaconf import OmegaConf
from torch import Tensor

from forecast.apps.common.outputs import keep_inputs, keep_others
from forecast.apps.common.training_data import read_data
from forecast.apps.import_informer2020.names import (
    add_finer_calendar,
    copy_in,
    differences,
    in_their_names,
    order_columns,
)
from forecast.apps.import_informer2020.options import UNSEEN, as_option, in_their_options, overrides
from forecast.checkpoint.archive import read_torch_file
from forecast.checkpoint.load import build_model, load_checkpoint
from forecast.checkpoint.record import RECORD, Record
from forecast.config import resolvers
from forecast.config.check import check_config
from forecast.config.compose import compose_config, without_hydra
from forecast.config.run_config import RunConfig
from forecast.data.frame import read_columns
from forecast.data.prepare import Prepared
from forecast.data.sources import FileSource
from forecast.errors import UserError, closest
from forecast.evaluation.baselines import fit_baselines
from forecast.files import replacing
from forecast.models.base import ForecastModel
from forecast.run_folder.shapes import Block
from forecast.text.overrides import typed
from forecast.text.terminal import listed, say
from forecast.training.record import complete_record, make_record, weights_only_content


def main(arguments: argparse.Namespace) -> None:
    """Imports what the arguments name."""
    try:
        import_checkpoint(arguments)
    except UserError as error:
        raise UserError(in_their_options(str(error))) from error


def import_checkpoint(arguments: argparse.Namespace) -> None:
    """From their file to ours. Raises UserError for what the user can mend; then nothing is written."""
    check_arguments(arguments)
    weights = read_weights(arguments.checkpoint)
    config, choices = make_config(arguments)
    source = config.data.build(FileSource)
    keep_inputs([arguments.output], [("the file of the data", source.path_used())], key="OUTPUT")
    check_target(arguments, source)
    data = read_data(source, config)
    check_columns(arguments, data)
    record = make_record(config, choices, source, data, fit_baselines(data))
    model = build_model(config, record.data)
    added = add_finer_calendar(weights, record.data["known"])
    check_weights(arguments, weights, model, data)
    if arguments.data == "custom":  # their loader puts the target of such a file last, and leaves ETT as it is
        their_columns = sorted(data.frame.columns, key=lambda name: name == arguments.target)
        order_columns(weights, their_columns, data.frame.columns)
    copy_in(model, weights)
    imported: Block = {"file": arguments.checkpoint.name, "sha256": pooch.file_hash(arguments.checkpoint)}
    record = complete_record(replace(record, imported=imported), model)
    write_checkpoint(arguments.output, weights_only_content(model, record), data)
    print_summary(arguments, record, n_names=len(weights), added=added)


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raises UserError for what their code can and ours cannot, and where no file can be written."""
    output = arguments.output
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise UserError(f"{output}: there is no folder {output.absolute().parent} to write a file of this name in.")
    keep_inputs([output], [("the file to import", arguments.checkpoint)], key="OUTPUT")
    keep_others(
        [output],
        ours=arguments.overwrite or is_imported(output),
        key="OUTPUT",
        like="an imported checkpoint",
        fix="choose another name, or say --overwrite",
    )
    if arguments.padding:
        raise UserError("--padding 1: the decoder of this program reads zeros in place of the future, never ones.")
    if arguments.embed == "learned":
        raise UserError("--embed learned: this program has no learned tables of the calendar, only timeF and fixed.")
    if arguments.data == "custom" and not arguments.data_path:
        raise UserError("--data custom: which file? Say --data_path FILE.csv, and --root_path FOLDER if it is there.")


def is_imported(path: Path) -> bool:
    """Whether a file is a checkpoint that this command has written."""
    try:
        return load_checkpoint(path).record.imported is not None
    except UserError:
        return False


def make_config(arguments: argparse.Namespace) -> tuple[RunConfig, dict[str, str | None]]:
    """The config of a training of this model, and the chosen option of each group."""
    groups, values = overrides(arguments)
    resolvers.register()
    cfg, choices = without_hydra(compose_config("train", groups, hydra=True))
    for key, value in values.items():
        OmegaConf.update(cfg, key, value)
    check_config(cfg)
    return RunConfig.composed(cfg), choices


def check_target(arguments: argparse.Namespace, source: FileSource) -> None:
    """Raises UserError unless the file has the target, and where their code would forecast another column."""
    path, target = source.path_used(), arguments.target
    columns = read_columns(path)
    if target not in columns:
        hint = closest(target, columns)
        raise UserError(f"--target {target}: {path} has no such column, only {listed(columns)}.{hint}")
    if arguments.data != "custom" and arguments.features == "MS" and target != columns[-1]:
        raise UserError(
            f"--target {target} --features MS: of an ETT file the authors' code forecasts the last column, "
            f"{columns[-1]}, whatever --target says. Say --target {columns[-1]}."
        )


def check_columns(arguments: argparse.Namespace, data: Prepared) -> None:
    """Raises UserError when --enc_in, --dec_in or --c_out is given and the data have another number."""
    for name, actual in column_counts(data).items():
        typed = getattr(arguments, name)
        if typed not in (None, actual):
            raise UserError(
                f"--{name} {typed}: {data.frame.name} with --features {arguments.features} has {actual}. "
                "Check --data, --data_path and --features, or leave the option out."
            )


def column_counts(data: Prepared) -> dict[str, int]:
    """The three numbers that their command gives and the data decide."""
    return {"enc_in": data.n_columns, "dec_in": data.n_columns, "c_out": len(data.targets)}


def check_weights(
    arguments: argparse.Namespace, weights: dict[str, Tensor], model: ForecastModel, data: Prepared
) -> None:
    """Raises one UserError with all names that are missing, extra or differ, and the options that look wrong."""
    wrong = differences(model, weights)
    if not wrong:
        return
    if not in_their_names(model, model.state_dict()).keys() & weights.keys():
        raise UserError(
            f"{arguments.checkpoint} is no Informer of the authors: none of its {len(weights)} names, such as "
            f"{next(iter(weights))}, is one of theirs, such as projection.weight."
        )
    seen, of_data = seen_options(weights), {**column_counts(data), "d_time": data.n_known}
    hints = [
        f"{name}: the file says {seen[name]}, {data.frame.name} with --features {arguments.features} says {number}: "
        + ("another --freq or --embed than for these data" if name == "d_time" else "check --data and --features")
        for name, number in of_data.items()
        if seen.get(name, number) != number
    ]
    of_model = {name: value for name, value in seen.items() if name not in of_data}
    options = [as_option(name, value) for name, value in of_model.items() if value != getattr(arguments, name)]
    if options:
        hints.append(f"The names and shapes in the file look like {' '.join(options)}.")
    head = f"{arguments.checkpoint} does not hold the model that these options and data make:"
    raise UserError("\n".join([head, *wrong, *hints]))


def write_checkpoint(path: Path, content: dict[str, object], data: Prepared) -> None:
    """Writes our checkpoint beside its place, forecasts with what was written, and renames it."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    try:
        with replacing(path) as unfinished:
            unfinished.write_bytes(buffer.getvalue())
            batch = data.windows("test").__getitems__(range(1))
            with torch.inference_mode():
                forecast = load_checkpoint(unfinished).model()(batch.past, batch.past_known, batch.future_known)
            if not torch.isfinite(forecast).all():
                raise UserError("The forecast of the imported model for the first test window is not finite.")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}. Make room, or choose another place.") from error


def print_summary(arguments: argparse.Namespace, record: Record, *, n_names: int, added: list[str]) -> None:
    """Prints what was imported, which options were taken on trust, and what to do next."""
    data, output = record.data, arguments.output
    say(f"{n_names} names of {arguments.checkpoint}, {record.parameters:,} parameters, are now in {output}.")
    say(f"Data: {data['name']} ({data['path']}), {len(data['columns'])} columns in, {len(data['targets'])} forecast.")
    if added:
        say(f"Trained without {', '.join(added)} (another --freq than these data have): its weights are zero.")
    trusted = " ".join(as_option(name, getattr(arguments, name)) for name in UNSEEN)
    say(f"The weights do not show these, and with a wrong one the forecasts are wrong: {trusted}")
    word = typed("ckpt_path", str(output))
    say(f"""
Next:
  forecast evaluate {word}                          every test window
  forecast evaluate {word} protocol=informer2021    the windows that the authors count
  forecast predict {word}                           what comes after the data""")


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a state dict by their names, on the CPU, without the prefix that several GPUs give.

    The state dict may lie under `state_dict` or `model`. Nothing is executed: raises UserError for what would be, for
    a damaged file and for what is no state dict.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file. The authors' code writes checkpoints/SETTING/checkpoint.pth.")
    content = read_torch_file(path, name=str(path))
    if isinstance(content, dict) and RECORD in content:
        raise UserError(f"{path} is a checkpoint of this program already: evaluate and predict take it as it is.")
    for key in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not content:
        raise UserError(f"{path} holds a {type(content).__name__}, but a state dict is needed: names and tensors.")
    for name, value in content.items():
        if not isinstance(value, Tensor):
            raise UserError(f"{path}: '{name}' is a {type(value).__name__} and no tensor: this is not a state dict.")
    return {str(name).removeprefix("module."): value for name, value in content.items()}


def seen_options(theirs: Mapping[str, Tensor]) -> dict[str, object]:
    """The authors' options that the names and shapes of a file show, those that cannot be seen left out.

    `d_time` is no option of theirs: the number of calendar features that their --freq gives.
    """
    layers = _layers_of_encoders(theirs)
    seen: dict[str, object]
    if "encoder." in layers:
        seen = {"model": "informer", "e_layers": layers["encoder."]}
    else:
        seen = {"model": "informerstack", "s_layers": list(layers.values())}
    seen["d_layers"] = len(_numbers(theirs, r"decoder\.layers\.(\d+)\."))
    if max(layers.values(), default=0) > 1:
        seen["distil"] = any(".conv_layers." in name for name in theirs)
    for option, name, axis in (
        ("d_model", "projection.weight", 1),
        ("d_ff", "decoder.layers.0.conv1.weight", 0),
        ("enc_in", "enc_embedding.value_embedding.tokenConv.weight", 1),
        ("dec_in", "dec_embedding.value_embedding.tokenConv.weight", 1),
        ("c_out", "projection.weight", 0),
        ("d_time", "enc_embedding.temporal_embedding.embed.weight", 1),
    ):
        if name in theirs and theirs[name].dim() > axis:
            seen[option] = theirs[name].shape[axis]
    calendar = {"timeF": "embed.weight", "fixed": "hour_embed.emb.weight", "learned": "hour_embed.weight"}
    for option, name in calendar.items():
        if f"enc_embedding.temporal_embedding.{name}" in theirs:
            seen["embed"] = option
    return seen


def _layers_of_encoders(theirs: Mapping[str, Tensor]) -> dict[str, int]:
    """The attention layers of each encoder, by its prefix."""
    prefixes = sorted({match[0] for name in theirs if (match := re.match(r"encoder\.(encoders\.\d+\.)?", name))})
    inside = {prefix: _numbers(theirs, rf"{re.escape(prefix)}attn_layers\.(\d+)\.") for prefix in prefixes}
    return {prefix: len(numbers) for prefix, numbers in inside.items()}


def _numbers(theirs: Mapping[str, Tensor], pattern: str) -> set[str]:
    return {match[1] for name in theirs if (match := re.match(pattern, name))}
