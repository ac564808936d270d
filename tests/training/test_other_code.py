"""Results of other code: a sweep trains anew and keeps them, a resume says so."""

import json
import shutil

import pytest
from program import BRIEF, call

from forecast.run_folder import commit as module
from forecast.training import record

OTHER = "bbbbbbb"


@pytest.fixture
def code(monkeypatch):
    """Makes the code another one: code(OTHER); what this program is: code(None)."""
    own = module.commit()

    def become(name):
        for place in (module, record):
            monkeypatch.setattr(place, "commit", lambda: name or own)

    return become


def test_what_other_code_has_finished_is_trained_anew_beside_it(tmp_path, monkeypatch, code, capsys):
    monkeypatch.chdir(tmp_path)
    sweep = ("train", "-m", *BRIEF, "trainer.limit_train_batches=1", "seed=1")
    call(*sweep)
    (first,) = tmp_path.glob("multirun/*/*/metrics.json")
    before = {path: path.read_bytes() for path in first.parent.rglob("*") if path.is_file()}
    code(OTHER)
    call(*sweep)
    (second,) = {*tmp_path.glob("multirun/*/*/metrics.json")} - {first}
    assert second.parent.parent == first.parent.parent
    assert second.parent.name.partition("-")[0] == first.parent.name.partition("-")[0]  # the identity of the config
    codes = [json.loads(path.with_name("run.json").read_text())["versions"]["commit"] for path in (first, second)]
    assert codes[0] != OTHER == codes[1]
    assert {path: path.read_bytes() for path in before} == before
    code(None)  # back: the old result is this code's
    changed = second.stat().st_mtime_ns, first.stat().st_mtime_ns
    call(*sweep)
    line = f"finished before  {first.parent.relative_to(tmp_path)}\n"
    assert capsys.readouterr().out.endswith(line)
    assert (second.stat().st_mtime_ns, first.stat().st_mtime_ns) == changed


def test_a_run_that_goes_on_with_other_code_says_so_in_a_sentence_and_goes_on(tmp_path, tiny_run, code, capsys):
    folder = shutil.copytree(tiny_run, tmp_path / "run")
    first = json.loads((folder / "run.json").read_text())["versions"]["commit"]
    code(OTHER)
    capsys.readouterr()
    call("train", f"ckpt_path={folder}/checkpoints/last.ckpt", "trainer.max_epochs=2")
    says = (
        f"{folder}/checkpoints/last.ckpt was made by other code of this program ({first}, here {OTHER}): what it goes "
        "on to may differ from what that code would have trained."
    )
    assert capsys.readouterr().err.count(says) == 1
    assert json.loads((folder / "run.json").read_text())["status"] == "finished"
