"""evaluate.py: the same numbers as the training's own evaluation, on any split, in any batches."""

import json
import shutil

import numpy as np
import pytest
import torch
from commands.files import write_csv
from program import call, refusal


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)


WITHOUT_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def evaluated(folder, best, *changes):
    call("evaluate", f"ckpt_path={best}", *changes, f"hydra.run.dir={folder}")
    return json.loads((folder / "metrics.json").read_text())


@pytest.fixture(scope="module")
def again(best, tmp_path_factory):
    return evaluated(tmp_path_factory.mktemp("again"), best)


def test_evaluate_gives_the_trainings_own_test_block(again, trained):
    for key in ("test", "baselines", "parameters", "best_epoch", "attention_slots", "seed"):
        assert again[key] == trained[key], key


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_the_batch_size_changes_nothing(tmp_path, best, again, batch_size):
    other = evaluated(tmp_path, best, f"data.batch_size={batch_size}")
    assert other["test"] == again["test"]
    assert other["baselines"] == again["baselines"]


def test_validation_windows_are_evaluated_on_request(tmp_path, best, trained):
    result = evaluated(tmp_path, best, "split=val")
    assert {key: result["val"][key] for key in trained["val"]} == trained["val"]
    assert "test" not in result


def test_another_file_is_evaluated_whole_with_the_training_files_scaling(tmp_path, best, csv_run):
    write_csv(tmp_path / "other.csv", rows=83, start="2022-01-01", seed=1)
    result = evaluated(tmp_path / "run", best, f"data.path={tmp_path}/other.csv", "split=all")
    assert result["all"]["windows"] == 83 - 19 - 5 + 1
    assert result["evaluated_file"].endswith("other.csv")
    with np.load(tmp_path / "run/errors_by_window.npz") as errors:
        assert errors["start"].tolist() == list(range(60))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"freq": "h"}, "has the frequency 'h'; the model was trained on '15min'"),
        ({"columns": ("load", "winds")}, "no column 'wind'"),
        ({"rows": 23}, "has 23 rows; one window needs seq_len + pred_len = 19 + 5"),
    ],
)
@pytest.mark.usefixtures("elsewhere")
def test_a_file_unlike_the_one_trained_on_is_refused(tmp_path, best, capsys, options, message):
    write_csv(tmp_path / "other.csv", **options)
    text = refusal(capsys, "evaluate", f"ckpt_path={best}", f"data.path={tmp_path}/other.csv", "split=all")
    assert message in text


def test_a_trained_file_that_has_changed_is_refused(csv_run, capsys, elsewhere):
    """More rows would move the splits: test windows of the longer file were train rows of the shorter one."""
    own = csv_run.parent / "own.csv"
    before = own.read_text()
    try:
        own.write_text(before.replace("100", "101", 1))
        text = refusal(capsys, "evaluate", f"ckpt_path={csv_run}/checkpoints/best.ckpt")
    finally:
        own.write_text(before)
    assert "the file has changed" in text and "split=all" in text


def test_rows_that_the_model_has_seen_are_warned_of(tmp_path, best, csv_run, caplog):
    shutil.copy(csv_run.parent / "own.csv", tmp_path / "copy.csv")
    with caplog.at_level("WARNING"):
        evaluated(tmp_path / "run", best, f"data.path={tmp_path}/copy.csv", "split=all")
    assert "not later than" in (tmp_path / "run/evaluate.log").read_text()


@pytest.mark.parametrize(
    "changes, words",
    [
        (["ckpt_path=none.ckpt"], ["none.ckpt", "no such file"]),
        (["split=tset"], ["train, val, test", "Did you mean 'test'?"]),
        (["split=all"], ["split=all needs data.path=FILE"]),
        ([], ["ckpt_path"]),
        (["device=gpu"], ["device=gpu", "auto, cpu, cuda"]),
        pytest.param(["device=cuda"], ["torch sees no GPU"], marks=WITHOUT_GPU),
        (["batch_size=3"], ["batch_size", "data.batch_size"]),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(best, capsys, elsewhere, changes, words):
    arguments = changes if not changes or changes[0].startswith("ckpt_path") else [f"ckpt_path={best}", *changes]
    text = refusal(capsys, "evaluate", *arguments)
    assert all(word in text for word in words), text
