"""Every model with every attention on a device that is not the CPU: what is made on the CPU and stays there shows."""

import copy
from functools import cache

import pytest
import torch
from config.composed import composed
from devices import META, OneDevice
from models.small import window_shape
from omegaconf import OmegaConf

from forecast.config.build import build
from forecast.config.targets import resolve_target
from forecast.config.values import CONF, options

B = 2
WINDOW = {"n_columns": 5, "targets": (3, 1), "n_known": 4, "seq_len": 11, "label_len": 7, "pred_len": 3}
SIZES = {"d_model": 26, "n_heads": 2, "d_ff": 52, "dropout": 0.1, "patch_len": 5, "stride": 3}
LAYERS = {"encoder_layers": 2, "decoder_layers": 1, "stack_layers": [2, 1]}  # two where one is distilled
MODELS, ATTENTIONS = options("model"), options("attention", but="inherit")
# one key each that takes another way through a model; a model without the key is passed over
WAYS = {"embedding": "fixed", "decode": "dynamic", "feed_forward_chunks": 3}


@cache
def config(model, *overrides):
    cfg = composed(f"model={model}", *overrides)
    OmegaConf.update(cfg, "model", {key: value for key, value in {**SIZES, **LAYERS}.items() if key in cfg.model})
    return cfg


@cache
def attention_config(name):
    return OmegaConf.load(CONF / "attention" / f"{name}.yaml")


def slots(cfg):
    return [key for key in cfg.model if key.endswith("_attention")]


def serves(attention, slot, cfg):
    mechanism = resolve_target(attention_config(attention).mechanism._target_)
    cached = slot in resolve_target(cfg.model._target_).cached_slots(cfg.model)
    return not mechanism.refusal(cross=slot.startswith("cross"), cached=cached)


def with_attention(cfg, attention):
    """A copy of the config with the attention in every slot that it can serve; the other slots get full attention."""
    cfg = copy.deepcopy(cfg)
    for slot in slots(cfg):
        cfg.model[slot] = attention_config(attention if serves(attention, slot, cfg) else "full")
    return cfg


def passes(cfg):
    """A training step, a forecast in evaluation mode and the gradients of both."""
    torch.manual_seed(1)
    model = build(cfg.model, window=window_shape(**WINDOW)).to(META)
    w = model.window
    past, past_known = torch.empty(B, w.seq_len, w.n_columns, device=META), torch.empty(B, w.seq_len, w.n_known, device=META)
    future, future_known = torch.empty(B, w.pred_len, w.n_columns, device=META), torch.empty(B, w.pred_len, w.n_known, device=META)
    with OneDevice():
        forecast, truth = model.train().training_pair(past, past_known, future_known, future)
        assert forecast.is_meta and truth.is_meta and forecast.shape == truth.shape
        torch.nn.functional.mse_loss(forecast, truth).backward()
        assert all(p.grad.is_meta for p in model.parameters() if p.requires_grad)
        forecast = model.eval()(past, past_known, future_known)
        assert forecast.is_meta and forecast.shape == (B, w.pred_len, w.n_targets)
        if forecast.requires_grad:  # what goes step by step has no gradient in evaluation
            forecast.sum().backward()


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("model", [name for name in MODELS if slots(config(name))])
def test_a_model_with_an_attention_stays_on_its_device(model, attention):
    cfg = config(model)
    if not any(serves(attention, slot, cfg) for slot in slots(cfg)):
        pytest.skip(f"{model} has no slot for {attention}")
    passes(with_attention(cfg, attention))
