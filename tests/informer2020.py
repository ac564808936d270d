"""Where the parameters of the authors' Informer (Informer2020 at 29f2a73) lie in ours."""

import re

from torch import nn

QKV = {"query_projection": 0, "key_projection": 1, "value_projection": 2}
RENAMED = [
    (r"^enc_embedding\.", "encoder_embedding."),
    (r"^dec_embedding\.", "decoder_embedding."),
    (r"value_embedding\.tokenConv", "values.conv"),
    (r"temporal_embedding\.embed", "calendar"),
    (r"^decoder\.layers\.", "decoder."),
    (r"^decoder\.norm\.", "decoder_norm."),
    (r"^projection\.", "head."),
    (r"(query|key|value)_projection", "projection.query_key_value"),
    (r"out_projection", "output"),
    (r"\bconv1\.", "feed_forward.widen."),
    (r"\bconv2\.", "feed_forward.narrow."),
    (r"downConv", "conv"),
]


def our_name(name: str, *, encoder_layers: int | list[int], distil: bool) -> str:
    """Our name of the tensor that holds theirs, whole or as a third; encoder_layers: of each encoder of a stack."""
    step = 2 if distil else 1
    if stacked := re.match(r"encoder\.encoders\.(\d+)\.", name):
        encoder, encoder_layers = stacked[0], encoder_layers[int(stacked[1])]
    else:
        encoder = "encoder."
    if name.startswith(encoder):
        inside = name.removeprefix(encoder)
        inside = re.sub(r"^attn_layers\.(\d+)", lambda m: f"{step * int(m[1])}", inside)
        inside = re.sub(r"^conv_layers\.(\d+)", lambda m: f"{2 * int(m[1]) + 1}", inside)
        inside = re.sub(r"^norm\.", f"{step * encoder_layers - (step - 1)}.", inside)
        name = encoder + inside
    for pattern, new in RENAMED:
        name = re.sub(pattern, new, name)
    return name


def part(tensor, name):
    """The third of a fused projection that their name means; any other tensor whole."""
    for key, third in QKV.items():
        if key in name:
            return tensor.chunk(3)[third]
    return tensor


def theirs(tensors, names, **layout):
    """Our tensors (by our names) under their names: {name: tensor}."""
    return {name: part(tensors[our_name(name, **layout)], name) for name in names}


def load(module: nn.Module, params, **layout):
    """Copies their parameters into our module; every tensor of ours must be set."""
    import torch

    state = {key: value.clone() for key, value in module.state_dict().items()}
    left = set(state)
    with torch.no_grad():
        for name, value in params.items():
            ours = our_name(name, **layout)
            target = part(state[ours], name)
            target.copy_(torch.from_numpy(value).reshape(target.shape))
            left.discard(ours)
    assert not left, f"not in the reference file: {left}"
    module.load_state_dict(state)
