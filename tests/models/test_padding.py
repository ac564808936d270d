"""Rows that fill the window in front of a short series: which attentions see them, and what they are no part of."""

import pytest
import torch
from models.small import FULL, informer
from models.test_model_laws import small_model

from forecast.attention.maps import attention_weights
from forecast.layers.distil import pooled_mask
from forecast.layers.window_scale import NORMALIZATIONS, window_statistics
from forecast.models.time_spans import time_spans

PADDED = {"n_known": 5, "padding": (3,)}
N_PADDED = (0, 8, 12)  # of the 19 steps of each window; no whole number of patches
PATCHES = ("model.tokens=patch", "model.patch_len=3", "model.skip=none")
CASES = {
    "informer": ("informer", "attention=full"),
    "prob": ("informer", "attention.mechanism.factor=1"),
    "prob everywhere": ("informer", "attention@model.cross_attention=prob", "attention.mechanism.factor=1"),
    "three layers": ("informer", "attention=full", "model.encoder_layers=3"),
    "stack": ("informer_stack", "attention=full", "model.mask_padding=true"),
    "transformer": ("transformer",),
    "step by step": ("transformer", "model.decode=autoregressive"),
    "patches": ("informer_plus", "attention=full", *PATCHES),
    "patches of columns": ("informer_plus", "attention=full", "model.columns=independent", *PATCHES),
    "covariates": ("informer_plus", "attention=full", *PATCHES),
}


def padded_inputs(model, n_padded=N_PADDED):
    """A batch whose windows begin with so many padded steps each."""
    w, generator = model.window, torch.Generator().manual_seed(0)
    past = torch.randn(len(n_padded), w.seq_len, w.n_columns, generator=generator)
    known = torch.rand(len(n_padded), w.seq_len + w.pred_len, w.n_known, generator=generator) + 0.1
    known[..., w.padding] = 0.0
    for i, steps in enumerate(n_padded):
        past[i, :steps] = past[i, steps]
        known[i, :steps, w.padding] = 1.0
    return past, known[:, : w.seq_len], known[:, w.seq_len :]


def padded_model(case):
    more = {"n_known": 7, "covariates": (0, 0)} if case == "covariates" else {}
    return small_model(*CASES[case], window={**PADDED, **more}).eval()


def maps_of(model):
    with attention_weights(model) as maps:
        model(*padded_inputs(model))
    return maps


@pytest.mark.parametrize("case", CASES)
def test_encoder_and_cross_attention_see_no_key_that_stands_for_padded_steps_alone(case):
    """Which steps a key stands for says time_spans, which knows nothing of masks."""
    model = padded_model(case)
    spans, length = time_spans(model), model.window.seq_len
    for (slot, layer), weights in maps_of(model).items():
        keys = spans[slot, layer][1]
        copies = len(weights) // len(N_PADDED)  # of each window, where columns are sequences of their own
        for i, steps in enumerate(N_PADDED):
            seen = weights[copies * i : copies * (i + 1)].amax(dim=(0, 1, 2)) > 0
            hidden = torch.tensor(keys[:, 1] < steps - length) if slot != "decoder" else torch.zeros(len(keys)) > 0
            assert torch.equal(seen, ~hidden), (slot, layer, steps)


@pytest.mark.parametrize("case", ["prob", "prob everywhere"])
def test_no_padded_step_is_active(case):
    model = padded_model(case)
    active = maps_of(model).active["encoder", 0]
    for i, steps in enumerate(N_PADDED):
        if steps + active.sum(-1).max() <= active.shape[2]:  # there are others to choose
            assert not active[i, :, :steps].any()


NO_MASK = ("attention=logsparse", "attention@model.cross_attention=topk")
SEEING = {
    "older checkpoints": lambda: informer(FULL, **PADDED),  # which have no such key
    "the authors' code": lambda: small_model("informer2020", window=PADDED),
    "an attention that masks no keys": lambda: small_model("informer", *NO_MASK, window=PADDED),
    "no padded rows": lambda: informer(FULL, mask_padding=True, n_known=5),
}


@pytest.mark.parametrize("case", SEEING)
def test_elsewhere_a_forecast_is_what_it_was(case):
    """The same weights, told that there are such steps or not."""
    model = SEEING[case]().eval()
    inputs = padded_inputs(informer(FULL, **PADDED))
    before = model(*inputs)
    model.padding = ()
    torch.testing.assert_close(model(*inputs), before, rtol=0, atol=0)


def test_what_the_padded_steps_hold_reaches_no_other():
    model = padded_model("transformer")
    past, past_known, _ = padded_inputs(model)
    embedded, mask = model.encoder_embedding(past, past_known), past_known[..., 3] > 0
    moved = embedded.where(~mask.unsqueeze(2), embedded + 1.0)
    rows, other = (model.encoder(x, mask)[0][~mask] for x in (embedded, moved))
    torch.testing.assert_close(rows, other, rtol=0, atol=0)


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_where_a_window_lies_say_the_rows_of_the_series_alone(name):
    past = torch.randn(3, 19, 2, generator=torch.Generator().manual_seed(0)) * 5 + 70
    n_padded = (0, 8, 16)  # the last leaves three of the five rows of a tail
    padded = torch.arange(19) < torch.tensor(n_padded).unsqueeze(1)
    places = NORMALIZATIONS[name](past, padded)
    for i, steps in enumerate(n_padded):
        rows = past[i : i + 1, max(steps, 19 - 5) if name == "tail" else steps :]
        wanted = window_statistics(rows) if name == "tail" else NORMALIZATIONS[name](rows, None)
        for place, expected in zip(places, wanted, strict=True):
            torch.testing.assert_close(place[i : i + 1], expected)


NORMED = {
    "informer": ("informer", "model.instance_norm=true"),
    "informer_plus": ("informer_plus", "model.tokens=conv", "model.columns=joint", "model.skip=none"),
}


@pytest.mark.parametrize("case", NORMED)
def test_windows_are_normalised_by_the_rows_of_the_series_in_training_as_in_a_forecast(case):
    model = small_model(*NORMED[case], window=PADDED).eval()
    past, past_known, future_known = padded_inputs(model)
    windows = []
    network = getattr(model, "network", model)
    network.encoder_embedding.register_forward_hook(lambda part, arguments, result: windows.append(arguments[0]))
    forecast = model(past, past_known, future_known)
    rows, _ = model.training_outputs(past, past_known, future_known, torch.randn(3, 5, 3))
    for window in windows:
        for i, steps in enumerate(N_PADDED):
            torch.testing.assert_close(window[i, steps:].mean(0), torch.zeros(3), rtol=0, atol=1e-5)
            torch.testing.assert_close(window[i, steps:].std(0, unbiased=False), torch.ones(3), rtol=0, atol=1e-4)
    torch.testing.assert_close(rows, forecast)
    assert len(windows) == 2


def test_a_pooled_step_is_masked_where_all_that_it_is_made_of_is():
    mask = torch.tensor([[True] * 5 + [False] * 2, [True] + [False] * 6, [False] * 7, [True] * 6 + [False]])
    # step 2 i with its neighbours 2 i - 1 and 2 i + 1
    assert pooled_mask(mask).tolist() == [
        [True, True, False, False],
        [False] * 4,
        [False] * 4,
        [True, True, True, False],
    ]
