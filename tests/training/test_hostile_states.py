"""The states that a training goes on from, changed by other means: refused before anything computes with them."""

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

from forecast.errors import UserError
from forecast.training.callback_states import check_callbacks
from forecast.training.checkpoint import CheckpointFiles
from forecast.training.lightning_errors import errors_for_users
from forecast.training.optimizers import check_states, check_step
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


@pytest.mark.parametrize("make, keywords", FUSED.values(), ids=FUSED)
@pytest.mark.parametrize("fused", [True, False])
def test_a_step_can_be_taken_from_what_an_optimizer_has_saved(make, keywords, fused):
    states, weights = saved(make, fused=fused, **keywords)
    check_step([states], weights, lambda parameters: make(parameters, lr=0.1, **keywords))


@pytest.mark.parametrize("make", [torch.optim.Adafactor, torch.optim.LBFGS, torch.optim.Rprop, torch.optim.RMSprop])
def test_a_step_can_be_taken_of_optimizers_without_a_fused_step(make):
    model = nn.Linear(5, 3)
    optimizer = make(model.parameters())
    model(torch.ones(2, 5)).sum().backward()
    optimizer.step(lambda: 1.0)
    check_step([optimizer.state_dict()], list(model.parameters()), make)


LACKING = {
    "a moment": lambda s: s["state"][1].pop("exp_avg"),
    "the number of steps": lambda s: s["state"][0].pop("step"),
    "the largest moment, by its settings": lambda s: s["param_groups"][0].update(amsgrad=True),
    "a rate that is a number": lambda s: s["param_groups"][0].update(lr="x"),
    "betas": lambda s: s["param_groups"][0].update(betas=0.5),
    "settings": lambda s: s.update(param_groups=[]),
}


@pytest.mark.parametrize("change", LACKING.values(), ids=LACKING)
def test_states_without_what_the_next_step_needs_are_refused(change):
    states, weights = saved(torch.optim.Adam)
    change(states)
    with pytest.raises(UserError, match=r"optimizer_states was changed by other means: .*last\.ckpt of another"):
        check_step([states], weights, torch.optim.Adam)


@pytest.mark.parametrize("best_mse", ["x", None, True, [1.0]])
def test_a_best_error_that_is_no_number_is_refused(best_mse):
    with pytest.raises(UserError, match=r"callbacks\.CheckpointFiles\.best_mse is .*last\.ckpt of another"):
        check_callbacks([CheckpointFiles()], {CheckpointFiles().state_key: {"best_mse": best_mse}})
    check_callbacks([CheckpointFiles()], {CheckpointFiles().state_key: {"best_mse": 0.5}})


VICTIMS = {
    "beside its folder": "{folder}/../letter.ckpt",
    "no checkpoint": "{folder}/letter.txt",
    "a folder": "{folder}/letters",
    "an address": "s3://bucket/letter.ckpt",
}


@pytest.mark.parametrize("key", ["best_model_path", "kth_best_model_path", "last_model_path", "best_k_models"])
@pytest.mark.parametrize("victim", VICTIMS.values(), ids=VICTIMS)
def test_a_checkpoint_cannot_have_other_files_deleted(key, victim, tmp_path):
    callback = ModelCheckpoint(dirpath=tmp_path / "kept", monitor="val/mse_scaled")
    path = victim.format(folder=tmp_path / "kept")
    state = callback.state_dict() | {key: {path: torch.tensor(0.5)} if key == "best_k_models" else path}
    with pytest.raises(UserError, match=r"callbacks\.ModelCheckpoint is .*letter.*no training has written"):
        check_callbacks([callback], {callback.state_key: state})


def test_the_checkpoints_of_a_run_are_gone_on_with(tmp_path):
    callback = ModelCheckpoint(dirpath=tmp_path / "kept", monitor="val/mse_scaled")
    best = str(tmp_path / "kept" / "epoch=1.ckpt")
    moved = callback.state_dict() | {"dirpath": "/before", "best_model_path": "/before/epoch=1.ckpt"}
    for state in (callback.state_dict() | {"best_k_models": {best: torch.tensor(0.5)}}, moved):
        check_callbacks([callback], {callback.state_key: state})
