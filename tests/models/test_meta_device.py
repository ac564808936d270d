"""Every model and every attention on a device that is not the CPU: what is made on the CPU and stays there shows."""

import copy
from functools import cache

import pytest
import torch
from config.composed import composed
from devices import META, other_device
from models.small import window_shape
from models.test_model_laws import ATTENTIONS, MODELS, inputs
from omegaconf import OmegaConf

from forecast.config.allow_list import resolve_target
from forecast.config.build import build
from forecast.config.compose import CONF, options

WINDOW = {"n_columns": 5, "targets": (3, 1), "n_known": 4, "seq_len": 11, "label_len": 7, "pred_len": 3}
SIZES = {"d_model": 26, "n_heads": 2, "d_ff": 52, "dropout": 0.1, "patch_len": 5, "stride": 3}
LAYERS = {"encoder_layers": 2, "decoder_layers": 1, "stack_layers": [2, 1]}  # two where one is distilled
# Keys that take other ways through a model, together where one leaves the other; a model passes over what it has not.
WAYS = [
    {"embedding": "fixed", "instance_norm": True, "mix": True, "feed_forward_chunks": 3},
    {"decode": "autoregressive", "mix": False, "distil": False},
]


@cache
def config(model, *overrides):
    """The composed config at small sizes; to be copied before it is changed."""
    cfg = composed(f"model={model}", *overrides)
    cfg.model.update({key: value for key, value in {**SIZES, **LAYERS}.items() if key in cfg.model})
    return cfg


@cache
def attention_config(name):
    return OmegaConf.load(CONF / "attention" / f"{name}.yaml")


def slots(cfg):
    return [key for key in cfg.model if key.endswith("_attention")]


def serves(attention, slot, cfg):
    mechanism = resolve_target(attention_config(attention).mechanism._target_)
    cached = slot in resolve_target(cfg.model._target_).cached_slots(cfg.model)
    return not mechanism.refusal(cross=slot.startswith("cross"), cached=cached, causal=slot.startswith("decoder"))


def with_attention(cfg, attention):
    """A copy of the config with the attention in every slot that it can serve; the other slots get full attention."""
    cfg = copy.deepcopy(cfg)
    for slot in slots(cfg):
        cfg.model[slot] = attention_config(attention if serves(attention, slot, cfg) else "full")
    return cfg


def build_small(cfg, **roles):
    torch.manual_seed(1)
    return build(cfg.model, window=window_shape(**{**WINDOW, **roles}))


def on_other_device(cfg, **roles):
    """A step of training, then a forecast in evaluation, with their gradients -> the forecast, on the CPU.

    From the second time on neither waits for the device.
    """
    with other_device() as waits:
        model = build_small(cfg, **roles).to(META)
        past, past_known, future_known, future = (part.to(META) for part in inputs(model))
        forecasts = []
        for _ in range(2):
            waits.clear()
            forecast = model.eval()(past, past_known, future_known)
            assert forecast.device == META and forecast.shape == (len(past), WINDOW["pred_len"], model.window.n_targets)
            forecasts.append(forecast.detach())  # the second is of other statistics, where a layer gathers them
            if forecast.requires_grad:  # what goes step after step has none in evaluation
                forecast.sum().backward()
            pair = model.train().training_outputs(past, past_known, future_known, future)
            torch.nn.functional.mse_loss(*pair).backward()
            assert all(p.grad.device == META for p in model.parameters() if p.requires_grad)
        assert not waits
        return forecasts[0].cpu()


def forecast_of(cfg, **roles):
    model = build_small(cfg, **roles).eval()
    with torch.no_grad():
        return model(*inputs(model)[:3])


# A slot of each kind, and one that is read row by row; the other models, each with its own attention, are below.
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("model", ["informer", "gpt"])
def test_a_model_with_an_attention_forecasts_there_what_it_does_on_a_cpu(model, attention):
    cfg = config(model)
    if not any(serves(attention, slot, cfg) for slot in slots(cfg)):
        pytest.skip(f"{model} has no slot for attention={attention}")
    cfg = with_attention(cfg, attention)
    torch.testing.assert_close(on_other_device(cfg), forecast_of(cfg), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_takes_its_other_ways_there(model):
    for changes in [{}, *WAYS]:
        cfg = copy.deepcopy(config(model))
        new = {key: value for key, value in changes.items() if key in cfg.model}
        if not new and changes:
            continue
        if "tokens" in cfg.model and new.get("embedding") == "fixed":
            new["tokens"] = "conv"  # a patch has several steps to look up
        cfg.model.update(new)
        cfg = with_attention(cfg, "full") if "decode" in new else cfg
        actual, expected = on_other_device(cfg), forecast_of(cfg)
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5, msg=lambda m, new=new: f"{new}: {m}")


@pytest.mark.parametrize("model", ["informer", "gpt", "patchtst"])  # with an embedding each
def test_columns_of_every_role_stay_there(model):
    roles = {"n_known": 7, "covariates": (0, 4, 0), "facts": (2,), "observed": (0, 2, 4)}
    actual, expected = on_other_device(config(model), **roles), forecast_of(config(model), **roles)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("variant", options("variant"))
def test_a_variant_of_the_informer_stays_there(variant):
    assert on_other_device(config("informer", f"variant={variant}")).isfinite().all()


@pytest.mark.parametrize("make", [lambda: torch.arange(7), lambda: torch.ones(7, dtype=torch.long)])
def test_what_is_made_on_the_cpu_is_refused_there(make):
    with other_device():
        x = torch.rand(7, 7, device=META)
        for operation in (torch.add, torch.Tensor.__getitem__, lambda x, i: x.index_select(0, i), torch.Tensor.matmul):
            with pytest.raises(RuntimeError, match=r"aten\.\w+.* on tensors of the devices meta and cpu"):
                operation(x, make())
        torch.testing.assert_close((x + make().to(META)).cpu(), x.cpu() + make())
