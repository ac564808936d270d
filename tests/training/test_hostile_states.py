"""The states that a training goes on from, changed by other means: refused before anything computes with them."""

import pytest
import torch
from torch import nn

from forecast.errors import UserError
from forecast.training.lightning_errors import errors_for_users
from forecast.training.optimizers import check_states
from forecast.training.random_states import get_states, set_states

pytestmark = pytest.mark.core

CPU = torch.device("cpu")


def changed(states, name, index, value):
    """The states with one number of one generator exchanged."""
    part = list(states[name])
    part[index] = value
    return states | {name: part}


@pytest.mark.parametrize("position", [-1, 625, 2**40, True, "0", None])
def test_a_position_outside_of_numpys_generator_is_refused(position):
    # NumPy takes it, and would read memory that is not the generator's
    states = get_states(CPU)
    with pytest.raises(UserError, match=r"random_states.*last\.ckpt of another"):
        set_states(changed(states, "numpy", 2, position))
    assert get_states(CPU)["python"] == states["python"]


WRONG = {
    "too few words": lambda s: changed(s, "python", 1, [1, 2, 3]),
    "no words": lambda s: changed(s, "numpy", 1, None),
    "another generator": lambda s: changed(s, "numpy", 0, "PCG64"),
    "no bytes": lambda s: s | {"torch": torch.zeros(3)},
    "nothing": lambda s: {},
    "no mapping": lambda s: [1],
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_states_that_are_of_no_generator_are_refused(wrong):
    with pytest.raises(UserError, match="random_states"):
        set_states(wrong(get_states(CPU)))


def test_states_of_this_process_are_set_again():
    states = get_states(CPU)
    torch.rand(3)
    set_states(states)
    assert torch.equal(get_states(CPU)["torch"], states["torch"])


def saved(make, **keywords):
    """What a checkpoint keeps of an optimizer after one step, and its weights."""
    model = nn.Linear(5, 3)
    optimizer = make(model.parameters(), lr=0.1, **keywords)
    model(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    return optimizer.state_dict(), list(model.parameters())


FUSED = {
    "Adam": (torch.optim.Adam, {"amsgrad": True}),
    "AdamW": (torch.optim.AdamW, {}),
    "SGD": (torch.optim.SGD, {"momentum": 0.9}),
    "Adagrad": (torch.optim.Adagrad, {}),
}


@pytest.mark.parametrize("make, keywords", FUSED.values(), ids=FUSED)
def test_the_states_of_a_fused_optimizer_are_taken(make, keywords):
    states, weights = saved(make, fused=True, **keywords)
    check_states([states], weights)


@pytest.mark.parametrize(
    "name, value",
    [
        ("exp_avg", torch.zeros(3)),
        ("exp_avg_sq", torch.zeros(5, 3)),
        ("exp_avg", torch.zeros(5, 3).T),
        ("exp_avg", 0.0),
        ("step", torch.zeros(0)),
        ("step", torch.zeros(3, 5)),
    ],
)
def test_a_state_that_is_not_its_weights_is_refused(name, value):
    # a fused step takes the shape of the weight for that of the state, and would read and write behind its end
    states, weights = saved(torch.optim.Adam, fused=True)
    states["state"][0][name] = value
    with pytest.raises(UserError, match=rf"optimizer_states.*{name}.*last\.ckpt of another"):
        check_states([states], weights)


@pytest.mark.parametrize("states", [[5], [{}], [{"state": [], "param_groups": []}], [{"state": {0: 5}}]])
def test_what_is_no_state_of_an_optimizer_is_refused(states):
    with pytest.raises(UserError, match="optimizer_states"):
        check_states(states, [])


def test_optimizers_that_check_their_own_states_may_have_other_shapes():
    states, weights = saved(torch.optim.Adafactor)
    check_states([states], weights)


def test_what_lightning_cannot_restore_is_a_mistake_of_the_file(tmp_path):
    from lightning.pytorch.trainer.connectors.checkpoint_connector import _CheckpointConnector

    class Trainer:
        callbacks = ()

    connector = _CheckpointConnector(Trainer())
    connector._loaded_checkpoint = {"callbacks": "none"}
    with (
        pytest.raises(UserError, match=r"cannot be gone on from: .*of another"),
        errors_for_users(tmp_path),
    ):
        connector.restore_callbacks()
