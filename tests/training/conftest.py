"""One tiny training that many tests read."""

import json

import pytest
from program import TINY, call


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """The run folder of `train.py` with TINY, without the look for leaks, which leaves no file."""
    folder = tmp_path_factory.mktemp("tiny") / "run"
    call("train", *TINY, "checks.leakage=false", f"hydra.run.dir={folder}")
    return folder


@pytest.fixture
def best(tiny_run):
    """best.ckpt of the tiny run."""
    return tiny_run / "checkpoints" / "best.ckpt"


@pytest.fixture
def metrics(tiny_run):
    """metrics.json of the tiny run."""
    return json.loads((tiny_run / "metrics.json").read_text())
