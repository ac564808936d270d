"""The options of the authors' training command, and what they are in our config."""

import argparse
from pathlib import Path

DATA = ("ETTh1", "ETTh2", "ETTm1", "ETTm2", "custom")
# Which key of our config an option decides.
KEYS = {
    **{name: name for name in ("seq_len", "label_len", "pred_len")},
    **{name: f"data.{name}" for name in ("features", "target", "batch_size")},
    **{name: f"model.{name}" for name in ("d_model", "n_heads", "d_ff", "dropout", "activation", "distil", "mix")},
    "e_layers": "model.encoder_layers",
    "s_layers": "model.stack_layers",
    "d_layers": "model.decoder_layers",
    "embed": "model.embedding",
    "factor": "attention.mechanism.factor",
}
# Of these a wrong value gives wrong forecasts, and nothing in the weights contradicts it.
UNSEEN = ("seq_len", "label_len", "pred_len", "attn", "factor", "n_heads", "activation", "mix")
# How a model was trained and on which machine; freq and the numbers of columns are those of the weights and the data.
UNUSED = (
    *("freq", "checkpoints", "itr", "train_epochs", "patience", "learning_rate", "des", "loss", "lradj"),
    *("num_workers", "use_gpu", "gpu", "devices", "enc_in", "dec_in", "c_out"),
)
UNUSED_FLAGS = ("output_attention", "do_predict", "inverse", "use_amp", "use_multi_gpu")


# Their options by their defaults (main_informer.py at 29f2a73); of those with a choice what ours can take of it.
DEFAULTS: dict[str, str | int | float] = {
    "model": "informer",
    "features": "M",
    "target": "OT",
    "seq_len": 96,
    "label_len": 48,
    "pred_len": 24,
    "batch_size": 32,
    "d_model": 512,
    "n_heads": 8,
    "e_layers": 2,
    "d_layers": 1,
    "d_ff": 2048,
    "factor": 5,
    "padding": 0,
    "dropout": 0.05,
    "attn": "prob",
    "embed": "timeF",
    "activation": "gelu",
}
CHOICES: dict[str, tuple[str | int, ...]] = {
    "model": ("informer", "informerstack"),
    "features": ("M", "S", "MS"),
    "padding": (0,),
    "attn": ("prob", "full"),
    "embed": ("timeF", "fixed"),
    "activation": ("gelu", "relu"),
}


def add_import_options(parser: argparse.ArgumentParser) -> None:
    """Two files, then the authors' options with their defaults."""
    parser.add_argument("checkpoint", type=Path, help="their checkpoint.pth: a state dict")
    parser.add_argument("output", type=Path, help="our checkpoint, written anew")
    parser.add_argument("--overwrite", action="store_true", help="replaces a file of this name")
    group = parser.add_argument_group("as in their command, with which the model was trained")
    group.add_argument("--data", required=True, choices=DATA, help="custom: any other file, also WTH and ECL")
    group.add_argument("--root_path", type=Path, help="the folder of the file (default: FORECAST_DATA; custom: here)")
    group.add_argument("--data_path", type=Path, help="the file in it (default: DATA.csv)")
    for name, default in DEFAULTS.items():
        unseen = ", which the weights do not show" * (name in UNSEEN)
        text = f"{KEYS.get(name, name)} (default {default}){unseen}"
        group.add_argument(f"--{name}", default=default, type=type(default), choices=CHOICES.get(name), help=text)
    group.add_argument(
        "--s_layers",
        type=lambda text: [int(number) for number in text.split(",")],
        default=[3, 2, 1],
        metavar="N,N",
        help="layers of each encoder of an informerstack (default 3,2,1)",
    )
    group.add_argument("--distil", action="store_false", help="switches distilling OFF, as in their command")
    group.add_argument("--mix", action="store_false", help="given, heads are NOT mixed, as in their command")
    unused = parser.add_argument_group(
        "taken, so that their command can be pasted, and not used",
        ", ".join(f"--{name}" for name in UNUSED + UNUSED_FLAGS),
    )
    for name in UNUSED + UNUSED_FLAGS:
        action = "store_true" if name in UNUSED_FLAGS else "store"
        unused.add_argument(f"--{name}", help=argparse.SUPPRESS, default=argparse.SUPPRESS, action=action)


def overrides(arguments: argparse.Namespace) -> tuple[list[str], dict[str, object]]:
    """The options of our config groups, and the values of our keys."""
    stack, custom, full = arguments.model == "informerstack", arguments.data == "custom", arguments.attn == "full"
    groups = [f"model={'informer_stack' if stack else 'informer2020'}", f"data={'csv' if custom else arguments.data}"]
    groups += ["attention=full"] * full
    foreign = {"e_layers" if stack else "s_layers"} | ({"factor"} if full else set())
    values = {key: getattr(arguments, name) for name, key in KEYS.items() if name not in foreign}
    folder = arguments.root_path
    if arguments.data_path:
        values["data.path"] = str(folder / arguments.data_path if folder else arguments.data_path)
    elif folder:
        values["data.root"] = str(folder)
    return groups, values
