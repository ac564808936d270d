"""The quickstart as the README has it, as a process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [2])  # CI runs seed 1 as the README has it; all three are in docs/experiments.md
def test_the_quickstart_beats_the_seasonal_naive(tmp_path, seed):
    command = [sys.executable, ROOT / "train.py", "experiment=quickstart", f"seed={seed}", "hydra.run.dir=run"]
    threads = os.environ | {"OMP_NUM_THREADS": "1"}  # two beside a busy process are far slower
    done = subprocess.run(command, cwd=tmp_path, env=threads, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    # commit dfe7d05 had exactly this with one thread; another machine rounds otherwise, step by step
    assert metrics["test"]["scaled"]["mse"] == pytest.approx(0.261855, abs=0.003)
    assert metrics["test"]["skill"] > 0.2
    assert metrics["test"]["flat"] == []
    assert "seasonal naive (168 steps)" in done.stdout and "best reachable" in done.stdout
    assert (tmp_path / "run/forecast.png").exists()
