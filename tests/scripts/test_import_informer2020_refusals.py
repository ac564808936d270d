"""forecast import-informer2020: what it does not take, and in which words."""

import os
import pickle

import pytest
import torch
from checkpoints import DEMO, LENGTHS, write_untrained
from informer2020 import config_of
from scripts.imports import (
    columns_of,
    command,
    golden_case,
    imported,
    make_parser,
    options,
    refused,
    script,
    weights,
    write_csv,
)

from forecast.checkpoint.load import load_checkpoint
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
    "a tensor": (torch.zeros(2), "holds a Tensor, but a state dict is needed"),
    "an empty dict": ({}, "holds a dict, but a state dict is needed"),
    "numbers": ({"projection.weight": 3.5}, "'projection.weight' is a float and no tensor"),
    "one of ours": ({"forecast": {}, "state_dict": {}}, "is a checkpoint of this program already"),
    "another model": (
        {"fc.weight": torch.zeros(2, 3)},
        "is no Informer of the authors: none of its 1 names, such as fc",
    ),
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
    assert "checkpoint.pth is damaged or was written by another program: the checksum of its part 'checkpoint/data/" in message


def test_missing_extra_and_misshapen_names_are_listed_together_with_their_shapes(prob, tmp_path):
    state = weights(prob)
    del state["encoder.norm.bias"], state["decoder.layers.0.self_attention.key_projection.weight"]
    state["decoder.norm.gain"] = torch.zeros(3, 5)
    c = config_of(prob)
    n, d_model, d_ff = c["c_out"], c["d_model"], c["d_ff"]
    state["projection.weight"] = torch.zeros(n + 3, d_model)
    state["decoder.layers.0.conv1.weight"] = torch.zeros(d_ff, d_model)  # a linear layer of ours has this shape
    lines = refused(tmp_path, state, *command(tmp_path, prob)).splitlines()
    assert lines[0].endswith("checkpoint.pth does not hold the model that these options and data make:")
    assert lines[1:6] == [
        f"missing: encoder.norm.bias ({d_model})",
        f"missing: decoder.layers.0.self_attention.key_projection.weight ({d_model}, {d_model})",
        "extra: decoder.norm.gain (3, 5)",
        f"shape: decoder.layers.0.conv1.weight is ({d_ff}, {d_model}), expected ({d_ff}, {d_model}, 1)",
        f"shape: projection.weight is ({n + 3}, {d_model}), expected ({n}, {d_model})",
    ]
    where = f"{tmp_path}/own.csv with --features M says {n}: check --data and --features"
    assert lines[6:] == [f"c_out: the file says {n + 3}, {where}"]


