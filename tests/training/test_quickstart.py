"""The program as a process: the quickstart, Ctrl-C, and a sweep."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from program import TINY, heed_ctrl_c

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def start(*arguments, cwd):
    command = [sys.executable, str(ROOT / "train.py"), *map(str, arguments)]
    heed_ctrl_c()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # two threads beside a busy process are far slower
    return subprocess.Popen(
        command, cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("seed", [2])  # CI runs seed 1 as the README has it; all three are in docs/experiments.md
def test_the_quickstart_beats_the_seasonal_naive(tmp_path, seed):
    process = start("experiment=quickstart", f"seed={seed}", "hydra.run.dir=run", cwd=tmp_path)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    # commit dfe7d05 had exactly this with one thread; another machine rounds otherwise, step by step
    assert metrics["test"]["scaled"]["mse"] == pytest.approx(0.261855, abs=0.003)
    assert metrics["test"]["skill"] > 0.2
    assert metrics["test"]["flat"] == []
    assert "seasonal naive (24 steps)" in out and "best reachable" in out
    assert (tmp_path / "run/forecast.png").exists()


def test_ctrl_c_ends_with_one_word_and_a_checkpoint_to_go_on_from(tmp_path):
    process = start(
        *TINY, "trainer.max_epochs=1000", "callbacks.early_stopping.patience=1000", "hydra.run.dir=run", cwd=tmp_path
    )
    last = tmp_path / "run/checkpoints/last.ckpt"
    while not last.exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err.rstrip().endswith("Interrupted.") and "Traceback" not in err
    assert json.loads((tmp_path / "run/run.json").read_text())["status"] == "interrupted"
    assert json.loads((tmp_path / "run/metrics.json").read_text())["status"] == "interrupted"
    resumed = start("ckpt_path=run/checkpoints/last.ckpt", "trainer.max_epochs=1", cwd=tmp_path)
    _, err = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, err
    assert json.loads((tmp_path / "run/metrics.json").read_text())["status"] == "finished"


def test_a_sweep_has_one_folder_for_each_combination(tmp_path):
    process = start("-m", *TINY, "attention=full,prob", "seed=2", "trainer.limit_train_batches=2", cwd=tmp_path)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    runs = [json.loads(f.read_text()) for f in tmp_path.glob("multirun/sweep/*/metrics.json")]
    assert sorted((run["attention"], run["seed"]) for run in runs) == [
        ("full", 2),
        ("prob", 2),
    ]
