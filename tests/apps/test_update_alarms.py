"""`forecast update` says that a model has grown old, and what then works; a quiet one is left in peace."""

import re
import shlex
import shutil

import pytest
from apps.updates import TRAINED, broken, series, trained, updated, words, write
from program import call

TABLE = series()
QUIET = 20  # days before a break


@pytest.fixture(scope="module")
def run(daily_run):
    return daily_run


@pytest.fixture(scope="module")
def quiet(run, tmp_path_factory):
    """The folder of the updates of the first quiet days, and what they said."""
    folder, found = tmp_path_factory.mktemp("quiet"), []
    for day in range(TRAINED, TRAINED + QUIET + 1):
        path = write(folder / "h.csv", TABLE, last=day)
        found.append(updated(run, path, folder / "u"))
    return folder / "u", found


@pytest.mark.parametrize("kind", ["level", "swing", "later", "noise"])
def test_a_break_is_said_within_a_week_and_not_before_and_the_training_it_advises_works(
    run, quiet, kind, tmp_path, capsys
):
    table, path, said = broken(TABLE, kind, TRAINED + QUIET), tmp_path / "h.csv", None
    shutil.copytree(quiet[0], tmp_path / "u")
    assert not any(document["alarms"] for document in quiet[1])
    for day in range(TRAINED + QUIET + 1, TRAINED + QUIET + 8):
        document = updated(run, write(path, table, last=day), tmp_path / "u")
        if document["alarms"]:
            said = day
            break
    assert said is not None
    text = "\n".join(document["sentences"])
    assert re.search(
        r"have broken from what its validation rows showed: since the update of .* \(\d updates?\)|no longer hold", text
    )
    assert f"Time to train again: {document['train_again']}" in text
    assert f"data.path={path}" in document["train_again"]
    if kind == "level":
        again = shlex.split(document["train_again"])[2:]
        call("train", *again, f"hydra.run.dir={tmp_path}/again")
        call("update", *words(tmp_path / "again", path, tmp_path / "v"))
        assert "Time to train again" not in capsys.readouterr().out


def test_a_model_worse_than_its_baseline_is_called_so(tmp_path):
    """The last value is a bad forecast of a day's swing, and seasonal naive is there to show it."""
    run = trained(tmp_path, TABLE, "model=last_value")
    for day in range(TRAINED, TRAINED + 8):
        document = updated(run, write(tmp_path / "h.csv", TABLE, last=day), tmp_path / "u")
    assert document["alarms"] == ["baseline"]
    assert "has become worse than its baseline: since" in "\n".join(document["sentences"])
    alone = write(tmp_path / "d.csv", TABLE, first=TRAINED + 7, last=TRAINED + 8)
    document = updated(run, alone, tmp_path / "u")
    assert f"data.path={tmp_path}/trained.csv" in document["train_again"]  # a day alone trains nothing
