"""A checkpoint of the authors' Informer becomes one that evaluate and predict take."""

import argparse
from dataclasses import replace
from pathlib import Path

import pooch
from omegaconf import OmegaConf
from torch import Tensor

from forecast.apps.common.outputs import keep_others
from forecast.apps.common.training_data import read_data
from forecast.apps.import_informer2020.names import add_finer_calendar, check_names, copy_in, order_columns
from forecast.apps.import_informer2020.options import UNSEEN, as_option, overrides
from forecast.checkpoint.archive import read_torch_file
from forecast.checkpoint.load import build_model, load_checkpoint
from forecast.checkpoint.record import Record
from forecast.config import resolvers
from forecast.config.check import check_config
from forecast.config.compose import compose_config, without_hydra
from forecast.config.run_config import RunConfig
from forecast.data.frame import read_columns
from forecast.data.sources import FileSource
from forecast.errors import UserError
from forecast.evaluation.baselines import fit_baselines
from forecast.run_folder.shapes import Block
from forecast.text.overrides import typed
from forecast.text.terminal import say
from forecast.training.checkpoint import write_checkpoint
from forecast.training.record import complete_record, make_record, weights_only_content


def main(arguments: argparse.Namespace) -> None:
    """From their file to ours. Raises UserError for what the user can mend; then nothing is written."""
    keep_others(
        [arguments.output],
        ours=arguments.overwrite or is_imported(arguments.output),
        key="OUTPUT",
        like="an imported checkpoint",
        fix="choose another name, or say --overwrite",
    )
    weights = read_weights(arguments.checkpoint)
    config, choices = make_config(arguments)
    source = config.data.build(FileSource)
    last = read_columns(source.path_used())[-1]
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

    Nothing is executed: raises UserError for what would be, for a damaged file and for what is no state dict.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file. The authors' code writes checkpoints/SETTING/checkpoint.pth.")
    content = read_torch_file(path, name=str(path))
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise UserError(f"{path} holds no state dict, which is names and tensors: torch.save(model.state_dict(), FILE)")
    return {str(name).removeprefix("module."): value for name, value in content.items()}
