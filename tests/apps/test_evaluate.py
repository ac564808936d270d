"""evaluate.py: the same numbers as the training's own evaluation, on any split, in any batches."""

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from apps.files import write_csv
from matplotlib.figure import Figure
from permissions import read_only
from program import call, refusal

from forecast.run_folder import RESULTS, torn


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)


WITHOUT_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def evaluated(folder, best, *changes):
    call("evaluate", f"ckpt_path={best}", *changes, f"hydra.run.dir={folder}")
    return json.loads((folder / "metrics.json").read_text())


@pytest.fixture(scope="module")
def again_folder(best, tmp_path_factory):
    return tmp_path_factory.mktemp("again")


@pytest.fixture(scope="module")
def again(best, again_folder):
    return evaluated(again_folder, best)


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


def test_windows_that_do_not_overlap_are_those_of_the_checkpoints_horizon(tmp_path, best, again):
    apart = evaluated(tmp_path, best, "protocol=apart")
    steps = again["pred_len"]
    assert apart["test"]["windows"] == -(-again["test"]["windows"] // steps) and steps > 1


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
        ({"rows": 23}, "one window needs 19 rows of past and 5 of all; the longest series has 23 rows, 23 of them"),
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
    assert "has changed since" in text and "split=all" in text


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


@pytest.fixture
def older(tmp_path, again, again_folder):
    """The folder of an older evaluation."""
    return Path(shutil.copytree(again_folder, tmp_path / "older"))


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".log" and path.is_file()}


def test_metrics_json_names_the_files_that_were_written_with_it(again, again_folder):
    assert {*again["files"], "metrics.json"} == {*RESULTS}
    assert torn(again_folder, again) is None


@pytest.mark.parametrize("killed_before", ["errors_by_window.npz", "forecasts.npz", "metrics.json"])
def test_a_kill_leaves_the_older_results_or_files_that_are_seen_not_to_belong_together(
    older, best, again, monkeypatch, killed_before
):
    before, rename = content(older), Path.replace

    def replace(self, target):
        if target.name == killed_before:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(SystemExit):
        evaluated(older, best, "split=val")
    assert json.loads((older / "metrics.json").read_text()) == again
    if killed_before == RESULTS[0]:
        assert content(older) == before
    else:
        assert torn(older, again) == RESULTS[0]


def test_an_evaluation_that_cannot_write_one_file_leaves_the_older_one(older, best, capsys, monkeypatch):
    before = content(older)

    def no_room(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Figure, "savefig", no_room)
    text = refusal(capsys, "evaluate", f"ckpt_path={best}", "split=val", f"hydra.run.dir={older}")
    assert text.startswith(f"{older}/forecast.png: No space left on device. Make room or choose a folder")
    assert content(older) == before


def test_the_run_of_a_training_is_no_folder_for_an_evaluation(best, csv_run, capsys):
    before = content(csv_run), content(csv_run / ".hydra")
    text = refusal(capsys, "evaluate", f"ckpt_path={best}", f"hydra.run.dir={csv_run}", "overwrite=true")
    assert f"hydra.run.dir={csv_run} is the run of a training, whose results would be replaced; choose another" in text
    assert (content(csv_run), content(csv_run / ".hydra")) == before


@pytest.mark.parametrize("name", ["metrics.json", "forecast.png"])
def test_a_strangers_file_is_overwritten_only_on_request(tmp_path, best, capsys, name):
    (tmp_path / name).write_text('{"model": "mine"}')
    text = refusal(capsys, "evaluate", f"ckpt_path={best}", f"hydra.run.dir={tmp_path}")
    assert f"{tmp_path}/{name} is there and is not a file of an evaluation. Nothing is overwritten: choose" in text
    assert (tmp_path / name).read_text() == '{"model": "mine"}'
    assert text.endswith("say overwrite=true\n")
    assert evaluated(tmp_path, best, "overwrite=true")["model"] == "informer"


def test_from_a_read_only_folder_an_evaluation_is_written_elsewhere(tmp_path, best, again, monkeypatch, capsys):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with read_only(here):
        text = refusal(capsys, "evaluate", f"ckpt_path={best}")
        assert text.startswith("outputs: Permission denied. Make room or choose a folder that you can write to: hydra.")
        assert evaluated(tmp_path / "there", best)["test"] == again["test"]  # what the message advises
    assert not list(here.iterdir())
