"""A backtest that was killed goes on, by the same command, to the same table to the bit."""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import forked
import pytest
from program import ONE_COLUMN

ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
WORDS = [*ONE_COLUMN, "data.rows=900", "logger=none", "backtest.step=7", "level=[80]"]


def command(folder, *words):
    return [sys.executable, "-m", "forecast", "backtest", *WORDS, *words, f"hydra.run.dir={folder}"]


def started(folder, *words):
    with (folder.parent / f"{folder.name}.output").open("ab") as output:
        return forked.Popen(command(folder, *words), env=ENV, stdout=output, stderr=output, start_new_session=True)


def sweeps(folder):
    """The processes of sweeps of this backtest, which outlive it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if any(word.startswith(f"hydra.sweep.dir={folder}/") for word in words):
            found.append(int(process.name))
    return found


def kill(folder, process, *, sweep):
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for one in sweeps(folder) if sweep else []:
        os.kill(one, signal.SIGKILL)


def finished(folder, *words):
    ended = forked.run(command(folder, *words), env=ENV, capture_output=True, text=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return (folder / "backtest.parquet").read_bytes(), json.loads((folder / "backtest.json").read_text()) | {
        "seconds": 0
    }


def parts(folder):
    return len(list(folder.glob("parts/fold-*.parquet")))


ONCE = ["backtest.folds=3", "backtest.refit=every_fold"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return finished(tmp_path_factory.mktemp("once") / "whole", *ONCE)


@pytest.mark.parametrize("sweep", [True, False], ids=["with its sweep", "alone"])
@pytest.mark.slow
def test_killed_once_after_the_first_fold_it_ends_with_the_same_bytes(tmp_path, undisturbed, sweep):
    """Alone: the sweep that it leaves behind goes on with the folds, and is waited for."""
    words, whole = ONCE, undisturbed
    killed = tmp_path / "killed"
    process, deadline = started(killed, *words), time.monotonic() + 200
    while parts(killed) < 1:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    kill(killed, process, sweep=sweep)
    assert not (killed / "backtest.parquet").exists()
    kept = (killed / "folds/fold-0/metrics.json").stat().st_mtime_ns
    assert finished(killed, *words) == whole
    assert (killed / "folds/fold-0/metrics.json").stat().st_mtime_ns == kept


@pytest.mark.slow
def test_killed_at_five_random_moments_it_ends_with_the_same_bytes(tmp_path):
    words = ["backtest.folds=3", "backtest.refit=every_fold", "trainer.max_epochs=2"]
    forked.ready()
    begun = time.monotonic()
    whole = finished(tmp_path / "whole", *words)
    lasts, draws = time.monotonic() - begun, random.Random("every_fold")
    for attempt in range(5):
        process = started(tmp_path / "killed", *words)
        time.sleep(draws.uniform(0.15, 0.9) * lasts)
        if process.poll() is None:
            kill(tmp_path / "killed", process, sweep=attempt % 2 == 0)
    assert finished(tmp_path / "killed", *words) == whole
