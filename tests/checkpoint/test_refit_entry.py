"""The entry of a refitted model in a checkpoint of any origin."""

import pytest
import torch
from wrong_checkpoints import refused, saved

from forecast.checkpoint.load import load_checkpoint
from forecast.checkpoint.record import RECORD

HELD_OUT = {split: {"windows": 3, "scaled": {"mse": 1.0, "mae": 0.5}} for split in ("test", "val")}
ENTRY = {"rows": ["train", "val"], "trained_until": "2016-07-21 09:00:00", "held_out": HELD_OUT}


def test_it_says_until_when_the_weights_were_fitted(content, tmp_path):
    before = load_checkpoint(saved(tmp_path, content))
    assert before.refit is None and before.trained_until == before.data["trained_until"]
    content[RECORD]["refit"] = ENTRY
    read = load_checkpoint(saved(tmp_path, content))
    assert read.refit == ENTRY and read.trained_until == ENTRY["trained_until"] != read.data["trained_until"]


WRONG = [
    ({"rows": ["val"]}, "refit.rows is ['val']; it must name train and val"),
    ({"rows": "train, val"}, "refit.rows is a str; it must be list"),
    ({"rows": [3]}, "refit.rows must hold str alone"),
    ({"trained_until": "soon"}, "refit.trained_until is 'soon', which is no time of a series"),
    ({"trained_until": 2016}, "refit.trained_until is a int; it must be str"),
    ({"held_out": {}}, "refit.held_out.test.scaled.mse is None; it must be a finite number"),
    ({"held_out": {**HELD_OUT, "val": [1.0]}}, "refit.held_out.val.scaled.mse is None; it must be a finite"),
    (
        {"held_out": {**HELD_OUT, "test": {"scaled": {"mse": 1.0, "mae": float("nan")}}}},
        "refit.held_out.test.scaled.mae is nan; it must be a finite number",
    ),
    ({"held_out": HELD_OUT | {"seed": [torch.ones(2)]}}, "refit.held_out.seed.0 is a Tensor; it must be a plain value"),
]


@pytest.mark.parametrize(("change", "text"), WRONG, ids=[text for _, text in WRONG])
def test_an_entry_that_is_wrong_is_named(content, tmp_path, change, text):
    content[RECORD]["refit"] = ENTRY | change
    assert f"its entry {RECORD}.{text}" in refused(saved(tmp_path, content))


@pytest.mark.parametrize("key", ENTRY)
def test_an_entry_that_is_missing_is_named(content, tmp_path, key):
    content[RECORD]["refit"] = {name: value for name, value in ENTRY.items() if name != key}
    assert f"its entry {RECORD}.refit.{key} is missing" in refused(saved(tmp_path, content))


def test_a_refit_that_is_no_mapping_is_named(content, tmp_path):
    content[RECORD]["refit"] = 5
    assert f"its entry {RECORD}.refit is a int; it must be dict" in refused(saved(tmp_path, content))
