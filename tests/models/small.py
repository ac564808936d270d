"""A small Informer for tests; every size another prime where it can be."""

from functools import partial

from forecast.attention.full import FullAttention
from forecast.attention.prob import ProbAttention
from forecast.layers.projections import StandardProjection
from forecast.models.base import WindowShape
from forecast.models.informer import Informer

WINDOW = {
    "n_columns": 3,
    "targets": (0, 1, 2),
    "n_known": 4,
    "seq_len": 19,
    "label_len": 7,
    "pred_len": 5,
    "padding": (),
}
SIZES = {
    "d_model": 22,
    "n_heads": 2,
    "d_ff": 23,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "dropout": 0.0,
    "activation": "gelu",
    "distil": True,
    "mix": False,
    "embedding": "timeF",
    "instance_norm": False,
}
FULL = {"projection": StandardProjection, "mechanism": FullAttention}
PROB = {"projection": StandardProjection, "mechanism": partial(ProbAttention, factor=1)}


def informer(slot=PROB, **changes):
    slots = {"encoder_attention": slot, "decoder_attention": slot, "cross_attention": FULL}
    window = window_shape(**{key: changes.pop(key) for key in WINDOW if key in changes})
    return Informer(window=window, **{**SIZES, **slots, **changes})


def window_shape(**changes):
    return WindowShape(**{**WINDOW, **changes})