# Other options than the file was trained with: the end of the message.
WRONG = {
    "distilling": (["informer_prob", "--distil"], "(no --distil)"),
    "no distilling": (["informer_full_nodistil_nomix", "-distil"], "--distil"),
    "layers of the encoder": (["informer_prob_deep", "--e_layers", "2"], "--e_layers {e_layers}"),
    "layers of the decoder": (["informer_prob_deep", "--d_layers", "1"], "--d_layers {d_layers}"),
    "widths": (["informer_prob", "--d_model", "12", "--d_ff", "28"], "--d_model {d_model} --d_ff {d_ff}"),
    "one encoder": (["informer_stack", "--model", "informer"], "--model informerstack"),
    "several encoders": (["informer_prob", "--model", "informerstack"], "--model informer"),
    "layers of a stack": (["informer_stack", "--s_layers", "2,1,1"], "--s_layers 3,2,1"),
    "the calendar": (["informer_prob", "--embed", "fixed"], "--embed timeF"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_option_is_guessed_from_the_file(wrong, golden, tmp_path):
    (name, *words), guess = WRONG[wrong]
    case = golden_case(golden, name)
    arguments = options(case, *(word.removeprefix("--") for word in words))
    arguments = [word for word in arguments if word != "--distil"] if "-distil" in words else [*arguments, *words]
    message = refused(tmp_path, weights(case), *write_csv(tmp_path / "own.csv", case), *arguments)
    assert message.splitlines()[-1] == f"The names and shapes in the file look like {guess.format(**config_of(case))}."


def test_other_columns_than_trained_on_are_put_down_to_data_and_features(prob, tmp_path):
    arguments = command(tmp_path, prob, "enc_in", "dec_in", "c_out", more=["snow"])
    lines = refused(tmp_path, weights(prob), *arguments).splitlines()
    n, d_model = config_of(prob)["enc_in"], config_of(prob)["d_model"]
    where = f"{tmp_path}/own.csv with --features M says {n + 1}: check --data and --features"
    assert lines[-3:] == [f"{name}: the file says {n}, {where}" for name in ("enc_in", "dec_in", "c_out")]
    name = "enc_embedding.value_embedding.tokenConv.weight"
    assert f"shape: {name} is ({d_model}, {n}, 3), expected ({d_model}, {n + 1}, 3)" in lines


def test_a_calendar_that_cannot_be_completed_is_refused(prob, tmp_path):
    arguments, d_model = command(tmp_path, prob, freq="D"), config_of(prob)["d_model"]
    name = "enc_embedding.temporal_embedding.embed.weight"
    message = refused(tmp_path, weights(prob), *arguments)
    assert f"shape: {name} is ({d_model}, 4), expected ({d_model}, 3)" in message
    assert "d_time: the file says 4," in message and "another --freq or --embed than for these data" in message
    message = refused(tmp_path, {**weights(prob), name: torch.zeros(d_model, 2)}, *arguments)
    assert f"shape: {name} is ({d_model}, 2), expected ({d_model}, 3)" in message


REFUSED = {
    "another number of columns": (["--enc_in", "97"], "--enc_in 97: "),
    "another number of targets": (["--c_out", "1"], "--c_out 1: "),
    "ones in place of the future": (["--padding", "1"], "--padding 1: the decoder of this program reads zeros"),
    "no such target": (["--target", "wint"], "such column, only {columns}. Did you mean 'wind'?"),
    "a start token longer than the window": (["--label_len", "997"], "label_len=997: the decoder starts with the last"),
    "heads that do not share the width": (["--n_heads", "97"], "--d_model"),
    "no such file": (["--data_path", "other.csv"], "other.csv: there is no such file"),
    "learned calendar tables": (
        ["--embed", "learned"],
        "--embed learned: this program has no learned tables of the calendar, only timeF and fixed.",
    ),
    "dropout": (["--dropout", "1.5"], "--dropout=1.5: must be at least 0 and less than 1"),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_options_that_cannot_be_are_refused_in_their_words(wrong, prob, tmp_path):
    words, expected = REFUSED[wrong]
    message = refused(tmp_path, weights(prob), *command(tmp_path, prob), *words)
    assert expected.format(columns=", ".join(columns_of(prob))) in message and "model." not in message


def test_custom_data_need_a_file_and_ms_of_an_ett_file_its_last_column(prob, tmp_path):
    message = refused(tmp_path, weights(prob), "--data", "custom")
    assert message.startswith("--data custom: which file? Say --data_path FILE.csv")
    write_csv(tmp_path / "own.csv", prob)
    words = ["--data", "ETTh1", "--data_path", tmp_path / "own.csv", "--features", "MS", "--target", "OT"]
    message = refused(tmp_path, weights(prob), *words)
    assert f"the authors' code forecasts the last column, {columns_of(prob)[-1]}, whatever" in message


def test_what_is_not_finite_is_not_written(prob, tmp_path):
    state = weights(prob)
    state["encoder.norm.bias"][5] = torch.nan
    message = refused(tmp_path, state, *command(tmp_path, prob))
    assert message == "The forecast of the imported model for the first test window is not finite."


def test_a_refusal_leaves_the_file_of_before_and_names_an_impossible_place(prob, tmp_path):
    arguments = command(tmp_path, prob)
    before = imported(tmp_path, weights(prob), *arguments).read_bytes()
    with pytest.raises(UserError):
        imported(tmp_path, {"projection.weight": torch.zeros(4, 16)}, *arguments)
    assert (tmp_path / "out.ckpt").read_bytes() == before and not list(tmp_path.glob("*.part"))
    (tmp_path / f".out.ckpt.{os.getpid()}.part").mkdir()  # in the way of what is written beside the place
    with pytest.raises(UserError, match=r"out\.ckpt cannot be written: Is a directory\. Make room, or choose another"):
        imported(tmp_path, weights(prob), *arguments)
    for output, message in (("no/out.ckpt", "there is no folder"), ("checkpoint.pth", "is the file to import")):
        places = [tmp_path / "checkpoint.pth", tmp_path / output]
        with pytest.raises(UserError, match=message):
            script.main(make_parser().parse_args([*map(str, [*places, *arguments])]))


def test_no_input_and_no_file_of_somebody_elses_is_written_over(prob, tmp_path):
    arguments = command(tmp_path, prob)
    torch.save(weights(prob), tmp_path / "checkpoint.pth")

    def run(output, *more):
        script.main(make_parser().parse_args([*map(str, [tmp_path / "checkpoint.pth", output, *arguments]), *more]))

    (tmp_path / "out.ckpt").hardlink_to(tmp_path / "own.csv")
    with pytest.raises(UserError, match=r"out\.ckpt is the file of the data and would be overwritten"):
        run(tmp_path / "out.ckpt", "--overwrite")
    mine = write_untrained(tmp_path / "best.ckpt", *DEMO, *LENGTHS, "model=nlinear")
    content = mine.read_bytes()
    with pytest.raises(UserError, match=r"best\.ckpt is there and is not an imported checkpoint.*or say --overwrite$"):
        run(mine)
    assert mine.read_bytes() == content
    run(mine, "--overwrite")
    assert load_checkpoint(mine).record.imported is not None
