"""Search spaces: those of the program fit their models, and what is no space is refused in a sentence."""

import pytest
from config.composed import composed
from omegaconf import OmegaConf

from forecast.config.check import check_config
from forecast.config.compose import without_hydra
from forecast.config.space import (
    Choices,
    Range,
    as_it_stands,
    check_space,
    find_space,
    spaces,
    typed_keys,
    typed_point,
    written,
)
from forecast.config.values import options
from forecast.errors import UserError

DLINEAR = {"model": "dlinear", "typed": ()}


def corners(space):
    """Of each key its first and its last value."""
    return [
        {key: one.values[end] if isinstance(one, Choices) else (one.low, one.high)[end] for key, one in space.items()}
        for end in (0, -1)
    ]


@pytest.mark.parametrize("model", sorted(spaces()))
def test_a_space_of_the_program_has_keys_of_its_model_and_corners_that_pass_the_check(model):
    assert model in options("model")
    space = find_space(None, model=model, typed=())
    check_space(space)
    for point in corners(space):
        check_config(composed(f"model={model}", *typed_point(point)))


def test_what_was_typed_does_not_vary():
    everything = find_space(None, **DLINEAR)
    left = find_space(None, model="dlinear", typed=typed_keys(["optim.lr=0.1", "+loss=mae"]))
    assert left == {key: one for key, one in everything.items() if key not in ("optim.lr", "loss")}
    with pytest.raises(UserError, match="nothing is left to tune: leave some of them out"):
        find_space(None, model="dlinear", typed=list(everything))


def test_a_file_and_a_mapping_say_the_same(tmp_path):
    file = tmp_path / "space.yaml"
    file.write_text(
        "optim.lr: {low: 1e-4, high: 1e-2, log: true}\nloss: [mse, mae]\nmodel.dropout: {low: 0, high: 3}\n"
    )
    given = {"optim.lr": {"low": 1e-4, "high": 1e-2, "log": True}, "loss": ["mse", "mae"]}
    given["model.dropout"] = {"low": 0, "high": 3}
    space = find_space(str(file), **DLINEAR)
    assert space == find_space(given, **DLINEAR)
    assert written(space) == given
    assert space["model.dropout"].whole and not space["optim.lr"].whole


@pytest.mark.parametrize(
    ("values", "inside", "outside"),
    [
        (Range(low=1, high=3), [1, 3], [0, 4, 1.5, True, None]),
        (Range(low=0.0, high=0.5, step=0.1), [0.0, 0.3, 0.5, 0], [0.25, 0.6]),
        (Choices((None, 2, False)), [None, 2, False], [0, 2.0, "null"]),
    ],
)
def test_a_value_lies_in_its_range_or_not(values, inside, outside):
    assert [values.has(one) for one in (*inside, *outside)] == [True] * len(inside) + [False] * len(outside)


def test_the_config_as_it_stands_is_a_point_where_its_values_may_be_drawn():
    cfg, chosen = without_hydra(composed("model=dlinear", hydra=True))
    space = find_space({"optim.lr": {"low": 1e-4, "high": 1e-2}, "loss": ["mae", "mse"]}, **DLINEAR)
    assert as_it_stands(space, cfg, chosen) == {"optim.lr": 1e-4, "loss": "mse"}
    assert as_it_stands({**space, "seq_len": Choices((5, 7))}, cfg, chosen) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "tune.space names no key to vary"),
        ({"optim.lr": 3}, r"optim.lr=3 is no range: write a list"),
        ({"optim.lr": []}, r"optim.lr=\[\] is no range"),
        ({"optim.lr": [[1], [2]]}, r"optim.lr\[0\]=\[1\]: must be a valid boolean or"),
        ({"optim.lr": {"low": 1, "hi": 2}}, r"hi=2: unknown key. Did you mean 'high'\?"),
        ({"optim.lr": {"low": 2, "high": 1}}, "high must be above low"),
        ({"optim.lr": {"low": 1, "high": float("inf")}}, "high must be above low"),
        ({"optim.lr": {"low": 0, "high": 1, "log": True}}, "with log: true low must be above 0"),
        ({"optim.lr": {"low": "a", "high": 1}}, "low=a: must be a valid integer or a valid number"),
        ({"optim.lr": {"low": 1, "high": 3, "step": 0.5}}, "the step is one too; write low: 1.0"),
    ],
)
def test_what_is_no_space_is_refused(given, message):
    with pytest.raises(UserError, match=message):
        find_space(given, **DLINEAR)


@pytest.mark.parametrize("text", ["a: [", "- 1\n", "a: ${b}\n", ""])
def test_a_file_that_is_no_space_is_refused(text, tmp_path):
    file = tmp_path / "space.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=r"tune.space=.*(cannot be read: .*It is a YAML file|names no key to vary)"):
        find_space(str(file), **DLINEAR)
    with pytest.raises(UserError, match=r"nix\.yaml cannot be read: No such file"):
        find_space(str(tmp_path / "nix.yaml"), **DLINEAR)


def test_a_model_without_a_space_names_those_that_have_one():
    with pytest.raises(
        UserError, match=r"model=theta has no search space; these have one: ridge, boosted_trees, dlinear"
    ):
        find_space(None, model="theta", typed=())


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("pred_len", "trials that differ in pred_len cannot be compared"),
        ("data", "trials that differ in data cannot be compared"),
        ("data.split.val", "trials that differ in data.split.val cannot be compared"),
        ("model", "trials that differ in model cannot be compared .*forecast tune model=VALUE"),
        ("callbacks.checkpoint.monitor", "cannot be compared"),
        ("logger", "logger changes no validation error"),
        ("level", "level changes no validation error"),
    ],
)
def test_a_key_that_cannot_be_tuned_is_refused(key, message):
    with pytest.raises(UserError, match=message):
        check_space({key: Choices((1, 2))})


def test_numbers_are_trained_with_as_the_report_shows_them():
    assert typed_point({"optim.lr": 0.0073664461482, "a.b": 0.1 + 0.2, "n": None, "s": "mse", "b": True}) == [
        *("optim.lr=0.00736645", "a.b=0.3", "n=null", "s=mse", "b=true")
    ]


def test_keys_with_dots_stay_whole_in_a_config():
    cfg = composed("tune.space={optim.lr: [1e-3]}", name="tune")
    assert OmegaConf.to_container(cfg.tune.space) == {"optim.lr": [1e-3]}
