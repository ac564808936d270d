"""forecast reproduce with real trainings: results appended, stopped in time, gone on with, failures named."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import forked
import pytest
from script import SCRIPTS, call_script

from forecast.run_folder.commit import commit
from studies.published.document import CODE
from studies.published.outcome import RULE

# small enough for seconds, on data that need no file
SMALL = [
    *("data=demo", "data.rows=1500", "seq_len=24", "label_len=12", "pred_len=6"),
    *("trainer.max_epochs=1", "trainer.accelerator=cpu", "callbacks.figures=null"),
]
ENDLESS = [*SMALL, "trainer.max_epochs=100000", "callbacks.early_stopping.patience=100000"]


def words(arguments, settings):
    return [*("--table", "dlinear", "--rows", "etth1_m_96"), *arguments, *(f"--set={text}" for text in settings)]


def start(folder, *arguments, settings=SMALL):
    """Its process."""
    command = [sys.executable, "-m", "forecast", "reproduce", *words(arguments, settings)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return forked.Popen(command, cwd=folder, env=environment, start_new_session=True, **pipes)


def reproduced(folder, *arguments, settings=SMALL):
    """Its exit status, stdout and stderr."""
    process = start(folder, *arguments, settings=settings)
    stdout, stderr = process.communicate(timeout=300)
    return process.returncode, stdout, stderr


@pytest.mark.slow
def test_a_table_that_a_sweep_has_trained_is_taken_up_without_a_training(tmp_path):
    """Which any launcher of sweeps may have done; the command of docs/tutorials/published-table.md."""
    folders = ["hydra.sweep.dir=multirun/reproduce", "hydra.sweep.subdir=${identity:}"]
    train = [sys.executable, str(SCRIPTS.parent / "train.py"), "-m", "experiment=dlinear/etth1_m_96"]
    command = [*train, "model=dlinear,nlinear", "seed=1", *SMALL, *folders]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    forked.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=300, check=True)
    runs = {path: path.stat().st_mtime_ns for path in (tmp_path / "multirun" / "reproduce").glob("*/run.json")}
    assert len(runs) == 2
    assert reproduced(tmp_path, "--seeds", "1")[0] == 0
    assert sorted(line["contender"] for line in lines(tmp_path)) == ["dlinear", "nlinear"]
    assert runs == {path: path.stat().st_mtime_ns for path in (tmp_path / "multirun" / "reproduce").glob("*/run.json")}


def await_one(folder, pattern):
    """The file of that pattern, as soon as there is one."""
    deadline = time.monotonic() + 200
    while not (matches := list(folder.glob(pattern))):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return matches[0]


def lines(folder):
    return [json.loads(line) for line in (folder / "results" / "runs.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_results_are_appended_and_what_is_there_is_not_run_again(tmp_path):
    status, output, _ = reproduced(tmp_path, "--seeds", "1")
    assert status == 0
    assert re.search(r"2 trainings on cpu\. What has ended is kept.*\n.* Their steps take about \d+ s\.\n", output)
    assert sorted((line["contender"], line["seed"]) for line in lines(tmp_path)) == [("dlinear", 1), ("nlinear", 1)]
    line = lines(tmp_path)[0]
    assert {"versions", "data_read", "test", "cost", "baselines", "identity", "overrides"} <= line.keys()
    assert line["commit"] == commit()
    assert str(tmp_path) not in json.dumps(line)
    assert "| row | look-back | windows | model | published MSE | ours | difference |" in output

    status, output, _ = reproduced(tmp_path, "--seeds", "2", "--models", "nlinear")
    assert status == 0 and output.count("MSE 0.") == 1
    assert len(lines(tmp_path)) == 3

    # a line that is lost comes back from its run's folder, without a training
    (tmp_path / "results" / "runs.jsonl").write_text(json.dumps(lines(tmp_path)[0]) + "\n")
    folders = {path: path.stat().st_mtime_ns for path in (tmp_path / "multirun" / "reproduce").glob("*/run.json")}
    assert reproduced(tmp_path, "--seeds", "1")[0] == 0
    assert len(lines(tmp_path)) == 2
    assert folders == {path: path.stat().st_mtime_ns for path in folders}


@pytest.mark.slow
def test_a_kill_loses_at_most_the_running_training_which_goes_on_until_the_time_is_up(tmp_path):
    assert reproduced(tmp_path, "--seeds", "1", "--models", "dlinear")[0] == 0
    arguments = ("--seeds", "1", "--models", "nlinear")
    first = start(tmp_path, *arguments, settings=ENDLESS)
    try:
        last = await_one(tmp_path, "multirun/reproduce/*/.lock.holder").parent / "checkpoints" / "last.ckpt"
        while not last.is_file():
            assert first.poll() is None
            time.sleep(0.1)
        status, output, _ = reproduced(tmp_path, *arguments, settings=ENDLESS)
        assert status == 0 and "unfinished: dlinear etth1_m_96, nlinear, seed 1: another process trains it" in output
    finally:
        first.kill()
        first.communicate()
    before = last.stat().st_mtime_ns
    status, output, _ = reproduced(tmp_path, *arguments, "--minutes", "0.2", settings=ENDLESS)
    assert status == 0 and "interrupted: dlinear etth1_m_96, nlinear, seed 1: SIGTERM" in output
    assert "The time is up: the same command goes on from here." in output
    assert [line["contender"] for line in lines(tmp_path)] == ["dlinear"]
    text = (last.parents[1] / "output.txt").read_text()
    assert text.count("Going on from") == 1 and last.stat().st_mtime_ns > before


@pytest.mark.slow
def test_a_training_that_fails_is_named_and_leaves_no_line(tmp_path):
    diverging = [*SMALL, "optim.lr=1e30"]
    status, output, error = reproduced(tmp_path, "--seeds", "1", settings=diverging)
    assert status == 1 and "Traceback" not in error
    assert error.splitlines()[0] == "failed, and to be run again by the same command:"
    entries = [line.split(": ") for line in error.splitlines()[1:]]
    assert [title for title, _ in entries] == [f"dlinear etth1_m_96, {name}, seed 1" for name in ("dlinear", "nlinear")]
    assert all(Path(log).is_file() for _, log in entries)
    assert output.count("failed: dlinear etth1_m_96") == 2
    assert not (tmp_path / "results" / "runs.jsonl").exists()


WRONG = {
    ("--table", "etth9_m"): "--table etth9_m: choose of etth1_m, etth1_s",
    ("--table", "etth1_m", "--rows", "25"): "--rows 25: etth1_m has no such row. Rows: 24, 48, 168, 336, 720",
    ("--table", "etth1_m", "--models", "x"): "--models x: choose of informer2020; informer; informer, full attention.",
    ("--table", "etth1_m", "--set", "model.dmodel=3"): "Did you mean 'model.d_model'?",
    ("--table", "etth1_m", "--seeds", "0"): "0 is no whole number from 1 on",
    ("--table", "etth1_m", "--minutes", "nan"): "nan is no number from 0 on",
    (): "the following arguments are required: --table",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_a_wrong_argument_is_answered(capsys, monkeypatch, tmp_path, arguments):
    monkeypatch.chdir(tmp_path)
    status, _, error = call_script(capsys, "reproduce", *arguments)
    assert status in (1, 2)
    assert WRONG[arguments] in error


def test_a_place_that_cannot_be_written_is_refused(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    arguments = ("--table", "etth1_m", "--rows", "24", "--runs", tmp_path / "file" / "below")
    status, _, error = call_script(capsys, "reproduce", *arguments)
    message = "Not a directory. Choose places that you can write to: --results FILE, --runs DIR\n"
    assert status == 1 and error.endswith(message)


def test_no_time_at_all_shows_what_is_there(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, output, _ = call_script(capsys, "reproduce", "--table", "etth1_m", "--minutes", "0")
    assert status == 0
    assert "Not run yet with the recipe itself: informer2020 (all rows)" in output
    assert not (tmp_path / "results").exists()


def test_results_are_shown_with_their_verdicts_and_what_these_mean(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = ("--table", "dlinear", "--minutes", "0", "--results", SCRIPTS.parent / "results" / "runs.jsonl")
    status, output, _ = call_script(capsys, "reproduce", *arguments)
    assert status == 0
    assert "| one seed, within | not recorded |" in output
    assert f"\n{RULE}\n\n{CODE}\n" in output
