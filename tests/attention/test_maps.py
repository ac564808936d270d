"""Attention weights as models show them: of each slot and layer, beside a forecast that they leave as it is."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from attention import oracles
from attention.cases import CASES, InOrder
from models.small import FULL, informer
from models.test_model_laws import ATTENDING, inputs, small_model

from forecast.attention.base import Mechanism
from forecast.attention.maps import attention_weights
from forecast.attention.prob import ProbAttention
from forecast.attention.prob_scrambled import ScrambledProbAttention
from forecast.layers.projections import StandardProjection
from forecast.models.ensemble import Ensemble
from forecast.models.nlinear import NLinear

SERVED = [
    (case, slot)
    for case, slot in product(CASES, ("encoder", "decoder", "cross"))
    if not case.kind.refusal(cross=slot == "cross", cached=False, causal=slot == "decoder")
]
CACHED = [case for case in CASES if not case.kind.refusal(cross=False, cached=True)]


def factories(case):
    """Of the scrambled mechanism itself, not of the form that the laws are tested on."""
    kind = ScrambledProbAttention if case.kind is InOrder else case.kind
    return {"projection": StandardProjection, "mechanism": partial(kind, **case.sizes)}


def forecast(model, seed=0):
    past, past_known, future_known, _ = (part.to(next(model.parameters()).dtype) for part in inputs(model, seed))
    return model(past, past_known, future_known)


def mechanisms(model):
    return [part for part in model.modules() if isinstance(part, Mechanism)]


@pytest.mark.parametrize("case, slot", SERVED, ids=[f"{case.name}-{slot}" for case, slot in SERVED])
def test_the_maps_are_the_weights_of_the_papers_rule_in_numpy(case, slot):
    """In the other slots full attention."""
    torch.manual_seed(1)
    model = informer(FULL, **{f"{slot}_attention": factories(case)}).double().eval()
    calls = []
    for part in mechanisms(model):
        part.register_forward_pre_hook(lambda part, arguments: calls.append((part, *arguments[:2])))
    with attention_weights(model) as maps:
        forecast(model)
    assert [*maps] == [("encoder", 0), ("encoder", 1), ("decoder", 0), ("cross", 0)]
    for (part, q, k), (place, weights) in zip(calls, maps.items(), strict=True):
        oracle = case.oracle if place[0] == slot else oracles.full
        np.testing.assert_allclose(weights.numpy(), oracle(part, q.detach().numpy(), k.detach().numpy()), atol=1e-6)
        padded = case.circular and k.shape[2] < q.shape[2]  # the weights of zeros are not shown
        if (case.averages or not part.causal) and not padded:
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3], dtype=torch.float64))


PROB = [case for case in CASES if issubclass(case.kind, ProbAttention)]


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("case", PROB, ids=lambda case: case.name)
def test_of_probsparse_the_active_rows_and_their_measures_are_shown(case, training):
    """Those that are not active are uniform over what they see; in training too, where the draws of keys are fresh."""
    slots = {f"{slot}_attention": factories(case) for slot in ("encoder", "decoder", "cross")}
    torch.manual_seed(1)
    model = informer(**slots).double().train(training)
    with attention_weights(model) as maps:
        forecast(model)
    assert maps.active.keys() == maps.measures.keys() == maps.keys()
    for place, weights in maps.items():
        active, measure = maps.active[place], maps.measures[place]
        assert active.shape == measure.shape == weights.shape[:3] and active.dtype == torch.bool
        assert active.any(2).all()
        uniform = torch.stack([row[row != 0].std(correction=0) < 1e-9 for row in weights.flatten(0, 2)])
        assert (uniform.view(active.shape) | active).all()
        by_measure = case.kind.__name__ != "CausalProbAttention" or place[0] != "decoder"
        if by_measure:
            lowest = measure.masked_fill(~active, torch.inf).amin(2)
            assert (measure.masked_fill(active, -torch.inf).amax(2) <= lowest).all()


def test_of_other_attentions_there_are_no_active_rows():
    model = informer(FULL).eval()
    with attention_weights(model) as maps:
        forecast(model)
    assert maps and not maps.active and not maps.measures


@pytest.mark.parametrize("case", CACHED, ids=lambda case: case.name)
def test_decoding_with_a_cache_shows_the_rows_of_one_pass(case):
    crossed = "full" if case.kind.refusal(cross=True, cached=True) else case.name
    cross = factories(next(case for case in CASES if case.name == crossed))
    torch.manual_seed(1)
    slots = {"decoder_attention": factories(case), "cross_attention": cross}
    model = informer(FULL, decode="autoregressive", decoder_layers=2, **slots).double().eval()
    past, past_known, future_known, _ = (part.double() for part in inputs(model))
    with attention_weights(model) as maps:
        steps = model(past, past_known, future_known)
    with attention_weights(model) as whole:
        model.training_outputs(past, past_known, future_known, steps)
    window = model.window
    rows = window.label_len + window.pred_len - 1
    assert maps["decoder", 1].shape[2:] == (rows, rows)
    for place, weights in whole.items():
        torch.testing.assert_close(maps[place][:, :, -weights.shape[2] :], weights)
    assert maps["cross", 0].shape[2] == rows


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("name", ATTENDING)
def test_the_forecast_keeps_its_bits_and_nothing_is_stored(name, training):
    """Also where keys are drawn anew at each call, and with dropout."""
    fresh = ("eval_seed=null",) if name in ("informer", "reformer") else ()
    model = small_model(name, *fresh).train(training)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    own = [dict(vars(part)) for part in mechanisms(model)]

    def drawn(look):
        model.load_state_dict(state)
        torch.manual_seed(7)
        if not look:
            return forecast(model), torch.rand(3)
        with attention_weights(model) as maps:
            result = forecast(model), torch.rand(3)
        assert maps and all(m.isfinite().all() and not m.requires_grad for m in maps.values())
        assert [vars(part) for part in mechanisms(model)] == own
        kept = {place: m.clone() for place, m in maps.items()}
        forecast(model, seed=2)
        assert all(torch.equal(m, kept[place]) for place, m in maps.items())
        return result

    for plain, watched in zip(drawn(False), drawn(True), strict=True):
        assert torch.equal(plain, watched)


def test_the_last_forecast_of_a_block_is_shown():
    model = informer().eval()
    with attention_weights(model) as maps:
        forecast(model, seed=1)
        first = dict(maps)
        forecast(model, seed=2)
    with attention_weights(model) as alone:
        forecast(model, seed=2)
    for place, weights in maps.items():
        assert torch.equal(weights, alone[place]) and not torch.equal(weights, first[place])


def test_each_member_of_an_ensemble_has_slots_of_its_own():
    model = Ensemble([informer(), informer(encoder_layers=1)]).eval()
    with attention_weights(model) as maps:
        forecast(model)
    encoders = [place for place in maps if "encoder" in place[0]]
    assert encoders == [("members.0.encoder", 0), ("members.0.encoder", 1), ("members.1.encoder", 0)]


def test_an_error_inside_the_block_leaves_the_model_as_it_was():
    model = informer(FULL)
    with pytest.raises(ZeroDivisionError), attention_weights(model):
        raise ZeroDivisionError
    assert all(not {"forward", "last_rows"} & vars(part).keys() for part in mechanisms(model))


def test_a_model_without_attention_is_refused():
    model = NLinear(window=informer().window)
    with pytest.raises(ValueError, match=r"^NLinear has no attention: none of its parts"), attention_weights(model):
        pass


def test_in_the_cross_slot_there_are_the_rows_that_are_computed():
    """ProbSparse needs all rows to choose among; full attention leaves out those that nobody reads."""
    prob = {"projection": StandardProjection, "mechanism": partial(ProbAttention, factor=1)}
    for slot, rows in ((FULL, 5), (prob, 12)):
        model = informer(cross_attention=slot).eval()
        with attention_weights(model) as maps:
            forecast(model)
        assert maps["cross", 0].shape == (3, 2, rows, 10)
