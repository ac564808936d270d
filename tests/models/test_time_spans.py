"""Which steps queries and keys stand for: as many as each map has, and just those that a token is made of."""

import numpy as np
import pytest
import torch
from models.small import informer
from models.test_model_laws import ATTENDING, inputs, small_model
from torch import nn

from forecast.attention.maps import attention_weights
from forecast.models.ensemble import Ensemble
from forecast.models.time_spans import time_spans

CASES = {name: (name,) for name in ATTENDING} | {
    "autoregressive": ("transformer", "model.decode=autoregressive"),
    "patches": ("informer_plus", "model.tokens=patch", "model.patch_len=3", "model.skip=none"),
    "independent": ("informer_plus", "model.columns=independent", "model.skip=none"),
}


def shown(model):
    past, past_known, future_known, _ = inputs(model)
    with attention_weights(model.eval()) as maps:
        model(past, past_known, future_known)
    return maps


@pytest.mark.parametrize("case", CASES)
def test_there_are_as_many_as_queries_and_keys_of_every_map(case):
    model = small_model(*CASES[case])
    maps, spans = shown(model), time_spans(model)
    assert maps.keys() == spans.keys()
    for place, weights in maps.items():
        queries, keys = spans[place]
        ahead = int((queries[:, 1] >= 0).sum())  # of rows that each step has for itself, those that a decoder computes
        assert weights.shape[3] == len(keys) and weights.shape[2] in {len(queries), ahead}
        for part in (queries, keys):
            assert part.min() >= -model.window.seq_len and part.max() < model.window.pred_len
            assert (part[:, 0] <= part[:, 1]).all()


def test_a_distilled_key_stands_for_a_maximum_of_three():
    spans = time_spans(informer(seq_len=7, label_len=3, pred_len=2))
    assert spans["encoder", 0][1].tolist() == [[step, step] for step in range(-7, 0)]
    assert spans["encoder", 1][1].tolist() == [[-7, -6], [-6, -4], [-4, -2], [-2, -1]]
    assert spans["cross", 0][0].tolist() == [[step, step] for step in range(-3, 2)]


def test_encoders_side_by_side_read_the_latest_steps():
    keys = time_spans(small_model("informer_stack"))["cross", 0][1]
    assert keys[0].tolist() == [-19, -16] and keys[:, 1].tolist().count(-1) == 3


def test_patches_overlap_and_end_with_the_window():
    model = small_model("patchtst", "model.patch_len=5", "model.stride=3")
    keys = time_spans(model)["encoder", 0][1].tolist()
    assert keys == [[-19, -15], [-16, -12], [-13, -9], [-10, -6], [-7, -3], [-4, -1]]


def test_patches_of_the_forecast_steps_follow_those_of_the_window():
    window = {"n_known": 5, "covariates": (0,), "pred_len": 7}
    model = small_model("patchtst", "model.patch_len=5", "model.stride=3", window=window)
    keys = time_spans(model)["encoder", 0][1].tolist()
    assert keys[-3:] == [[-4, -1], [0, 4], [3, 6]]
    assert shown(model)["encoder", 0].shape[3] == len(keys)


def test_patches_of_steps_leave_out_what_was_made_up():
    spans = time_spans(small_model(*CASES["patches"]))
    queries, keys = spans["decoder", 0]
    assert spans["encoder", 0][1].tolist()[:2] == [[-19, -19], [-18, -16]]
    assert queries.tolist() == keys.tolist() == [[-9, -7], [-6, -4], [-3, -1], [0, 2], [3, 4]]


def test_members_have_spans_of_their_own():
    assert ("members.1.cross", 0) in time_spans(Ensemble([informer(), informer()]))


def test_of_somebodys_own_class_none_are_known():
    assert time_spans(nn.Identity()) == {}


@pytest.mark.parametrize("name", ["informer", "patchtst"])
def test_noise_in_other_steps_leaves_the_first_token_alone(name):
    """What the embedding makes of a patch is its own steps; a step's convolution adds its neighbours."""
    model, reach = small_model(name).eval(), {"informer": 1, "patchtst": 0}[name]
    spans = time_spans(model)["encoder", 0][1]
    entering = []
    model.encoder.register_forward_pre_hook(lambda part, arguments: entering.append(arguments[0]))
    past, past_known, future_known, _ = inputs(model)
    token = 1
    first, last = spans[token] + past.shape[1]
    noisy = torch.randn_like(past)
    noisy[:, first - reach : last + 1 + reach] = past[:, first - reach : last + 1 + reach]
    for values in (past, noisy):
        model.forecast(values, past_known, future_known)
    before, after = entering
    np.testing.assert_array_equal(before[:, token].detach().numpy(), after[:, token].detach().numpy())
