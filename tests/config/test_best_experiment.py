"""The experiment file of a trial: Hydra composes the same config from it as from the overrides."""

import pytest

from forecast.config import resolvers
from forecast.config.trials import train_config, write_experiment
from forecast.config.values import plain_values

WORDS = {
    "keys": ["model=dlinear", "data=demo", "optim.lr=0.003", "loss=huber", "seq_len=48", "label_len=0"],
    "slots": ["experiment=quickstart", "attention=full", "attention@model.cross_attention=prob", "schedule=cosine"],
    "variant": ["model=informer2020", "variant=mix", "attention.mechanism.factor=3", "logger=none"],
    "file": ["model=patchtst", "data=csv", "data.path=my.csv", "data.target=load", "data/split=ett_hourly"],
    "nothing": [],
}


@pytest.fixture(autouse=True)
def registered():
    resolvers.register()


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_a_file_composes_to_what_the_overrides_do(words, tmp_path):
    assert write_experiment(tmp_path, "best", words, comment=["of a test"])
    text = (tmp_path / "experiment/best.yaml").read_text()
    assert text.startswith("# @package _global_\n# of a test\n")
    found = plain_values(train_config(["experiment=best"], [str(tmp_path)]).values)
    wanted = plain_values(train_config(words).values)
    if "data.path=my.csv" in words:
        assert found["data"].pop("path").endswith("/my.csv") and wanted["data"].pop("path") == "my.csv"
    assert found == wanted


def test_a_file_says_no_more_than_differs(tmp_path):
    write_experiment(tmp_path, "best", ["model=dlinear", "optim.lr=0.003", "optim=adam"], comment=[])
    lines = (tmp_path / "experiment/best.yaml").read_text().splitlines()
    assert lines == [
        "# @package _global_",
        "defaults:",
        "- override /model: dlinear",
        "- _self_",
        "",
        "optim:",
        "  lr: 0.003",
    ]


def test_it_tells_where_a_file_cannot_say_the_same(tmp_path):
    assert not write_experiment(tmp_path, "best", ["~callbacks.figures"], comment=[])
