"""The worked example of docs/own_class.md from an empty folder, and a class of one's own in several processes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own_class.md").read_text(encoding="utf-8")
TINY = (
    "data=demo",
    "data.rows=700",
    "seq_len=19",
    "label_len=7",
    "pred_len=5",
    "model=nlinear",
    "trainer.max_epochs=1",
)
QUIET = ("trainer.accelerator=cpu", "trainer.enable_progress_bar=false", "callbacks.figures=null")


@pytest.fixture
def folder(tmp_path):
    """An empty folder with my_models.py of the page."""
    (module,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    (tmp_path / "my_models.py").write_text(module)
    return tmp_path


def ran(folder, *arguments):
    """`forecast ARGUMENTS`: its exit status, and all that it prints."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = (
        [sys.executable, "-P", "-m", "forecast"] if sys.version_info >= (3, 11) else [sys.executable, "-m", "forecast"]
    )
    end = subprocess.run(
        [*command, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    return end.returncode, end.stdout + end.stderr


def finished(folder):
    return [json.loads(path.read_text()) for path in folder.rglob("run.json") if '"finished"' in path.read_text()]


@pytest.mark.slow
def test_the_example_trains_is_evaluated_and_forecasts_and_without_the_switch_does_not(folder):
    train, evaluate, predict = re.findall(r"^forecast (.*)$", PAGE, re.M)
    for command in (train, evaluate, predict):
        status, output = ran(folder, *[word for word in command.split() if word not in ("--trust", "my_models")])
        assert status == 1 and ("--trust my_models" in output or "no such file" in output)
        status, output = ran(folder, *command.split())
        assert status == 0, output
        refused, output = ran(folder, *[word for word in command.split() if word not in ("--trust", "my_models")])
        assert refused == 1 and "--trust my_models" in output
    assert (folder / "forecast.csv").is_file()
    assert json.loads((folder / "drift" / "metrics.json").read_text())["model"] == "my_models.Drift"
    info = json.loads((folder / "drift" / "run.json").read_text())
    assert re.fullmatch("[0-9a-f]{12}", info["versions"]["code of my_models"])
    status, output = ran(
        folder, "train", "--trust", "my_models", "ckpt_path=drift/checkpoints/last.ckpt", "trainer.max_epochs=2"
    )
    assert status == 0, output


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["basic", "joblib"])
def test_a_sweep_builds_it_in_every_process_and_only_with_the_switch(folder, launcher):
    words = (
        "-m",
        *TINY,
        *QUIET,
        "model._target_=my_models.Drift",
        "+model.scale=1.0,2.0",
        f"hydra/launcher={launcher}",
    )
    status, output = ran(folder, "train", *words)
    assert status == 1 and "--trust my_models" in output and finished(folder) == []
    status, output = ran(folder, "train", "--trust", "my_models", *words)
    assert status == 0, output
    assert len(finished(folder)) == 2
    status, output = ran(folder, "train", "--trust", "my_models", *words)
    assert output.count("has finished before") == 2
    (folder / "my_models.py").write_text((folder / "my_models.py").read_text() + "\nSCALE = 3\n")
    status, output = ran(folder, "train", "--trust", "my_models", *words)
    assert status == 0 and "has finished before" not in output and len(finished(folder)) == 4


@pytest.mark.slow
def test_users_own_yaml_may_name_it_and_may_not_trust_it(folder):
    (folder / "mine" / "model").mkdir(parents=True)
    yaml = folder / "mine" / "model" / "drift.yaml"
    head = "defaults:\n  - override /attention@_global_.attention: null\n  - _self_\n"
    yaml.write_text(f"{head}_target_: my_models.Drift\nscale: 2.0\n")
    words = ["--config-dir", "mine", *TINY, *QUIET, "model=drift"]
    words.remove("model=nlinear")
    status, output = ran(folder, "train", *words)
    assert status == 1 and "--trust my_models" in output
    yaml.write_text(f"# @package _global_\n{head}trust: [my_models]\nmodel:\n  _target_: my_models.Drift\n")
    status, output = ran(folder, "train", *words)
    assert status == 1 and "trust=['my_models']: unknown key" in output and "Drift: not allowed" in output
    yaml.write_text(f"{head}_target_: my_models.Drift\nscale: 2.0\n")
    status, output = ran(folder, "train", "--trust", "my_models", *words)
    assert status == 0, output


@pytest.mark.slow
def test_processes_that_lightning_starts_trust_it_too(folder):
    words = (*TINY, *QUIET, "model._target_=my_models.Drift", "trainer.strategy=ddp", "trainer.devices=2")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "train.py"), *words, "--trust", "my_models"]
    end = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert end.returncode == 0, end.stdout + end.stderr
    assert len(finished(folder)) == 1
