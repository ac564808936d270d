"""A file that has changed since it was trained on."""

import hashlib
import json

import pytest
from apps.files import LAYOUT, OWN, write_csv
from program import call, refusal

from forecast.checkpoint.load import load_checkpoint


@pytest.fixture
def grown(tmp_path):
    """The run folder of a training whose file has got 40 rows more since; its content before."""
    path = tmp_path / "own.csv"
    write_csv(path)
    before = path.read_bytes()
    call("train", *OWN, *LAYOUT, f"data.path={path}", f"hydra.run.dir={tmp_path}/run")
    write_csv(path, rows=440)
    return tmp_path / "run", before


def test_run_and_checkpoint_have_the_checksum_of_the_rows_trained_on_and_what_is_there_now_is_refused(grown, capsys):
    run, before = grown
    best, expected = run / "checkpoints" / "best.ckpt", hashlib.md5(before).hexdigest()
    data = load_checkpoint(best).data
    assert json.loads((run / "run.json").read_text())["data"]["checksum"] == data["checksum"] == expected
    assert data["splits"]["test"] == [320, 400]
    changed = refusal(capsys, "evaluate", f"ckpt_path={best}", f"hydra.run.dir={run.parent}/evaluated")
    assert f"own.csv has changed since {best} was trained on it" in changed
    status = (run / "run.json").read_text()
    text = refusal(capsys, "train", f"ckpt_path={run}/checkpoints/last.ckpt")
    assert f"own.csv has changed since {run}/checkpoints/last.ckpt was trained on it" in text and expected in text
    assert (run / "run.json").read_text() == status
