"""forecast inspect-checkpoint: a checkpoint as JSON."""

import json
import shutil

import pytest
import torch
from apps.files import LAYOUT, OWN, write_csv
from checkpoints import DEMO, LENGTHS, write_untrained
from program import call
from script import call_script

from forecast.checkpoint.record import RECORD


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The run folder of a tiny training on a file of the user's own."""
    folder = tmp_path_factory.mktemp("inspected")
    write_csv(folder / "own.csv")
    call("train", *OWN, *LAYOUT, f"data.path={folder}/own.csv", f"hydra.run.dir={folder}/run")
    return folder / "run"


@pytest.fixture
def untrained(tmp_path):
    """A checkpoint without its run."""
    return write_untrained(tmp_path / "alone.ckpt", *DEMO, *LENGTHS)


def card(capsys, path):
    status, printed, message = call_script(capsys, "inspect_checkpoint", path)
    assert (status, message) == (0, "")
    return json.loads(printed)


def test_of_a_model_without_a_decoder_it_shows_no_label_len(tmp_path, capsys):
    """And it takes the path as other commands do."""
    path = write_untrained(tmp_path / "it, is.ckpt", *DEMO, *LENGTHS, "model=nlinear")
    shown = card(capsys, f"ckpt_path='{path}'")
    assert (shown["seq_len"], shown["label_len"], shown["pred_len"]) == (22, None, 5)


def changed(path, target, change):
    content = torch.load(path, weights_only=True)
    change(content)
    torch.save(content, target)
    return target


def test_the_card_says_what_the_checkpoint_is(run, capsys):
    contents = card(capsys, run / "checkpoints/last.ckpt")
    content = torch.load(run / "checkpoints/last.ckpt", weights_only=True)
    assert contents["sizes"]["d_model"] == 14 and contents["model"] == "informer"
    assert contents["attention"] == {"cross": "full", "decoder": "prob", "encoder": "prob"}
    assert (contents["epoch"], contents["step"], contents["is_best"]) == (1, content["global_step"], True)
    scale = content[RECORD]["series"]["scale"]
    assert contents["scaler"]["wind"] == {key: float(scale[key][0, 1]) for key in ("mean", "std")}
    assert contents["data"]["splits"] == {"train": [0, 280], "val": [280, 320], "test": [320, 400]}
    assert contents["metrics"]["test"]["mse"] == json.loads((run / "metrics.json").read_text())["test"]["scaled"]["mse"]


def test_a_checkpoint_without_its_run_has_no_figures(run, untrained, capsys, tmp_path):
    shutil.copy(run / "checkpoints/best.ckpt", tmp_path / "best.ckpt")
    for path in (tmp_path / "best.ckpt", untrained):
        assert card(capsys, path)["metrics"] == {}


def test_an_imported_checkpoint_says_so(untrained, capsys, tmp_path):
    imported = {"file": "checkpoint.pth", "sha256": "0"}
    path = changed(untrained, tmp_path / "imported.ckpt", lambda content: content[RECORD].update(imported=imported))
    assert card(capsys, path)["imported"] == imported


def test_a_file_that_is_no_checkpoint_is_one_message(tmp_path, capsys):
    (tmp_path / "a.ckpt").write_text("no")
    status, printed, message = call_script(capsys, "inspect_checkpoint", tmp_path / "a.ckpt")
    assert (status, printed) == (1, "")
    assert "a.ckpt is damaged or was written by another program" in message and message.count("\n") == 1
