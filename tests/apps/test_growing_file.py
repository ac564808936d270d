"""A file that somebody appends rows to while it is trained on: what is recorded is what was read."""

import hashlib
import json
from unittest import mock

import pytest
from apps.files import LAYOUT, OWN, write_csv
from program import call, refusal

from forecast.checkpoint.load import load_checkpoint
from forecast.data.reading import csv_columns


@pytest.fixture
def grown(tmp_path):
    """The run folder of a training whose file gets 40 rows more behind the reading of its header; the content then."""
    path, table = tmp_path / "own.csv", tmp_path / "longer.csv"
    write_csv(path)
    write_csv(table, rows=440)
    before, read_on = path.read_bytes(), csv_columns._quick_chunks

    def appended(*arguments):
        path.write_bytes(before + b"".join(table.read_bytes().splitlines(keepends=True)[401:]))
        return read_on(*arguments)

    with mock.patch.object(csv_columns, "_quick_chunks", appended):
        call("train", *OWN, *LAYOUT, f"data.path={path}", f"hydra.run.dir={tmp_path}/run")
    return tmp_path / "run", before


def test_run_and_checkpoint_have_the_checksum_of_the_rows_trained_on_and_what_is_there_now_is_refused(grown, capsys):
    run, before = grown
    best, expected = run / "checkpoints" / "best.ckpt", hashlib.md5(before).hexdigest()
    data = load_checkpoint(best).data
    assert json.loads((run / "run.json").read_text())["data"]["checksum"] == data["checksum"] == expected
    assert data["splits"]["test"] == [320, 400]
    changed = refusal(capsys, "evaluate", f"ckpt_path={best}", f"hydra.run.dir={run.parent}/evaluated")
    assert "own.csv has grown since the model was trained on it: the file has changed, and with it" in changed
    status = (run / "run.json").read_text()
    text = refusal(capsys, "train", f"ckpt_path={run}/checkpoints/last.ckpt")
    assert f"own.csv has grown since {run}/checkpoints/last.ckpt was trained on it" in text and expected in text
    assert (run / "run.json").read_text() == status
