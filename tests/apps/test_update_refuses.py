"""What `forecast update` refuses, each in one sentence, with the state as it was."""

import io
import json
import re
import shutil
from functools import partial

import numpy as np
import pandas as pd
import pytest
from apps.updates import DAY, TRAINED, files_of, series, trained, updated, words, write
from program import refusal

TABLE = series()
NOW = TRAINED + 2  # days seen


@pytest.fixture(scope="module")
def run(daily_run):
    return daily_run


@pytest.fixture(scope="module")
def seen(run, tmp_path_factory):
    """The folder of updates up to the day NOW, but for the line of the day before."""
    folder = tmp_path_factory.mktemp("seen")
    for day in (TRAINED, NOW):
        updated(run, write(folder / "h.csv", TABLE, last=day), folder / "u")
    return folder / "u"


@pytest.fixture
def folder(seen, tmp_path):
    """A copy of it, to go on in."""
    return shutil.copytree(seen, tmp_path / "u")


def days(first, last, change=None):
    """The rows of some days, with a change."""
    table = TABLE.iloc[first * DAY : last * DAY].copy()
    changed = None if change is None else change(table)
    return table if changed is None else changed


def times(table, *, factor, rows=slice(None)):
    table.iloc[rows, 1] = (table.iloc[rows, 1] * factor).round(6)


def later(table, *, by):
    table["date"] += pd.Timedelta(by)


def without(table, *, rows):
    return table.drop(table.index[rows])


def one_value(table, *, row):
    table.iloc[row, 1] += 5.0


LAST = "2025-03-03 23:00:00"  # seen
REFUSED = {
    "earlier rows": (days(0, NOW - 1), f"ends at 2025-03-02 23:00:00, and rows up to {LAST} have been seen: .*go"),
    "a hole before the file": (
        days(NOW + 1, NOW + 2),
        f"begins at 2025-03-05 00:00:00, and rows up to {LAST} have been seen: a hole of 24 rows. Give a file",
    ),
    "a hole inside": (
        days(0, NOW + 1, partial(without, rows=slice(-9, -5))),
        "before it 4 rows of 'h' are missing, from 2025-03-04 15:00:00",
    ),
    "another value": (
        days(0, NOW + 1, partial(one_value, row=NOW * DAY - 5)),
        r"overlaps with rows seen before and holds other values: column 'load' is .* at 2025-03-03 19:00:00 and was "
        r".*, in 1 of \d+ rows. Restore it, or if it is right, begin anew in another folder: hydra.run.dir=FOLDER",
    ),
    "the whole file in other units": (
        days(0, NOW + 1, partial(times, factor=1000)),
        r"holds other values: .* in (\d+) of \1 rows\. Restore",
    ),
    "another clock": (
        days(NOW, NOW + 1, partial(later, by="20min")),
        f"has a row at 2025-03-04 00:20:00, which no step of 'h' after {LAST}, the last row seen, reaches",
    ),
    "another clock in all rows": (days(0, NOW + 1, partial(later, by="20min")), "no step of 'h' after"),
    "another frequency": (days(0, NOW + 1).iloc[::2], "frequency '2h'; the model was trained on 'h'"),
    "another column": (days(0, NOW + 1).rename(columns={"load": "laod"}), "no column .*load"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_do_not_continue(case, run, folder, tmp_path, capsys):
    table, says = REFUSED[case]
    before = files_of(folder)
    table.to_csv(tmp_path / "h.csv", index=False)
    *_, sentence = refusal(capsys, "update", *words(run, tmp_path / "h.csv", folder)).splitlines()
    assert re.search(says, sentence), sentence
    assert files_of(folder) == before
    updated(run, write(tmp_path / "h.csv", TABLE, last=NOW + 1), folder)  # the right file goes on


def test_new_rows_in_other_units_show_in_the_error_that_is_printed(run, folder, tmp_path):
    days(NOW, NOW + 1, partial(times, factor=1000)).to_csv(tmp_path / "h.csv", index=False)
    document = updated(run, tmp_path / "h.csv", folder)
    assert document["last"]["mae"] > 1000
    assert any(f"MAE {document['last']['mae']:.4f} standard deviations" in text for text in document["sentences"])


FIRST = {
    "the whole file in other units": (
        days(0, TRAINED, partial(times, factor=1000)),
        r"holds other values than those trained on\. The first update needs the whole history, as it was",
    ),
    "one value of the train rows": (
        days(0, TRAINED, partial(one_value, row=7)),
        "holds other values than those trained on",
    ),
    "a file that ends in the train rows": (
        days(0, 20),
        "lacks rows of those trained on",
    ),
    "the rows after the training alone": (
        days(TRAINED, TRAINED + 2),
        "lacks rows of those trained on.*The first update needs the whole history",
    ),
}


@pytest.mark.parametrize("case", FIRST)
def test_rows_that_do_not_continue_the_data_trained_on(case, run, tmp_path, capsys):
    table, says = FIRST[case]
    table.to_csv(tmp_path / "h.csv", index=False)
    text = refusal(capsys, "update", *words(run, tmp_path / "h.csv", tmp_path / "u"))
    assert re.search(says, text, re.DOTALL), text
    assert len(text.strip().splitlines()) == 1 and files_of(tmp_path / "u") == {}


def test_the_updates_of_another_checkpoint_and_a_damaged_state(run, folder, tmp_path, capsys):
    path = write(tmp_path / "h.csv", TABLE, last=NOW + 1)
    other = trained(tmp_path, TABLE, "seed=2", "seq_len=72")
    text = refusal(capsys, "update", *words(other, path, folder))
    assert "holds the updates of another checkpoint than" in text and "hydra.run.dir=FOLDER" in text
    content = (folder / "state.npz").read_bytes()
    for damaged in (content[:-100], b""):
        (folder / "state.npz").write_bytes(damaged)
        text = refusal(capsys, "update", *words(run, path, folder))
        assert "state.npz is damaged or was written by another version: " in text
    rewritten(folder, content, format=3)
    assert "state.npz is damaged or was written by another version: format: " in refusal(
        capsys, "update", *words(run, path, folder)
    )


def rewritten(folder, content, **changes):
    """The state of an update, with other entries."""
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)
    meta = json.loads(str(arrays["meta"])) | changes
    np.savez(folder / "state.npz", **{**arrays, "meta": np.array(json.dumps(meta))})


def test_files_of_others_are_not_written_over(run, tmp_path, capsys):
    (tmp_path / "u").mkdir()
    (tmp_path / "u/log.csv").write_text("mine")
    path = write(tmp_path / "h.csv", TABLE, last=TRAINED)
    text = refusal(capsys, "update", *words(run, path, tmp_path / "u"))
    assert "log.csv is there and is not of an update. Nothing is overwritten: choose another folder" in text
