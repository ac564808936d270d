"""Weights and options that hold numbers of rows, columns or nodes are checked when a checkpoint's model is built."""

import copy

import pytest
import torch
from program import BRIEF, call
from script import call_script
from wrong_checkpoints import refused, saved

from forecast.checkpoint.load import load_checkpoint
from forecast.checkpoint.record import RECORD
from forecast.errors import UserError

TREES = [
    "model=boosted_trees",
    "model.trees=5",
    "model.leaves=5",
    "model.skip=none",
    "data=demo",
    "data.rows=700",
    "seq_len=30",
    "pred_len=5",
]


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """The content of a checkpoint of some trees."""
    run = tmp_path_factory.mktemp("trees")
    words = [word for word in BRIEF if not word.startswith(("model.", "data", "seq_len", "label_len", "pred_len"))]
    call("train", *TREES, *words, f"hydra.run.dir={run}")
    content = torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)
    assert len(next(value for name, value in content["state_dict"].items() if name.endswith("child"))) > 0
    return content


TABLES = {
    "a child far away": ("child", 0, 10**6),
    "a child before the first": ("child", 0, -1),
    "a child at the end": ("child", 0, 8),
    "a way back": ("child", 1, 0),
    "a way in a circle": ("child", 0, 0),
    "a feature far away": ("feature", 0, 10**6),
    "a feature just behind the last": ("feature", 0, None),
    "a feature before the first": ("feature", 0, -1),
    "a threshold of NaN": ("threshold", 0, float("nan")),
    "a leaf of NaN": ("value", 3, float("nan")),
    "an endless leaf": ("value", 3, float("inf")),
}


@pytest.mark.parametrize(("table", "node", "value"), TABLES.values(), ids=TABLES)
def test_a_tree_that_leads_nowhere_is_refused(trees, tmp_path, table, node, value):
    content = copy.deepcopy(trees)
    name = next(key for key in content["state_dict"] if key.endswith(f".{table}"))
    if value is None:
        value = next(value for value in range(200) if not fits(content, name, value, tmp_path))
        assert 10 < value < 200
    content["state_dict"][name][0, node] = value
    with pytest.raises(UserError, match=r"changed\.ckpt is damaged, .*: of its weights a"):
        load_checkpoint(saved(tmp_path, content)).model()


def fits(content, name, feature, folder):
    """Whether the model is built where the first node asks for this feature."""
    changed = copy.deepcopy(content)
    changed["state_dict"][name][0, 0] = feature
    try:
        load_checkpoint(saved(folder, changed)).model()
    except UserError:
        return False
    return True


@pytest.mark.parametrize("seasons", [[-3], [0], [10**9], [24, 7], [7, 7], [10**4]], ids=str)
def test_seasons_that_no_window_has_are_refused(trees, tmp_path, seasons):
    content = copy.deepcopy(trees)
    content[RECORD]["config"]["model"]["seasons"] = seasons
    with pytest.raises(UserError, match=r"model\.seasons=|larger than memory"):
        load_checkpoint(saved(tmp_path, content)).model()


@pytest.mark.parametrize("depth", [10**5, 10**8])
def test_a_depth_beyond_the_nodes_is_none(trees, tmp_path, depth):
    content = copy.deepcopy(trees)
    content[RECORD]["config"]["model"]["depth"] = depth
    try:
        model = load_checkpoint(saved(tmp_path, content)).model()
    except UserError:
        return
    assert model.trees.depth <= 9


@pytest.mark.parametrize("freq", ["0h", "-1h", "1000000000D", "W-XYZ", "", "x", "h\0", "h" * 10_000, "0YE"])
def test_a_frequency_of_no_rows_is_refused(trees, tmp_path, freq):
    content = copy.deepcopy(trees)
    content[RECORD]["data"]["freq"] = freq
    message = refused(saved(tmp_path, content))
    assert "data.freq is " in message and len(message) < 600


def test_export_of_steps_beyond_the_calendar_is_refused_at_most(trees, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    content = copy.deepcopy(trees)
    content[RECORD]["data"]["freq"] = "2500000h"
    status, _, message = call_script(capsys, "export", saved(tmp_path, content), "out")
    assert "Traceback" not in message
    assert status == 0 or "of the frequency 2500000h" in message  # how far the calendar reaches depends on pandas


@pytest.mark.parametrize("freq", ["200YE", "QE", "D"])
def test_a_frequency_with_another_calendar_than_the_models_is_refused(trees, tmp_path, freq):
    content = copy.deepcopy(trees)
    content[RECORD]["data"]["freq"] = freq
    assert "data.known is " in refused(saved(tmp_path, content))


def test_a_last_row_that_is_no_time_of_the_frequency_is_refused(trees, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    content = copy.deepcopy(trees)
    content[RECORD]["data"] |= {"freq": "bh"}
    content[RECORD]["data"]["trained_until"] = "2016-07-02 00:00:00"
    path = saved(tmp_path, content)
    status, _, message = call_script(capsys, "export", path, "out")
    assert "Traceback" not in message
    assert status == 1
