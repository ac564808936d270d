"""What metrics.json says of a run beside its errors, and the command for another training on the same data."""

import shlex
from pathlib import Path

import pytest

from forecast.apps.common.page import data_name, description, same_data
from forecast.checkpoint.load import Checkpoint
from forecast.checkpoint.record import Record
from forecast.config.run_config import composed

CHOICES = {"model": "informer", "attention": "prob", "protocol": "all_windows", "schedule": "halve_each_epoch"}


def trained(*overrides, data="csv", split="shares", **more):
    """The checkpoint of a training with these overrides, as far as a description reads it."""
    config = composed([f"data={data}", *([f"data/split={split}"] if split else []), *overrides]).config
    if config.data.path:
        config = config.with_(data={**config.data.node, "path": str(Path(config.data.path).absolute())})
    record = {
        "versions": {},
        "config": config,
        "choices": CHOICES | {"data": data, "data/split": split},
        "data": {"path": config.data.path, "windows": {"train": 83}},
        "series": None,
        "parameters": 71,
    }
    return Checkpoint(path=Path("best.ckpt"), record=Record(**record | more), weights={}, epoch=2, step=7, is_best=True)


@pytest.mark.parametrize(
    ("overrides", "choices"),
    [
        (["data.path=my.csv"], {}),
        (["data.path='it, is=my.csv'", "data.target='a b'", "data.separator=';'", "pred_len=7", "label_len=3"], {}),
        (["data.path=my.csv", "data.where={region: Albany}", "data.missing=[M,-200]", "data.columns=[a,b]"], {}),
        (["data.path=my.csv", "data.split.train=0.6", "data.split.val=0.2"], {}),
        (
            ["data.path=my.csv", "data.split.val_start=2020-01-01", "data.split.test_start=2021-01-01"],
            {"split": "dates"},
        ),
        (["data.features=S"], {"data": "ETTh1", "split": "ett_hourly"}),
        (["data.root=/elsewhere"], {"data": "ETTh1", "split": "ett_hourly"}),
        (["data.rows=500", "seq_len=12", "label_len=0"], {"data": "demo"}),
    ],
)
def test_the_command_for_the_same_data_composes_to_the_same_data_and_lengths(overrides, choices):
    """As a shell splits it, and Hydra reads it."""
    checkpoint = trained(*overrides, "model.d_model=64", "data.batch_size=7", **choices)
    again = composed(["model=nlinear", *shlex.split(" ".join(same_data(checkpoint)))]).config
    config = checkpoint.config
    assert again.data.node | {"batch_size": 7} == config.data.node
    assert again.lengths == config.lengths and again.label_len == config.label_len


def test_it_names_no_more_than_what_is_not_as_usual():
    words = ["data=csv", f"data.path={Path('my.csv').absolute()}", "seq_len=96", "pred_len=7"]
    assert same_data(trained("data.path=my.csv", "pred_len=7")) == words
    assert same_data(trained(data="demo")) == ["data=demo", "seq_len=96", "pred_len=24"]


@pytest.mark.parametrize(
    "changes", [{"choices": CHOICES | {"data": "gone"}}, {"choices": CHOICES | {"data": "demo"}}, {"choices": CHOICES}]
)
def test_an_option_that_is_gone_or_of_another_class_has_no_command(changes):
    assert same_data(trained("data.path=my.csv", **changes)) is None


def test_a_file_of_ones_own_is_named_and_a_name_of_ones_own_stays():
    assert data_name(trained("data.path=/here/co2.csv")) == "co2.csv"
    assert data_name(trained("data.path=/here/co2.csv", "data.name=air")) == "air"
    assert data_name(trained(data="demo")) == "demo"


@pytest.mark.parametrize(
    ("model", "steps"), [("informer", 3), ("informer_plus", 3), ("ridge", None), ("dlinear", None)]
)
def test_a_model_without_a_decoder_has_no_label_len(model, steps):
    described = description(trained("data.path=my.csv", "label_len=3", f"model={model}"), "all_windows")
    assert described["label_len"] == steps and described["seq_len"] == 96


@pytest.mark.parametrize(("value", "trial"), [("false", False), ("true", True), ("3", True)])
def test_a_fast_dev_run_is_a_trial(value, trial):
    described = description(trained("data.path=my.csv", f"trainer.fast_dev_run={value}"), "all_windows")
    assert described.get("trial", False) is trial


def test_an_attention_of_ones_own_is_named_by_its_class_in_its_slots():
    slots = {f"attention@model.{slot}_attention": "inherit" for slot in ("encoder", "decoder")}
    choices = CHOICES | slots | {"attention@model.cross_attention": "full"}
    run = trained("attention.mechanism._target_=my.Own", "data.path=my.csv", choices=choices)
    said = description(run, "all_windows")
    assert said["attention"] == "my.Own"
    assert said["attention_slots"] == {"encoder": "my.Own", "decoder": "my.Own", "cross": "full"}
