"""The one place that maps the authors' names of tensors, and their order of columns, to ours.

The command import-informer2020 reads their checkpoints with it, and the tests their reference tensors.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from forecast.data.values.time_features import feature_names
from forecast.errors import UserError
from forecast.layers.blocks import EncoderLayer
from forecast.layers.distil import Distil

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
