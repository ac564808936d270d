"""What a small model is called with, and the same weights for models that differ in a key."""

import torch
from models.small import WINDOW, window_shape

B = 2


def batch(changes=WINDOW, seed=0, dtype=torch.float32):
    """Past (B, L, C), its known features (B, L, F), those of the future (B, P, F)."""
    s = {**WINDOW, **changes}
    generator = torch.Generator().manual_seed(seed)
    past = torch.randn(B, s["seq_len"], s["n_columns"], generator=generator, dtype=dtype)
    known = torch.rand(B, s["seq_len"] + s["pred_len"], s["n_known"], generator=generator, dtype=dtype) - 0.5
    return past, known[:, : s["seq_len"]], known[:, s["seq_len"] :]


def make_model(model, sizes, changes):
    """A model of these sizes, its keys and its window changed, from one seed."""
    window = window_shape(**{key: value for key, value in changes.items() if key in WINDOW})
    torch.manual_seed(3)
    return model(window=window, **{**sizes, **{key: value for key, value in changes.items() if key not in WINDOW}})


def draw_norms(model):
    """Random weights for the norms, which are all alike in a fresh model."""
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return model


def copy_layer(theirs, ours, *, attentions):
    """One of torch's layers with the weights of ours; attentions: ours, by torch's names."""
    for name, attention in attentions.items():
        their = getattr(theirs, name)
        their.in_proj_weight.data.copy_(attention.projection.query_key_value.weight)
        their.in_proj_bias.data.copy_(attention.projection.query_key_value.bias)
        their.out_proj.load_state_dict(attention.output.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward.widen.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.narrow.state_dict())
    for norm in ("norm1", "norm2", "norm3")[: 1 + len(attentions)]:
        getattr(theirs, norm).load_state_dict(getattr(ours, norm).state_dict())
    return theirs.train()  # in evaluation torch takes another way, which warns


def reached(model, name, step=slice(None)):
    """Which forecast steps change when an input changes at `step`: (P,), True where all windows and columns do."""
    inputs = dict(zip(("past", "past_known", "future_known"), batch(), strict=True))
    before = model.eval()(**inputs)
    inputs[name] = inputs[name].clone()
    inputs[name][:, step] += 0.5
    changed = (model(**inputs) - before).abs() > 1e-6
    assert torch.equal(changed.all(0).all(-1), changed.any(0).any(-1))
    return changed.all(0).all(-1).tolist()
