"""The stack of encoders: who reads what, and how many. Its numbers are those of the authors: tests/test_golden.py."""

import re

import pytest
import torch
from config.composed import composed
from models.inputs import batch, make_model
from models.small import FULL, SIZES, informer
from torch import nn

from forecast.config.check import check_config
from forecast.errors import UserError
from forecast.models.informer_stack import InformerStack

OWN = {**SIZES, "stack_layers": [3, 2, 1]}
del OWN["encoder_layers"]


def stack(slot=FULL, **changes):
    slots = {"encoder_attention": slot, "decoder_attention": slot, "cross_attention": FULL}
    return make_model(InformerStack, {**OWN, **slots}, changes)


def encoders(model):
    return list(model.encoder.encoders)


def test_each_encoder_reads_the_last_half_of_what_the_one_before_reads_and_all_are_joined_along_time():
    model, (past, past_known, _) = stack().eval(), batch()
    embedded = model.encoder_embedding(past, past_known)
    parts = [encoder(embedded[:, -n:])[0] for encoder, n in zip(encoders(model), (19, 9, 4), strict=True)]
    assert [part.shape[1] for part in parts] == [5, 5, 4]  # 19 halved twice, 9 once
    assert torch.equal(model.encoder(embedded)[0], torch.cat(parts, 1))


@pytest.mark.parametrize("seq_len, encoded", [(96, 72), (168, 126), (336, 252), (672, 504), (720, 540)])
def test_the_encoded_lengths_are_those_of_the_authors_code(seq_len, encoded):
    model = stack(seq_len=seq_len, d_model=2, n_heads=1).eval()
    assert model.encoder(torch.randn(1, seq_len, 2))[0].shape == (1, encoded, 2)


@pytest.mark.parametrize("distil, steps", [(True, 5), (False, 3)])
def test_each_encoder_has_its_own_layers_distilling_steps_and_norm(distil, steps):
    parts = encoders(stack(distil=distil))
    assert [len(part) for part in parts] == [steps + 1, (steps + 1) // 2 + 1, 2]
    assert all(isinstance(part[-1], nn.LayerNorm) for part in parts)
    assert len({id(part[-1]) for part in parts}) == 3


def test_a_stack_of_one_encoder_is_the_informer():
    model, other = stack(stack_layers=[2]), informer(FULL)
    names = {name: name.replace("encoder.encoders.0.", "encoder.") for name in model.state_dict()}
    other.load_state_dict({names[name]: value for name, value in model.state_dict().items()})
    assert torch.equal(model.eval()(*batch()), other.eval()(*batch()))


def test_more_encoders_than_halvings_of_the_window_are_refused():
    assert len(encoders(stack(stack_layers=[1] * 5))) == 5  # 19, 9, 4, 2, 1 steps
    message = (
        "stack_layers=[1, 1, 1, 1, 1, 1] has 6 encoders, of which each reads half the steps of the one before: "
        "of seq_len=19 steps none is left for the last. Give at most 5 encoders, or seq_len of at least 32"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        stack(stack_layers=[1] * 6)
    assert len(encoders(stack(stack_layers=[1] * 6, seq_len=32))) == 6


@pytest.mark.parametrize("layers", [[], [2, 0], [-1]])
def test_an_encoder_without_layers_is_refused(layers):
    message = f"stack_layers={layers} must name the layers of at least one encoder, at least 1 each"
    with pytest.raises(ValueError, match=re.escape(message)):
        stack(stack_layers=layers)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.stack_layers=[2,0]"], "model.stack_layers[1]=0: must be between 1 and 1000"),
        (["model.stack_layers=[1,1,1]", "seq_len=3", "label_len=1"], "and of seq_len (3) none is left for the last"),
    ],
)
def test_the_config_refuses_what_the_model_would_before_any_data_is_read(overrides, message):
    with pytest.raises(UserError, match=re.escape(message)):
        check_config(composed("model=informer_stack", *overrides))
    check_config(composed("model=informer_stack", "model.stack_layers=[1,1,1]", "seq_len=4", "label_len=1"))
