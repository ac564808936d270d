"""Our attention, layers and model agree with the authors' code on its own tensors (--golden DIR; README there)."""

import math
from functools import partial

import pytest
import torch
from attention import lsh_oracle
from informer2020 import config_of, samples, tensors, use_samples
from torch import nn

from forecast.apps.import_informer2020.command import copy_in, in_their_names
from forecast.attention.full import FullAttention
from forecast.attention.logsparse import LogSparseAttention
from forecast.attention.lsh import LshAttention, sorted_steps
from forecast.attention.prob_informer2020 import Informer2020ProbAttention
from forecast.layers.attention_layer import AttentionLayer
from forecast.layers.distil import Distil
from forecast.layers.embedding import DataEmbedding
from forecast.layers.heads import merge_heads, mix_heads
from forecast.layers.projections import StandardProjection
from forecast.models.base import WindowShape
from forecast.models.informer import Informer
from forecast.models.informer_stack import InformerStack

BUILT = (
    *("attention_full", "attention_lsh", "attention_prob", "attention_layer", "distil_conv", "embedding", "informer"),
    *("logsparse_mask", "time_features", "windows"),
)
close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)


def by_head(x):
    """(B, L, H, E), the authors' layout -> (B, H, L, E), ours."""
    return x.transpose(1, 2)


def test_golden_folder_holds_files_and_each_is_compared_or_named(golden):
    unknown = [f.name for f in golden.glob("*.npz") if not f.name.startswith(BUILT)]
    assert not unknown


@pytest.mark.golden_family("attention_full")
def test_golden_full_attention(case):
    inputs, outputs = tensors(case, "inputs/"), tensors(case, "outputs/")
    q, k, v = (by_head(inputs[name]) for name in "qkv")
    attention = FullAttention(causal=config_of(case)["causal"], layer=0)
    close(attention(q, k, v), by_head(outputs["context"]))
    identity = torch.eye(k.shape[2]).expand(*k.shape[:2], -1, -1)
    close(attention(q, k, identity), outputs["weights"])


@pytest.mark.golden_family("attention_prob")
@pytest.mark.parametrize("training", [False, True])
def test_golden_prob_attention(case, training):
    config, inputs = config_of(case), tensors(case, "inputs/")
    attention = Informer2020ProbAttention(causal=config["causal"], layer=0, factor=config["factor"]).train(training)
    use_samples(attention, samples(case))
    context = attention(*(by_head(inputs[name]) for name in "qkv"))
    close(context, by_head(tensors(case, "outputs/")["context"]))


class StoredRotations(nn.Module):
    """Returns the reference file's directions (E, R, N) instead of drawing them."""

    def __init__(self, rotations):
        super().__init__()
        self.rotations = rotations

    def forward(self, width, rounds, n_half, device):
        assert self.rotations.shape == (width, rounds, n_half)
        return self.rotations


