"""Columns as tokens of an InformerPlus: what sees what, and what the axes of the maps are."""

import pytest
import torch
from models.inputs import batch, reached
from models.small import FULL, WINDOW, window_shape
from models.test_informer_plus import L, P, plus
from models.test_model_laws import inputs

from forecast.attention.maps import attention_weights
from forecast.attention.none import NoAttention
from forecast.layers.projections import StandardProjection
from forecast.models.time_spans import time_spans
from forecast.models.variates import Variates

NONE = {"projection": StandardProjection, "mechanism": NoAttention}


def variates(shape=None, **changes):
    return plus(shape, **{"tokens": "variate", "encoder_attention": FULL, **changes})


def test_without_the_calendar_columns_in_another_order_are_forecast_in_that_order():
    past, *_ = batch()
    none = past.new_empty(2, L, 0), past.new_empty(2, P, 0)
    model = variates(window_shape(n_known=0))
    order = [2, 0, 1]
    torch.testing.assert_close(model(past[:, :, order], *none), model(past, *none)[:, :, order])


def test_columns_reach_each_other_by_attention_alone():
    past, *known = batch()
    other = past.clone()
    other[:, :, 1] += torch.randn(L)
    for slot, alone in ((FULL, False), (NONE, True)):
        model = variates(encoder_attention=slot)
        same = torch.isclose(model(other, *known), model(past, *known)).all(1).all(0).tolist()
        assert same == [alone, False, alone]


def test_a_token_is_a_linear_map_of_a_window_and_a_forecast_one_of_a_token():
    model = variates(normalization="none", encoder_attention=NONE)
    network, seen = model.network, []
    network.encoder.register_forward_hook(lambda part, arguments, result: seen.append((*arguments, result[0])))
    past, past_known, future_known = batch()
    out = model(past, past_known, future_known)
    tokens, encoded = seen[0]
    known = torch.cat([past_known, future_known], dim=1)
    assert tokens.shape == (2, 3 + 4, 22)
    for column in range(3):
        torch.testing.assert_close(tokens[:, column], network.columns(past[:, :, column]))
        torch.testing.assert_close(out[:, :, column], network.head(encoded[:, column]))
    for feature in range(4):
        torch.testing.assert_close(tokens[:, 3 + feature], network.known(known[:, :, feature]))


@pytest.mark.parametrize("name, step", [("past", 0), ("past_known", 0), ("future_known", 0), ("future_known", P - 1)])
def test_every_step_of_values_and_calendar_reaches_every_step_of_the_forecast(name, step):
    assert reached(variates(), name, step) == [True] * P


def test_a_category_is_a_learned_number_and_one_that_the_training_did_not_see_is_zero():
    shape = window_shape(n_known=2, covariates=(0, 4))
    model = variates(shape)
    past, past_known, future_known = batch({**WINDOW, "n_known": 2})
    forecasts = []
    for category in range(4):
        for part in (past_known, future_known):
            part[:, :, 1] = category
        forecasts.append(model(past, past_known, future_known))
    assert all(not torch.allclose(forecasts[0], other) for other in forecasts[1:])
    assert (model.network.tables[0].weight[0] == 0).all()


@pytest.mark.parametrize("columns", ["joint", "independent"])
def test_every_parameter_learns_from_columns_of_every_role(columns):
    roles = {"targets": (1,), "observed": (0, 2), "n_known": 7, "covariates": (0, 4, 0, 0, 3), "facts": (3, 4)}
    model = variates(window_shape(**roles), columns=columns).train()
    forecast, truth = model.training_outputs(*inputs(model))
    torch.nn.functional.mse_loss(forecast, truth).backward()
    assert len(model.network.tables) == 2
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())


def test_its_maps_are_of_columns_and_known_features():
    for columns, shape, axis, items in (
        ("joint", window_shape(), [0, 1, 2, 3, 4, 5, 6], 2),
        ("independent", window_shape(), [-1, 3, 4, 5, 6], 6),
        ("independent", window_shape(targets=(1,), observed=(0, 2)), [-1, 0, 2, 3, 4, 5, 6], 2),
    ):
        model = variates(shape, columns=columns)
        with attention_weights(model) as maps:
            model(*batch())
        spans = time_spans(model)
        assert [*maps] == [*spans] == [("encoder", 0), ("encoder", 1)]
        for place, (queries, keys) in spans.items():
            assert queries.tolist() == keys.tolist() == axis
            assert maps[place].shape == (items, 2, len(axis), len(axis))


def test_there_is_no_decoder_and_no_distilling():
    model = variates()
    assert isinstance(model.network, Variates)
    assert not [name for name, _ in model.named_parameters() if "decoder" in name or "conv" in name]
