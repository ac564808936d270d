"""The command that trains on a file survives the shell and Hydra."""

import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from forecast.data.train_command import hydra_value, train_command

NAMES = [
    *("my.csv", "/data/a b.csv", "it's.csv", 'a"b.csv', "a=b.csv", "a,b.csv", "a;b.csv", "$HOME.csv", "a$(x).csv"),
    *("${oc.env:HOME}.csv", "a\\b.csv", "a\\", "\\'x", "null", "true", "12", "1e5", "1_0", ".5e-3", "[a].csv"),
    *("{a: b}.csv", "*.csv", "~/a.csv", "a#b.csv", "a!b.csv", "Größe.csv", "a:b.csv", " a.csv", "a%b@c.csv"),
    *("-.5", "x`y`.csv"),
]


@pytest.mark.parametrize("name", NAMES)
def test_any_text_survives_the_shell_and_the_override_grammar(name):
    words = shlex.split(train_command(name, {"data.time_column": name, "seq_len": 96}))
    assert words[:3] == ["forecast", "train", "data=csv"]
    for override in OverridesParser.create().parse_overrides(words[3:5]):
        assert isinstance(override.value(), str)
        assert OmegaConf.create({"x": override.value()}).x == name
    assert words[5] == "seq_len=96"


def test_a_plain_value_is_not_quoted():
    assert hydra_value("/data/my-file_1.csv") == "/data/my-file_1.csv"
    assert train_command("a b.csv", {"data.separator": ";"}) == (
        "forecast train data=csv data.path=\"'a b.csv'\" data.separator=\"';'\""
    )