def lsh_of(case):
    """The mechanism of a reference file, its q, k, v with a head axis and the buckets of each round."""
    config = config_of(case)
    arrays = {name: torch.from_numpy(array) for name, array in case.items() if name != "config"}
    bucket, rounds = config["bucket_size"], config["n_hashes"]
    attention = LshAttention(causal=config["causal"], layer=0, bucket_size=bucket, n_hashes=rounds).eval()
    attention.rotations = StoredRotations(arrays["rotations"][0])
    q, v = arrays["qk"].unsqueeze(1), arrays["v"].unsqueeze(1)
    # theirs number the buckets of all rounds one after the other
    first = torch.arange(rounds).unsqueeze(1) * (config["length"] // bucket)
    buckets = arrays["buckets"].unflatten(1, (rounds, -1)) - first
    return attention, (q, nn.functional.normalize(q, dim=-1), v), buckets.unsqueeze(1)


@pytest.mark.golden_family("attention_lsh")
def test_golden_lsh_buckets_and_what_dense_rounds_make_of_them(case):
    attention, (q, k, v), buckets = lsh_of(case)
    assert torch.equal(attention.buckets(k), buckets)
    close(attention(q, k, v), torch.from_numpy(lsh_oracle.weights(attention, q.numpy(), k.numpy())).float() @ v)


@pytest.mark.golden_family("attention_lsh")
def test_golden_lsh_attention_but_for_the_first_chunks_of_several_rounds_of_defect_t46(case):
    """Their first chunk of a round looks back into another round: a row that is in one differs, all others agree.

    A row that sees only itself in all of several rounds is its value but for the digits that their -5e4 eats.
    """
    attention, (q, k, v), buckets = lsh_of(case)
    out, theirs = attention(q, k, v), torch.from_numpy(case["out"]).unsqueeze(1)
    border = torch.zeros(q.shape[:3], dtype=torch.bool)
    if attention.n_hashes > 1:
        first = sorted_steps(buckets, q.shape[2])[..., : attention.bucket_size].flatten(2)
        border.scatter_(2, first, True)
        assert ((out - theirs)[border].abs().amax(-1) > 1e-3).float().mean() > 0.5
        alone = torch.isclose(out, v).all(-1) & ~border
        torch.testing.assert_close(out[alone], theirs[alone], rtol=2**-8, atol=0)  # 2^-8: a float32 step at 5e4
        border |= alone
    assert not border.all()
    close(out[~border], theirs[~border])


@pytest.mark.golden_family("logsparse_mask")
def test_golden_logsparse_mask_but_for_the_step_that_a_restart_leaves_out(case):
    """Where the window of a restart passes step 0, their mask leaves out the step it restarts from."""
    config, theirs = config_of(case), torch.from_numpy(case["mask"])
    length, sub_len = config["length"], config["sub_len"]
    ours = LogSparseAttention(causal=True, layer=0, sub_len=sub_len).allowed(length)
    window = math.ceil(math.log2(sub_len))
    past_the_dense_rows = range(length // sub_len * 2 * window, length)
    left_out = [[i, i % sub_len] for i in past_the_dense_rows if i % sub_len < window - 1]
    assert (ours & ~theirs).nonzero().tolist() == left_out
    assert not (theirs & ~ours).any()


@pytest.mark.golden_family("attention_layer")
def test_golden_attention_layer(case):
    config, x = config_of(case), tensors(case, "inputs/")["x"]
    layer = AttentionLayer(
        {"projection": StandardProjection, "mechanism": FullAttention},
        d_model=x.shape[-1],
        n_heads=config["n_heads"],
        causal=config["causal"],
        layer=0,
        merge=mix_heads if config["mix"] else merge_heads,
    )
    copy_in(layer, tensors(case, "params/"))
    close(layer(x, x), tensors(case, "outputs/")["y"])


@pytest.mark.golden_family("distil_conv")
def test_golden_distilling_in_training_and_evaluation(case):
    x, outputs = tensors(case, "inputs/")["x"], tensors(case, "outputs/")
    distil = Distil(x.shape[-1])
    copy_in(distil, tensors(case, "params/"))
    close(distil.eval()(x), outputs["eval"])
    close(distil.train()(x), outputs["train"])


@pytest.mark.golden_family("embedding")
def test_golden_embedding(case):
    inputs, y = tensors(case, "inputs/"), tensors(case, "outputs/")["y"]
    x, marks = inputs["x"], inputs["marks"]
    embedding = DataEmbedding(
        n_columns=x.shape[-1],
        n_known=marks.shape[-1],
        d_model=y.shape[-1],
        max_len=x.shape[1],
        dropout=0.0,
        encoding=config_of(case)["embed"],
    )
    copy_in(embedding, tensors(case, "params/"))
    close(embedding(x, marks), y)


def model_of(case):
    """The model of a reference file with the file's parameters, and what calling it needs."""
    c, inputs = config_of(case), tensors(case, "inputs/")
    full = {"projection": StandardProjection, "mechanism": FullAttention}
    slot = (
        {**full, "mechanism": partial(Informer2020ProbAttention, factor=c["factor"])} if c["attn"] == "prob" else full
    )
    stack = c.get("model") == "InformerStack"
    model = (InformerStack if stack else Informer)(
        window=WindowShape(
            n_columns=c["enc_in"],
            targets=tuple(range(c["c_out"])),
            n_known=inputs["x_mark_enc"].shape[-1],
            seq_len=c["seq_len"],
            label_len=c["label_len"],
            pred_len=c["out_len"],
        ),
        **{name: c[name] for name in ("d_model", "n_heads", "d_ff", "dropout", "activation", "distil", "mix")},
        **{"stack_layers" if stack else "encoder_layers": c["e_layers"]},
        decoder_layers=c["d_layers"],
        embedding=c["embed"],
        encoder_attention=slot,
        decoder_attention=slot,
        cross_attention=full,
    )
    copy_in(model, tensors(case, "params/"))
    batch = (inputs["x_enc"], inputs["x_mark_enc"], inputs["x_mark_dec"][:, c["label_len"] :])
    return model, batch, inputs["target"], c


# Their gradient is zero but for rounding, which Adam turns into steps (README of the reference files): key biases, and
# biases whose constant the distilling BatchNorm takes out again.
NO_GRADIENT = ("key_projection.bias", "downConv.bias", "norm2.bias")
INFORMERS = pytest.mark.golden_family("informer_full", "informer_prob", "informer_stack")


@INFORMERS
def test_golden_model_forecast_in_evaluation(case):
    model, batch, _, c = model_of(case)
    use_samples(model, samples(case)[: c["eval_draws"]])
    close(model.eval()(*batch), tensors(case, "outputs/")["forecast_eval"])


# The same numbers by whatever way the machine and the sizes choose: what is patched to choose it here.
MODES = {
    "as chosen": {},
    "activations made again": {"forecast.ops.dropout.MOST_STORED": 0},
    "attention in three products": {"forecast.ops.softmax.in_three_products": lambda *_: True},
    "attention by torch's fused form": {"forecast.ops.softmax.in_three_products": lambda *_: False},
    "keys gathered": {"forecast.attention.key_sampling.DENSE_KEYS": 0},
}


@INFORMERS
@pytest.mark.parametrize("mode", MODES)
def test_golden_model_forecast_loss_and_gradients_in_training(case, mode, monkeypatch):
    for name, stand_in in MODES[mode].items():
        monkeypatch.setattr(name, stand_in)
    model, batch, target, c = model_of(case)
    use_samples(model, samples(case)[c["eval_draws"] : c["adam_draws_from"]])
    forecast = model.train()(*batch)
    outputs = tensors(case, "outputs/")
    close(forecast, outputs["forecast_train"])
    loss = nn.functional.mse_loss(forecast, target)
    close(loss, outputs["loss_train"].reshape(()))
    loss.backward()
    actual = in_their_names(model, {name: p.grad for name, p in model.named_parameters()})
    for name, gradient in tensors(case, "grads/").items():
        close(actual[name], gradient, msg=lambda m, name=name: f"{name}: {m}")


@INFORMERS
@pytest.mark.parametrize("fused", [False, True], ids=["weight by weight", "in one pass"])
def test_golden_model_losses_and_parameters_of_three_adam_steps(case, fused):
    model, batch, target, c = model_of(case)
    use_samples(model, samples(case)[c["adam_draws_from"] :])
    model.train()
    adam = torch.optim.Adam(model.parameters(), lr=c["adam_lr"], fused=fused)
    names = [name for name in tensors(case, "after_adam/") if not name.endswith("running_mean")]
    losses, first = [], None
    for _ in range(len(case["outputs/adam_losses"])):
        adam.zero_grad()
        loss = nn.functional.mse_loss(model(*batch), target)
        loss.backward()
        first = first or {name: p.grad.clone() for name, p in model.named_parameters()}
        adam.step()
        losses.append(loss.detach())
    close(torch.stack(losses), tensors(case, "outputs/")["adam_losses"])
    gradients, weights = in_their_names(model, first), in_their_names(model, model.state_dict())
    left_out = total = 0
    for name in names:
        value, ours = torch.from_numpy(case[f"after_adam/{name}"]), weights[name]
        gradient = gradients.get(name, torch.ones_like(value))
        if gradient.abs().max() < 1e-6:
            assert name.endswith(NO_GRADIENT), name
            continue
        # single elements too: Adam's first step divides a gradient by itself, rounding and all
        compared = (gradient == 0) | (gradient.abs() > 1e-7)
        left_out, total = left_out + int((~compared).sum()), total + value.numel()
        close(ours[compared], value[compared], msg=lambda m, name=name: f"{name}: {m}")
    assert left_out < 0.002 * total
