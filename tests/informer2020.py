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


def our_name(name: str, *, encoder_layers: int, distil: bool) -> str:
    """Our name of the tensor that holds theirs, whole or as a third."""
    step = 2 if distil else 1
    name = re.sub(r"^encoder\.attn_layers\.(\d+)", lambda m: f"encoder.{step * int(m[1])}", name)
    name = re.sub(r"^encoder\.conv_layers\.(\d+)", lambda m: f"encoder.{2 * int(m[1]) + 1}", name)
    name = re.sub(r"^encoder\.norm\.", f"encoder.{step * encoder_layers - (step - 1)}.", name)
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
