"""forecast check-leakage: what it says of an honest checkpoint, and of one that leaks."""

import subprocess
import sys

import pytest
import torch
from program import BRIEF, call
from script import call_script


@pytest.fixture
def check(capsys):
    """The script's exit status, the lines it prints, and those on stderr."""

    def run(*arguments):
        status, output, error = call_script(capsys, "check_leakage", *arguments)
        return status, output.splitlines(), error.splitlines()

    return run


@pytest.fixture(scope="module")
def best(tmp_path_factory):
    """The best.ckpt of a tiny training."""
    folder = tmp_path_factory.mktemp("run")
    call("train", *BRIEF, f"hydra.run.dir={folder}")
    return folder / "checkpoints" / "best.ckpt"


def changed(best, folder, change):
    """A copy of a checkpoint whose record is changed."""
    path = folder / "changed.ckpt"
    content = torch.load(best, weights_only=True)
    change(content["forecast"])
    torch.save(content, path)
    return path


def test_an_honest_checkpoint_has_a_line_for_each_check(best, check):
    status, lines, _ = check(best)
    assert status == 0
    assert [line.split(":")[0].split() for line in lines] == [
        ["ok", name] for name in ("scaler", "splits", "borders", "forecasts", "training")
    ]
    assert "489 train rows" in lines[0] and "of 4 test windows" in lines[3]


def test_a_checkpoint_that_leaks_is_named_and_the_other_checks_go_on(best, check, tmp_path):
    def leak(record):
        record["series"]["scale"]["mean"][0, 0] += 0.25
        record["series"]["rows"]["val"][0, 1] += 2

    status, lines, (scaler, splits) = check(changed(best, tmp_path, leak), "--split", "val")
    assert lines[:2] == ["LEAK  scaler", "LEAK  splits"]
    assert [line.split()[0] for line in lines[2:]] == ["ok", "ok", "ok"] and "of 4 val windows" in lines[3]
    assert status == 1
    assert scaler.startswith("leakage check, scaler: the mean of column") and "489 train rows" in scaler
    assert splits.startswith("leakage check, splits: 2 rows") and "in val and in test" in splits


def test_a_model_whose_forecasts_are_no_numbers_is_not_called_honest(best, check, tmp_path):
    path, content = tmp_path / "diverged.ckpt", torch.load(best, weights_only=True)
    for weight in content["state_dict"].values():
        if weight.is_floating_point():
            weight.fill_(1e30)
    torch.save(content, path)
    status, lines, messages = check(path)
    assert status == 1
    assert [line.split()[0] for line in lines] == ["ok", "ok", "ok", "unknown", "unknown"]
    assert [message.split(":")[0] for message in messages] == ["leakage check, forecasts", "leakage check, training"]
    assert all("not finite" in message for message in messages)


@pytest.mark.parametrize(
    ("splits", "says"),
    [
        ({"test": [560, 564]}, "4 are for the test, but one window needs 5 (pred_len 5)"),
        ({"train": [0, 20]}, "20 are for training, but one window needs 24 (seq_len 19 + pred_len 5)"),
    ],
)
def test_splits_that_the_data_do_not_have_are_refused(best, check, tmp_path, splits, says):
    def change(record):
        ((name, ends),) = splits.items()
        record["series"]["rows"][name][0, :2] = torch.tensor(ends)

    status, lines, (message,) = check(changed(best, tmp_path, change))
    assert (status, lines) == (1, []) and says in message


def test_what_cannot_be_checked_is_refused_in_one_line(best, check, tmp_path):
    _, _, (message,) = check(best, "--split", "tset")
    assert message.count("Did you mean 'test'?") == 1
    status, lines, (message,) = check(tmp_path / "none.ckpt")
    assert status == 1 and "no such file" in message and lines == []


@pytest.mark.slow
def test_the_exit_status_of_a_process_is_1_for_a_leak(best, tmp_path):
    """Without one it is 0: the tests above run the same lines in this process."""

    def leak(record):
        record["series"]["scale"]["std"][0, 0] *= 2

    command = [sys.executable, "-m", "forecast", "check-leakage", changed(best, tmp_path, leak)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 1 and process.stderr.startswith("leakage check, scaler: the std")
    assert "Traceback" not in process.stderr and len(process.stdout.splitlines()) == 5
