"""Sweeps with real processes: killed, begun again, with jobs that fail, side by side."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import forked
import pytest
from program import ONE_COLUMN

from forecast.comparison.rows import comparisons, read_folder

TRAIN = Path(__file__).parents[2] / "train.py"
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
# lasts long enough to be caught in the middle
JOBS = ["data.rows=900", "attention=full,prob", "seed=1,2"]


def command(*overrides, options=()):
    return [sys.executable, *options, str(TRAIN), "-m", *ONE_COLUMN, *overrides]


def swept(folder, *overrides, options=()):
    """Its exit status and its output, logs and messages alike."""
    arguments = command(*overrides, options=options)
    run = subprocess.run if options else forked.run  # what is imported when, a real one says
    ended = run(arguments, cwd=folder, env=ENV, capture_output=True, text=True, timeout=300, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def runs(folder):
    return {path.parent.name: path for path in folder.glob("multirun/*/*/run.json")}


def states(folder):
    return {name: json.loads(path.read_text())["status"] for name, path in runs(folder).items()}


def written(folder):
    """When each run that has finished wrote its results."""
    finished = [name for name, state in states(folder).items() if state == "finished"]
    return {name: (runs(folder)[name].parent / "metrics.json").stat().st_mtime_ns for name in finished}


@pytest.mark.slow
def test_a_killed_sweep_redoes_exactly_the_unfinished_jobs(tmp_path):
    with (tmp_path / "output").open("wb") as output:
        sweep = forked.Popen(
            command(*JOBS), cwd=tmp_path, env=ENV, stdout=output, stderr=output, start_new_session=True
        )
    deadline = time.monotonic() + 200
    while list(states(tmp_path).values()).count("finished") < 2 or "running" not in states(tmp_path).values():
        assert time.monotonic() < deadline and sweep.poll() is None, (tmp_path / "output").read_text()
        time.sleep(0.01)
    os.killpg(sweep.pid, signal.SIGKILL)
    sweep.wait()
    before = written(tmp_path)
    assert len(before) == 2 and len(states(tmp_path)) == 3

    status, text = swept(tmp_path, *JOBS)
    assert status == 0, text
    assert list(states(tmp_path).values()) == ["finished"] * 4
    assert before.items() <= written(tmp_path).items()  # not touched again
    lines = [line for line in text.splitlines() if re.match(r"[1-4]/4  attention=(full|prob) seed=[12]  mse 0\.", line)]
    assert len(lines) == 4 and len(text.splitlines()) <= 6
    assert sorted(
        name for name in runs(tmp_path) if re.search(rf"finished before  .*{re.escape(name)}", text)
    ) == sorted(before)
    assert all("informer (this run)" in (path.parent / "train.log").read_text() for path in runs(tmp_path).values())

    # all recognised, and torch never imported, which would take seconds
    status, text = swept(tmp_path, *JOBS, options=["-X", "importtime"])
    assert status == 0 and text.count("finished before") == 4
    imported = {line.rpartition("|")[2].strip() for line in text.splitlines() if line.startswith("import time:")}
    assert "hydra" in imported and "torch" not in imported
    (comparison,) = comparisons(read_folder(*tmp_path.glob("multirun/*")))
    assert [(row.name, len(row.finished)) for row in comparison.rows] == [("full", 2), ("prob", 2)]


@pytest.mark.slow
def test_a_job_that_fails_does_not_stop_the_others_side_by_side_or_in_turn(tmp_path):
    """Side by side with the joblib launcher, of the extra `sweep`."""
    wrong = ["model.n_heads=2,3", "seed=1"]  # d_model 14 is not divisible by 3
    status, text = swept(tmp_path, *wrong, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    assert status == 1 and "`forecast report FOLDER` compares it" in text
    assert sorted(states(tmp_path).values()) == ["failed", "finished"]
    (failed,) = [run for run in read_folder(*tmp_path.glob("multirun/*")) if run.state == "failed"]
    assert failed.overrides["model.n_heads"] == "3" and "n_heads" in failed.reason

    before = written(tmp_path)
    status, text = swept(tmp_path, *wrong)
    assert status == 1 and "Traceback" not in text and text.count("finished before") == 1
    assert written(tmp_path) == before
