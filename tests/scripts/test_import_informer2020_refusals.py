"""forecast import-informer2020: what it does not take, and in which words."""

import os

import pytest
import torch
from informer2020 import config_of
from scripts.imports import (
    columns_of,
    command,
    golden_case,
    imported,
    make_parser,
    refused,
    script,
    weights,
    write_csv,
)

from forecast.errors import UserError


@pytest.fixture
def prob(golden):
    return golden_case(golden, "informer_prob")


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_what_would_execute_code_is_named_and_not_executed(tmp_path):
    message = refused(tmp_path, {"projection.weight": Hostile(tmp_path / "trace")}, "--data", "ETTh1")
    assert "holds 'posix.mkdir', an object that could execute code on loading" in message
    assert not (tmp_path / "trace").exists()
    assert "holds 'torch.nn.modules.linear.Linear'" in refused(tmp_path, torch.nn.Linear(3, 5), "--data", "ETTh1")


NOT_ONE = {
    "text": (b"0.5,0.25\n", "is damaged or was written by another program"),
    "missing": (None, "no such file. The authors' code writes"),
    "a tensor": (torch.zeros(2), "holds no state dict"),
    "numbers": ({"projection.weight": 3.5}, "holds no state dict"),
    "another model": ({"fc.weight": torch.zeros(2, 3)}, "extra: fc.weight (2, 3)"),
}


@pytest.mark.parametrize("what", NOT_ONE)
def test_what_is_no_state_dict_of_theirs_is_refused_in_words(what, tmp_path):
    content, expected = NOT_ONE[what]
    if isinstance(content, bytes):
        (tmp_path / "checkpoint.pth").write_bytes(content)
        content = None
    assert expected in refused(tmp_path, content, *write_csv(tmp_path / "own.csv"), "--pred_len", "19")


def test_a_file_with_a_damaged_weight_is_refused(prob, tmp_path):
    torch.save(weights(prob), tmp_path / "checkpoint.pth")
    content = bytearray((tmp_path / "checkpoint.pth").read_bytes())
    content[content.index(prob["params/projection.weight"].tobytes()) + 5] ^= 1
    (tmp_path / "checkpoint.pth").write_bytes(content)
    message = refused(tmp_path, None, *command(tmp_path, prob))
    assert "checkpoint.pth is damaged or was written by another program: its part 'checkpoint/data/" in message


def test_missing_extra_and_misshapen_names_are_listed_together_with_their_shapes(prob, tmp_path):
    state = weights(prob)
    del state["encoder.norm.bias"], state["decoder.layers.0.self_attention.key_projection.weight"]
    state["decoder.norm.gain"] = torch.zeros(3, 5)
    c = config_of(prob)
    n, d_model, d_ff = c["c_out"], c["d_model"], c["d_ff"]
    state["projection.weight"] = torch.zeros(n + 3, d_model)
    state["decoder.layers.0.conv1.weight"] = torch.zeros(d_ff, d_model)  # a linear layer of ours has this shape
    lines = refused(tmp_path, state, *command(tmp_path, prob)).splitlines()
    assert lines == [
        f"missing: encoder.norm.bias ({d_model})",
        f"missing: decoder.layers.0.self_attention.key_projection.weight ({d_model}, {d_model})",
        "extra: decoder.norm.gain (3, 5)",
        f"shape: decoder.layers.0.conv1.weight is ({d_ff}, {d_model}), expected ({d_ff}, {d_model}, 1)",
        f"shape: projection.weight is ({n + 3}, {d_model}), expected ({n}, {d_model})",
    ]


def test_a_calendar_that_cannot_be_completed_is_refused(prob, tmp_path):
    arguments, d_model = command(tmp_path, prob, freq="D"), config_of(prob)["d_model"]
    name = "enc_embedding.temporal_embedding.embed.weight"
    message = refused(tmp_path, weights(prob), *arguments)
    assert f"shape: {name} is ({d_model}, 4), expected ({d_model}, 3)" in message
    message = refused(tmp_path, {**weights(prob), name: torch.zeros(d_model, 2)}, *arguments)
    assert f"shape: {name} is ({d_model}, 2), expected ({d_model}, 3)" in message


REFUSED = {
    "no such target": (["--target", "wint"], "Did you mean 'wind'?"),
    "a start token longer than the window": (["--label_len", "997"], "label_len=997: the decoder starts with the last"),
    "heads that do not share the width": (["--n_heads", "97"], "model.d_model"),
    "no such file": (["--data_path", "other.csv"], "other.csv: there is no such file"),
    "dropout": (["--dropout", "1.5"], "model.dropout=1.5: must be at least 0 and less than 1"),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_options_that_cannot_be_are_refused(wrong, prob, tmp_path):
    words, expected = REFUSED[wrong]
    assert expected in refused(tmp_path, weights(prob), *command(tmp_path, prob), *words)


@pytest.mark.parametrize("words", [["--padding", "1"], ["--embed", "learned"]])
def test_what_their_code_can_and_ours_cannot_is_no_choice(words, capsys):
    with pytest.raises(SystemExit) as stop:
        make_parser().parse_args(["checkpoint.pth", "out.ckpt", "--data", "ETTh1", *words])
    assert stop.value.code == 2 and f"argument {words[0]}: invalid choice" in capsys.readouterr().err


def test_ms_of_an_ett_file_needs_its_last_column(prob, tmp_path):
    write_csv(tmp_path / "own.csv", prob)
    words = ["--data", "ETTh1", "--data_path", tmp_path / "own.csv", "--features", "MS", "--target", "OT"]
    message = refused(tmp_path, weights(prob), *words)
    assert f"the authors' code forecasts the last column, {columns_of(prob)[-1]}, whatever" in message


def test_a_refusal_leaves_the_file_of_before_and_names_an_impossible_place(prob, tmp_path):
    arguments = command(tmp_path, prob)
    before = imported(tmp_path, weights(prob), *arguments).read_bytes()
    with pytest.raises(UserError):
        imported(tmp_path, {"projection.weight": torch.zeros(4, 16)}, *arguments)
    assert (tmp_path / "out.ckpt").read_bytes() == before and not list(tmp_path.glob("*.part"))
    (tmp_path / f".out.ckpt.{os.getpid()}.part").mkdir()  # in the way of what is written beside the place
    with pytest.raises(UserError, match=r"out\.ckpt cannot be written: Is a directory\. Make room"):
        imported(tmp_path, weights(prob), *arguments)


def test_a_file_is_written_over_only_on_request(prob, tmp_path):
    (tmp_path / "best.ckpt").write_text("mine")
    words = [str(word) for word in ("checkpoint.pth", tmp_path / "best.ckpt", *command(tmp_path, prob))]
    with pytest.raises(UserError, match=r"best\.ckpt is there\. Nothing is overwritten: .*, or say --overwrite$"):
        script.main(make_parser().parse_args(words))
    assert (tmp_path / "best.ckpt").read_text() == "mine"
