"""forecast inspect-checkpoint: a checkpoint on one page."""

import json
import re
import shlex
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
    return printed


def test_of_a_model_without_a_decoder_it_shows_no_label_len(tmp_path, capsys):
    """And it takes the path as other commands do."""
    path = write_untrained(tmp_path / "it, is.ckpt", *DEMO, *LENGTHS, "model=nlinear")
    printed = card(capsys, f"ckpt_path='{path}'")
    assert "  seq_len     22\n  pred_len    5\n" in printed and "label_len" not in printed


def changed(path, target, change):
    content = torch.load(path, weights_only=True)
    change(content)
    torch.save(content, target)
    return target


def test_the_card_says_what_the_checkpoint_is(run, capsys):
    printed = " ".join(card(capsys, run / "checkpoints/best.ckpt").split())
    metrics = json.loads((run / "metrics.json").read_text())
    for text in (
        f"file {run}/checkpoints/best.ckpt format 4",
        f"model informer parameters {metrics['parameters']}",
        "sizes d_model 14, n_heads 2, d_ff 17",
        "attention cross full, decoder prob, encoder prob",
        "seq_len 19 label_len 7 pred_len 5 epoch 1 step 9 is_best True",
        "columns (load, wind), targets (load, wind)",
        "splits (train (0, 280), val (280, 320), test (320, 400))",
        f"{run.parent}/own.csv",
        f"test (windows 76, mse {metrics['test']['scaled']['mse']:.6g}, mae",
        f"torch {torch.__version__}",
        "scaler load (mean ",
    ):
        assert text in printed, text


def test_the_card_is_one_page(run, untrained, capsys):
    for path in (run / "checkpoints/best.ckpt", untrained):
        lines = card(capsys, path).splitlines()
        assert len(lines) <= 40
        assert all(len(line) <= 120 for line in lines if str(path.parent) not in line)


def test_the_next_commands_run(run, capsys, tmp_path, monkeypatch):
    printed = card(capsys, run / "checkpoints/best.ckpt")
    commands = [shlex.split(line) for line in re.findall(r"forecast (\w+ .*)", printed)]
    assert [command[0] for command in commands] == ["evaluate", "predict", "train"]
    assert commands[2][1].endswith("last.ckpt") and commands[2][2] == "trainer.max_epochs=2"
    monkeypatch.chdir(tmp_path)
    for program, *arguments in commands[:2]:
        call(program, *arguments, f"hydra.run.dir={tmp_path}/{program}")
    assert (tmp_path / "forecast.csv").exists() and (tmp_path / "evaluate/metrics.json").exists()


def test_json_holds_the_same(run, capsys):
    status, printed, _ = call_script(capsys, "inspect_checkpoint", run / "checkpoints/last.ckpt", "--json")
    contents = json.loads(printed)
    content = torch.load(run / "checkpoints/last.ckpt", weights_only=True)
    assert status == 0
    assert (contents["epoch"], contents["step"], contents["is_best"]) == (1, content["global_step"], True)
    scale = content[RECORD]["series"]["scale"]
    assert contents["scaler"]["wind"] == {key: float(scale[key][0, 1]) for key in ("mean", "std")}
    assert contents["data"]["splits"] == {"train": [0, 280], "val": [280, 320], "test": [320, 400]}
    assert contents["metrics"]["test"]["mse"] == json.loads((run / "metrics.json").read_text())["test"]["scaled"]["mse"]


def test_a_checkpoint_without_its_run_has_no_figures(run, untrained, capsys, tmp_path):
    shutil.copy(run / "checkpoints/best.ckpt", tmp_path / "best.ckpt")
    for path in (tmp_path / "best.ckpt", untrained):
        printed = card(capsys, path)
        assert "mse" not in printed and f"forecast train ckpt_path={path}" in printed


def test_an_imported_checkpoint_says_so_and_is_not_trained_further(untrained, capsys, tmp_path):
    imported = {"file": "checkpoint.pth", "sha256": "0"}
    path = changed(untrained, tmp_path / "imported.ckpt", lambda content: content[RECORD].update(imported=imported))
    printed = card(capsys, path)
    assert "imported    file checkpoint.pth" in printed and "forecast train" not in printed


def test_many_columns_are_counted_and_a_path_with_a_space_is_quoted(untrained, capsys, tmp_path):
    def change(content):
        data = content[RECORD]["data"]
        names = [f"c{i}" for i in range(1000)]
        data |= {"columns": names, "targets": names}
        ones = torch.ones(1, 1000, dtype=torch.float64)
        scale = content[RECORD]["series"]["scale"]
        scale |= {"mean": ones / 2, "std": 2 * ones, "naive": {"period": 24, "absolute": ones, "squared": ones}}

    printed = card(capsys, changed(untrained, tmp_path / "many columns.ckpt", change))
    assert printed.count("and 980 more: --json shows all") == 3 and len(printed.splitlines()) <= 40
    assert f"forecast evaluate ckpt_path=\"'{tmp_path}/many columns.ckpt'\"" in printed


def test_a_file_that_is_no_checkpoint_is_one_message(tmp_path, capsys):
    (tmp_path / "a.ckpt").write_text("no")
    status, printed, message = call_script(capsys, "inspect_checkpoint", tmp_path / "a.ckpt")
    assert (status, printed) == (1, "")
    assert "a.ckpt is damaged or was written by another program" in message and message.count("\n") == 1
