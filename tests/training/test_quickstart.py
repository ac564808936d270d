"""The quickstart as the README has it but for the number of its epochs, as a process."""

import json
import sys
from pathlib import Path

import forked
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


# CI runs seed 1 as the README has it, with all epochs; three seeds are in docs/experiments.md
@pytest.mark.parametrize("seed", [2])
def test_the_quickstart_beats_the_seasonal_naive(tmp_path, seed):
    words = ["experiment=quickstart", "trainer.max_epochs=2", f"seed={seed}", "hydra.run.dir=run"]
    command = [sys.executable, ROOT / "train.py", *words]
    done = forked.run(command, cwd=tmp_path, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    # with one thread; another machine rounds otherwise, step by step
    assert metrics["test"]["scaled"]["mse"] == pytest.approx(0.3272, abs=0.003)
    assert metrics["test"]["skill"] > 0.2
    assert metrics["test"]["flat"] == []
    assert "seasonal naive (168 steps)" in done.stdout and "best reachable" in done.stdout
    assert (tmp_path / "run/forecast.png").exists()
