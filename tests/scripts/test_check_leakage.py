"""scripts/check_leakage.py: what it says of an honest checkpoint, and of one that leaks."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from program import TINY, call

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_leakage.py"


@pytest.fixture
def check(monkeypatch, capsys):
    """The script's main inside the test's process: its exit status (or message), and what it printed."""
    spec = importlib.util.spec_from_file_location("check_leakage", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        try:
            module.main()
        except SystemExit as stop:
            return stop.code, capsys.readouterr().out.splitlines()
        return None, capsys.readouterr().out.splitlines()

    return run


@pytest.fixture(scope="module")
def best(tmp_path_factory):
    """The best.ckpt of a tiny training."""
    folder = tmp_path_factory.mktemp("run")
    call("train", *TINY, f"hydra.run.dir={folder}")
    return folder / "checkpoints" / "best.ckpt"


def changed(best, folder, change):
    """A copy of a checkpoint whose part about the data is changed."""
    path = folder / "changed.ckpt"
    content = torch.load(best, weights_only=True)
    change(content["forecast"]["data"])
    torch.save(content, path)
    return path


def test_an_honest_checkpoint_has_a_line_for_each_check(best, check):
    status, lines = check(best)
    assert status is None
    assert [line.split()[:2] for line in lines] == [
        ["ok", "scaler:"],
        ["ok", "splits:"],
        ["ok", "forecasts:"],
        ["ok", "training:"],
    ]
    assert "489 train rows" in lines[0] and "of 4 test windows" in lines[2]


def test_a_checkpoint_that_leaks_is_told_of_and_the_other_checks_go_on(best, check, tmp_path):
    def leak(data):
        data["scaler"]["mean"][0] += 0.25
        data["splits"]["val"][1] += 2

    status, lines = check(changed(best, tmp_path, leak), "--split", "val")
    assert lines[:2] == ["LEAK  scaler", "LEAK  splits"]
    assert [line.split()[0] for line in lines[2:]] == ["ok", "ok"] and "of 4 val windows" in lines[2]
    scaler, splits = status.splitlines()
    assert scaler.startswith("leakage check, scaler: the mean of column") and "489 train rows" in scaler
    assert splits.startswith("leakage check, splits: 2 rows") and "in val and in test" in splits


def test_what_cannot_be_checked_is_refused_in_one_line(best, check, tmp_path):
    assert check(best, "--split", "tset")[0].count("Did you mean 'test'?") == 1
    status, lines = check(tmp_path / "none.ckpt")
    assert "no such file" in status and "\n" not in status and lines == []


@pytest.mark.slow
def test_the_exit_status_of_a_process_is_1_for_a_leak_and_0_without(best, tmp_path):
    def leak(data):
        data["scaler"]["std"][0] *= 2

    for path, status, said in ((best, 0, ""), (changed(best, tmp_path, leak), 1, "leakage check, scaler: the std")):
        done = subprocess.run([sys.executable, SCRIPT, path], capture_output=True, text=True, check=False)
        assert done.returncode == status and done.stderr.startswith(said) and "Traceback" not in done.stderr
        assert len(done.stdout.splitlines()) == 4
