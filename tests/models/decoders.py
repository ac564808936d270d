"""Small models that forecast step by step, and other ways to their forecasts."""

from functools import partial

import torch
from attention.cases import CASES
from config.composed import composed
from models.inputs import batch, make_model
from models.small import FULL, SIZES
from omegaconf import OmegaConf

from forecast.config.build import build
from forecast.config.compose import CONF, options
from forecast.models.gpt import GPT
from forecast.models.informer import Informer

STACK = {"d_model": 24, "n_heads": 4, "d_ff": 23, "decoder_layers": 2, "dropout": 0.0, "activation": "gelu"}
DECODER_ONLY = {**STACK, "embedding": "timeF", "decoder_attention": FULL}


def yaml_slot(name):
    """What conf/attention/NAME.yaml gives a model."""
    cfg = composed()
    cfg.attention = OmegaConf.load(CONF / "attention" / f"{name}.yaml")
    return build(cfg.attention)


def cacheable_slots():
    """Every attention that decodes row by row: with its YAML's sizes, which follow the length, and with small ones."""
    small = {case.name: case.make for case in CASES}
    slots = {}
    for name in options("attention", but="inherit"):
        slot = yaml_slot(name)
        if slot["mechanism"].func.refusal(cross=False, cached=True):
            continue
        slots[name] = slot
        if name in small:
            slots[f"{name}-small"] = {**slot, "mechanism": small[name]}
    return slots


CACHEABLE = cacheable_slots()


class SmallDecoder:
    """A model, and its decoder, which makes all rows at once or row by row."""

    def whole(self, values, known):
        return self.decoder.rows(values, known, *self.encoded)

    def next_rows(self, values, known, cache):
        return self.decoder.next_rows(values, known, cache, *self.encoded)


class GptDecoder(SmallDecoder):
    """All rows of a GPT at once, and row by row."""

    def __init__(self, slot=FULL, **changes):
        self.model = make_model(GPT, {**DECODER_ONLY, "decoder_attention": slot}, changes).eval()
        self.decoder, self.encoded = self.model, ()
        self.n_start = self.model.window.seq_len

    def read(self, past, past_known):
        """A GPT has no encoder."""


class InformerDecoder(SmallDecoder):
    """The same of an Informer's decoder, once it has read a window."""

    def __init__(self, slot=FULL, **changes):
        slots = {"encoder_attention": FULL, "decoder_attention": slot, "cross_attention": FULL}
        self.model = make_model(Informer, {**SIZES, **STACK, **slots, "decode": "autoregressive"}, changes).eval()
        self.decoder = self.model.decoder
        self.n_start = self.model.window.label_len

    def read(self, past, past_known):
        self.encoded = self.model.encode(past, past_known)


def inputs(decoder, n_windows=2, seed=0):
    """The rows that a decoder reads in training, and their calendar; the window is read by its encoder."""
    window = decoder.model.window
    changes = {name: getattr(window, name) for name in ("n_columns", "n_known", "seq_len", "pred_len")}
    batches = [batch(changes, seed=100 * seed + i) for i in range(n_windows)]
    past, past_known, future_known = (torch.cat([one[:1] for one in part]) for part in zip(*batches, strict=True))
    decoder.read(past, past_known)
    generator = torch.Generator().manual_seed(seed)
    future = torch.randn(n_windows, window.pred_len - 1, window.n_columns, generator=generator)
    start = window.seq_len - decoder.n_start
    return torch.cat([past[:, start:], future], 1), torch.cat([past_known[:, start + 1 :], future_known], 1)


@torch.no_grad()
def cached(decoder, values, known, lengths, cache=None):
    """The rows made in parts of these lengths."""
    cache = cache or decoder.decoder.new_cache()
    pairs = zip(torch.split(values, lengths, 1), torch.split(known, lengths, 1), strict=True)
    return torch.cat([decoder.next_rows(*pair, cache) for pair in pairs], 1)


@torch.no_grad()
def naive(rows, n_start, past, past_known, future_known):
    """The forecast without a cache: all rows at each step, those to come as zeros, which no row before them sees."""
    start, pred_len = past.shape[1] - n_start, future_known.shape[1]
    values = torch.cat([past[:, start:], past.new_zeros(len(past), pred_len, past.shape[2])], 1)
    known = torch.cat([past_known[:, start + 1 :], future_known], 1)
    for row in range(n_start, n_start + pred_len):
        values[:, row] = rows(values[:, :-1], known)[:, row - 1]
    return values[:, n_start:]


DECODERS = {"gpt": GptDecoder, "informer": InformerDecoder}
EVERY = {f"{decoder}-{slot}": partial(DECODERS[decoder], CACHEABLE[slot]) for decoder in DECODERS for slot in CACHEABLE}
