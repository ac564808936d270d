"""Search spaces: those of the program fit their models, and what is no space is refused in a sentence."""

import pytest
from config.composed import composed
from omegaconf import OmegaConf

from forecast.apps.tune.search import SPACES, check_keys, distribution, find_space, typed_point
from forecast.config.check import check_config
from forecast.config.compose import options
from forecast.errors import UserError


@pytest.mark.parametrize("model", sorted(OmegaConf.load(SPACES)))
def test_a_space_of_the_program_has_keys_of_its_model_and_corners_that_pass_the_check(model):
    assert model in options("model")
    space = find_space(None, model=model, typed=())
    check_keys(space)
    assert all(distribution(key, values) for key, values in space.items())
    for end in (0, -1):
        ends = {
            key: values if isinstance(values, list) else [values["low"], values["high"]]
            for key, values in space.items()
        }
        corner = {key: values[end] for key, values in ends.items()}
        check_config(composed(f"model={model}", *typed_point(corner)))


def test_what_was_typed_does_not_vary():
    everything = find_space(None, model="dlinear", typed=())
    left = find_space(None, model="dlinear", typed=["optim.lr", "loss"])
    assert left == {key: one for key, one in everything.items() if key not in ("optim.lr", "loss")}
    with pytest.raises(UserError, match="nothing is left to tune: leave some of them out"):
        find_space(None, model="dlinear", typed=list(everything))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (3, r"optim.lr=3 is no range: .*Write a list"),
        ([], r"optim.lr=\[\] is no range"),
        ({"low": 1, "hi": 2}, r"is no range: .*'hi'"),
        ({"low": 2, "high": 1}, "is no range: .*low <= high"),
        ({"low": 0, "high": 1, "log": True}, "is no range: .*low >= 1"),
    ],
)
def test_what_is_no_range_is_refused(values, message):
    with pytest.raises(UserError, match=message):
        distribution("optim.lr", values)


def test_a_model_without_a_space_names_those_that_have_one():
    with pytest.raises(
        UserError, match=r"model=theta has no search space; these have one: ridge, boosted_trees, dlinear"
    ):
        find_space(None, model="theta", typed=())


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("pred_len", "trials that differ in pred_len cannot be compared"),
        ("data.split.val", "trials that differ in data.split.val cannot be compared"),
        ("model", "trials that differ in model cannot be compared .*forecast tune model=VALUE"),
        ("callbacks.checkpoint.monitor", "cannot be compared"),
        ("logger", "logger changes no validation error"),
    ],
)
def test_a_key_that_cannot_be_tuned_is_refused(key, message):
    with pytest.raises(UserError, match=message):
        check_keys({key: [1, 2]})


def test_numbers_are_trained_with_as_the_report_shows_them():
    assert typed_point({"optim.lr": 0.0073664461482, "a.b": 0.1 + 0.2, "n": None, "s": "mse", "b": True}) == [
        *("optim.lr=0.00736645", "a.b=0.3", "n=null", "s=mse", "b=true")
    ]
