"""The entry of a refitted model in a checkpoint."""

from wrong_checkpoints import saved

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
