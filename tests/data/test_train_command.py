"""The command that trains on a file survives the shell and Hydra."""

import re
import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from forecast.text.overrides import hydra_value, train_words, typed, typed_word
from forecast.text.terminal import harmless

NAMES = [
    *("my.csv", "/data/a b.csv", "it's.csv", 'a"b.csv', "a=b.csv", "a,b.csv", "a;b.csv", "$HOME.csv", "a$(x).csv"),
    *("${oc.env:HOME}.csv", "a\\b.csv", "a\\", "\\'x", "null", "true", "12", "1e5", "1_0", ".5e-3", "[a].csv"),
    *("{a: b}.csv", "*.csv", "~/a.csv", "a#b.csv", "a!b.csv", "Größe.csv", "a:b.csv", " a.csv", "a%b@c.csv"),
    *("-.5", "x`y`.csv", "a\\${oc.env:HOME}", "a\\\\${b}\\", "", " ", "n'\n", "💧.csv"),
]
ACTING = ["a\x1b[2J.csv", "two\nlines'\\", "a\x9bb", "\t", "$(x)\x07"]


def as_read_by_a_shell(command):
    """The words of a command; $'...' as bash reads it, which shlex does not know (tests/text has bash itself)."""

    def plain(quoted):
        escaped = re.sub(r"\\x([0-9a-f]{2})", r"\\u00\1", quoted[1])
        return shlex.quote(re.sub(r"\\(u....|.)", lambda found: read(found[1]), escaped))

    def read(escape):
        return chr(int(escape[1:], 16)) if escape[1:] else {"n": "\n", "t": "\t"}.get(escape, escape)

    return shlex.split(re.sub(r"(?<= )\$'((?:[^'\\]|\\.)*)'", plain, command))


@pytest.mark.parametrize("name", NAMES + ACTING, ids=ascii)
def test_any_text_survives_the_shell_and_the_override_grammar(name):
    words = train_words("ridge", name, {"data.time_column": name, "seq_len": 96})
    assert as_read_by_a_shell(" ".join(map(typed_word, words))) == words
    assert words[:4] == ["forecast", "train", "model=ridge", "data=csv"]
    for override in OverridesParser.create().parse_overrides(words[4:6]):
        assert isinstance(override.value(), str)
        assert OmegaConf.create({"x": override.value()}).x == name
    assert words[6] == "seq_len=96"


def test_a_plain_value_is_not_quoted():
    assert hydra_value("/data/my-file_1.csv") == "/data/my-file_1.csv"
    assert typed("data.path", "a b.csv") == "data.path=\"'a b.csv'\""


@pytest.mark.parametrize("name", ACTING, ids=ascii)
def test_the_command_is_harmless_to_the_terminal_and_is_one_line(name):
    command = typed("data.time_column", name)
    assert harmless(command) == command
    assert "\n" not in command and "\t" not in command


def test_a_path_is_typed_so_that_hydra_sees_no_sweep_in_it():
    """Hydra's own names of folders hold = and commas."""
    word = typed("ckpt_path", "multirun/lr=0.1,seed=1/checkpoints/last.ckpt")
    (override,) = OverridesParser.create().parse_overrides(shlex.split(word))
    assert not override.is_sweep_override()
    assert override.value() == "multirun/lr=0.1,seed=1/checkpoints/last.ckpt"
