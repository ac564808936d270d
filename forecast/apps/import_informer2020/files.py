"""Reading a file of the authors' weights, and what its names and shapes tell."""

import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from forecast.checkpoint.archive import read_torch_file
from forecast.checkpoint.record import RECORD
from forecast.errors import UserError


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a state dict by their names, on the CPU, without the prefix that several GPUs give.

    The state dict may lie under `state_dict` or `model`. Nothing is executed: raises UserError for what would be, for
    a damaged file and for what is no state dict.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file. The authors' code writes checkpoints/SETTING/checkpoint.pth.")
    trusted = "Where you trust the file, save the state dict alone: torch.save(model.state_dict(), FILE)."
    content = read_torch_file(
        path, name=str(path), kind="a file of torch.save", if_damaged="Copy it again.", if_hostile=trusted
    )
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
