"""Pictures of a training: of which attentions, how many, and that they change nothing."""

import numpy as np
import pytest
import torch
from models.small import FULL, informer
from models.test_model_laws import inputs, small_model

from forecast.attention.maps import Maps, attention_weights
from forecast.models.ensemble import Ensemble
from forecast.training import figures


@pytest.fixture
def logged(monkeypatch):
    """What is logged, by its name."""
    found = {}
    monkeypatch.setattr(figures, "log_figure", lambda logger, name, figure, step: found.update({name: figure}))
    monkeypatch.setattr(
        figures, "log_histogram", lambda logger, name, values, step: found.update({f"{name} rows": values.tolist()})
    )
    return found


def maps_of(model):
    with torch.no_grad(), attention_weights(model) as maps:
        model(*inputs(model)[:3])
    return maps


def test_every_slot_has_a_picture_of_its_last_layer_and_the_mean_of_its_heads(logged):
    maps = maps_of(informer(FULL).eval())
    figures.draw_attention(None, maps, 7)
    assert [*logged] == ["attention/encoder", "attention/decoder", "attention/cross"]
    axes = logged["attention/encoder"].axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), maps["encoder", 1].mean((0, 1)), rtol=1e-6)
    assert logged["attention/encoder"].get_suptitle() == "encoder, layer 1, first window, mean of 2 heads"


def test_of_probsparse_the_rows_that_are_active_are_counted(logged):
    maps = Maps()
    active = torch.tensor([[[True, False, True], [False, False, True]]])
    maps.keep(("decoder", 0), torch.full((1, 2, 3, 3), 1 / 3), active, torch.zeros(1, 2, 3))
    figures.draw_attention(None, maps, 7)
    assert logged["active_rows/decoder rows"] == [0, 2, 2]
    bars = logged["active_rows/decoder"].axes[0].patches
    assert [bar.get_height() for bar in bars] == [0.5, 0.0, 1.0]


@pytest.mark.parametrize("name", ["transformer", "patchtst", "sha", "reformer", "logtrans", "informer_plus"])
def test_any_model_with_attention_has_a_picture(logged, name):
    figures.draw_attention(None, maps_of(small_model(name).eval()), 7)
    assert {slot.removeprefix("attention/") for slot in logged} & {"encoder", "decoder"}


def test_of_an_ensemble_the_first_member_alone_is_drawn(logged):
    maps = maps_of(Ensemble([informer(FULL) for _ in range(3)]).eval())
    figures.draw_attention(None, maps, 7)
    assert [*logged] == [f"attention/members.0.{slot}" for slot in ("encoder", "decoder", "cross")]
