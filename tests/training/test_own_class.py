"""The worked example of docs/own_class.md from an empty folder, and a class of one's own in several processes."""

import importlib
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from joblib.externals.loky import get_reusable_executor

from forecast.__main__ import main, start
from forecast.config.allow_list import trusted
from forecast.config.entry import logging_restored

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "own_class.md").read_text(encoding="utf-8")
TINY = (
    "data=demo",
    "data.rows=700",
    "seq_len=19",
    "label_len=7",
    "pred_len=5",
    "data.features=S",
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


@pytest.fixture
def ran(folder, monkeypatch, capsys):
    """`forecast ARGUMENTS` in that folder as in a process of its own: its exit status, and all that it prints."""
    monkeypatch.chdir(folder)

    def run(*arguments):
        monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(folder))])
        monkeypatch.setattr(sys, "argv", ["forecast", *arguments])
        sys.modules.pop("my_models", None)
        importlib.invalidate_caches()
        status = 0
        try:
            with logging_restored():
                main()
        except SystemExit as stop:
            status = stop.code
        return status, "".join(capsys.readouterr())

    yield run
    sys.modules.pop("my_models", None)


def finished(folder):
    return [json.loads(path.read_text()) for path in folder.rglob("run.json") if '"finished"' in path.read_text()]


@pytest.mark.slow
def test_the_example_trains_is_evaluated_and_forecasts_and_without_the_switch_does_not(folder, ran):
    for command in re.findall(r"^forecast (.*)$", PAGE, re.M):
        status, output = ran(*[word for word in command.split() if word not in ("--trust", "my_models")])
        assert status == 1 and "--trust my_models" in output
        status, output = ran(*command.split())
        assert status == 0, output
    assert (folder / "forecast.csv").is_file()
    assert json.loads((folder / "drift" / "metrics.json").read_text())["model"] == "my_models.Drift"
    info = json.loads((folder / "drift" / "run.json").read_text())
    assert re.fullmatch("[0-9a-f]{8}", info["versions"]["code of my_models"])
    status, output = ran(
        "train", "--trust", "my_models", "ckpt_path=drift/checkpoints/last.ckpt", "trainer.max_epochs=2"
    )
    assert status == 0, output


SWEEP = ("-m", *TINY, *QUIET, "model._target_=my_models.Drift", "+model.scale=1.0,2.0")


@pytest.mark.slow
def test_a_sweep_builds_it_only_with_the_switch_and_anew_when_its_code_changes(folder, ran):
    status, output = ran("train", *SWEEP)
    assert status == 1 and "--trust my_models" in output and finished(folder) == []
    status, output = ran("train", "--trust", "my_models", *SWEEP)
    assert status == 0, output
    assert len(finished(folder)) == 2
    status, output = ran("train", "--trust", "my_models", *SWEEP)
    assert output.count("finished before") == 2
    (folder / "my_models.py").write_text((folder / "my_models.py").read_text() + "\nSCALE = 3\n")
    status, output = ran("train", "--trust", "my_models", *SWEEP)
    assert status == 0 and "finished before" not in output and len(finished(folder)) == 4


@pytest.mark.slow
def test_the_processes_of_a_sweep_build_it_only_with_the_switch(folder, ran):
    """The same two processes do both sweeps."""
    try:
        status, output = ran("train", *SWEEP, "hydra/launcher=joblib")
        assert status == 1 and "--trust my_models" in output and finished(folder) == []
        status, output = ran("train", "--trust", "my_models", *SWEEP, "hydra/launcher=joblib")
        assert status == 0, output
        assert len(finished(folder)) == 2
    finally:
        get_reusable_executor().shutdown(wait=True)


@pytest.mark.slow
def test_users_own_yaml_may_name_it_and_may_not_trust_it(folder, ran):
    (folder / "mine" / "model").mkdir(parents=True)
    yaml = folder / "mine" / "model" / "drift.yaml"
    head = "defaults:\n  - override /attention@_global_.attention: null\n  - _self_\n"
    yaml.write_text(f"{head}_target_: my_models.Drift\nscale: 2.0\n")
    words = ["--config-dir", "mine", *TINY, *QUIET, "model=drift"]
    words.remove("model=nlinear")
    status, output = ran("train", *words)
    assert status == 1 and "--trust my_models" in output
    yaml.write_text(f"# @package _global_\n{head}trust: [my_models]\nmodel:\n  _target_: my_models.Drift\n")
    status, output = ran("train", *words)
    assert status == 1 and "trust=['my_models']: unknown key" in output and "Drift: not allowed" in output
    yaml.write_text(f"{head}_target_: my_models.Drift\nscale: 2.0\n")
    status, output = ran("train", "--trust", "my_models", *words)
    assert status == 0, output


@pytest.mark.parametrize(
    ("begun_by", "repeated"), [("train.py", ["--trust=my_models"]), ("forecast", ["train", "--trust", "my_models"])]
)
def test_processes_that_lightning_starts_trust_it_too(folder, monkeypatch, begun_by, repeated):
    """It starts them with what is in sys.argv; tests/training/test_processes.py shows that it does."""
    seen = []
    stub = SimpleNamespace(train=lambda cfg: seen.append(([*sys.argv], {*trusted()})))
    monkeypatch.setitem(sys.modules, "forecast.apps.train", stub)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    words = ["trainer=ddp", "model=nlinear", "model._target_=my_models.Drift"]
    command = ["train", "--trust", "my_models", *words][begun_by == "train.py" :]
    for arguments in (command, [*repeated, *words]):
        monkeypatch.setattr(sys, "argv", [begun_by, *arguments])
        with logging_restored():
            start("train") if begun_by == "train.py" else main()
    assert seen == [([begun_by, *repeated, *words], {"my_models"})] * 2
